"""ProbSparse and full attention."""

import math

import numpy as np
import torch
from torch import nn


class FullAttention(nn.Module):
    """Queries ``[B, H, L, E]``, keys and values ``[B, H, S, E]`` -> ``[B, H, L, E]``."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values):
        scores = torch.einsum("bhle,bhse->bhls", queries, keys) / math.sqrt(queries.shape[-1])
        return self.dropout(scores.softmax(-1)) @ values


class ProbAttention(nn.Module):
    """ProbSparse self-attention (section 3.1): only the queries whose attention is far from uniform are computed in full.

    How far a query is from uniform is estimated on a random sample of keys, drawn anew in each call, in eval mode too. The
    other queries get the mean of the values, or, where a step must not see later ones (``causal``), their sum so far.
    ``seed`` fixes the sample.
    """

    def __init__(self, factor, dropout, *, causal=False):
        super().__init__()
        self.factor = factor
        self.causal = causal
        self.seed = None
        self.dropout = nn.Dropout(dropout)

    def sample(self, queries, total):
        shape = (queries, min(self.factor * math.ceil(math.log(total)), total))
        if self.seed is not None:
            return torch.from_numpy(np.random.default_rng(self.seed).integers(total, size=shape))
        return torch.randint(total, shape)

    def sparsity(self, queries, keys):
        """Equation 4: the greatest score less the mean one, over the sampled keys; ``[B, H, L]``."""
        sampled = keys[:, :, self.sample(queries.shape[2], keys.shape[2])]
        scores = (queries.unsqueeze(-2) @ sampled.transpose(-2, -1)).squeeze(-2)
        return scores.max(-1).values - scores.sum(-1) / keys.shape[2]

    def forward(self, queries, keys, values):
        length, width = queries.shape[2:]
        count = min(self.factor * math.ceil(math.log(length)), length)
        chosen = self.sparsity(queries, keys).topk(count).indices.unsqueeze(-1)
        active = queries.gather(2, chosen.expand(-1, -1, -1, width))
        scores = active @ keys.transpose(-2, -1) / math.sqrt(width)
        if self.causal:
            later = torch.arange(keys.shape[2], device=keys.device) > chosen
            scores = scores.masked_fill(later, -torch.inf)
        lazy = values.cumsum(2) if self.causal else values.mean(2, keepdim=True).expand(-1, -1, length, -1)
        return lazy.scatter(2, chosen.expand(-1, -1, -1, width), self.dropout(scores.softmax(-1)) @ values)


class AttentionLayer(nn.Module):
    """Projections of queries, keys and values ``[B, L, D]`` into heads, and of what the heads give back into one."""

    def __init__(self, attention, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.attention = attention
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, queries, keys, values):
        x = self.attention(self.split(self.query(queries)), self.split(self.key(keys)), self.split(self.value(values)))
        return self.out(x.transpose(1, 2).flatten(2))
