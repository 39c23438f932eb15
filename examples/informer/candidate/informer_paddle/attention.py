"""ProbSparse and full attention."""

import math

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

from .breaks import broken


class FullAttention(nn.Layer):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values):
        scores = paddle.matmul(queries, keys, transpose_y=True) / math.sqrt(queries.shape[-1])
        return paddle.matmul(self.dropout(functional.softmax(scores)), values)


class ProbAttention(nn.Layer):
    """Queries, keys and values ``[B, H, L, E]`` -> ``[B, H, L, E]``; ``seed`` fixes the sampled keys."""

    def __init__(self, factor, dropout, *, causal=False):
        super().__init__()
        self.factor = factor
        self.causal = causal
        self.seed = None
        self.dropout = nn.Dropout(dropout)

    def sample(self, queries, total):
        shape = [queries, min(self.factor * math.ceil(math.log(total)), total)]
        if self.seed is not None:
            return paddle.to_tensor(np.random.default_rng(self.seed).integers(total, size=shape))
        return paddle.randint(0, total, shape)

    def sparsity(self, queries, keys):
        batch, heads, length, width = queries.shape
        total = keys.shape[2]
        index = self.sample(length, total)
        sampled = paddle.index_select(keys, index.flatten(), axis=2).reshape([batch, heads, length, -1, width])
        scores = paddle.matmul(sampled, queries.unsqueeze(-1)).squeeze(-1)
        return scores.max(-1) - (scores.mean(-1) if broken("measure") else scores.sum(-1) / total)

    def lazy(self, values):
        if self.causal and not broken("cumsum"):
            return values.cumsum(2)
        return values.mean(2, keepdim=True).expand(values.shape)

    def forward(self, queries, keys, values):
        heads, length, width = queries.shape[1:]
        count = min(self.factor * math.ceil(math.log(length)), length)
        _, chosen = paddle.topk(self.sparsity(queries, keys), count)
        chosen = chosen.unsqueeze(-1)
        index = chosen.expand([-1, -1, -1, width])
        active = paddle.take_along_axis(queries, index, axis=2)
        scores = paddle.matmul(active, keys, transpose_y=True) / math.sqrt(heads * width if broken("scale") else width)
        if self.causal:
            later = paddle.arange(keys.shape[2]) > chosen
            scores = paddle.where(later, paddle.full_like(scores, -math.inf), scores)
        update = paddle.matmul(self.dropout(functional.softmax(scores)), values)
        return paddle.put_along_axis(self.lazy(values), index, update, axis=2)


class AttentionLayer(nn.Layer):
    def __init__(self, attention, width, heads):
        super().__init__()
        self.heads = heads
        self.attention = attention
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.reshape([*x.shape[:2], self.heads, -1]).transpose([0, 2, 1, 3])

    def forward(self, queries, keys, values):
        x = self.attention(self.split(self.query(queries)), self.split(self.key(keys)), self.split(self.value(values)))
        return self.out(x.transpose([0, 2, 1, 3]).flatten(2))
