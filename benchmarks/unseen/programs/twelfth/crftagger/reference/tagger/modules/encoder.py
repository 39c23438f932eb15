import math

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class RelativeSelfAttention(nn.Module):
    """Self-attention with a learned bias of the clipped distance, one table a head."""

    def __init__(self, dim, heads, clip):
        super().__init__()
        self.heads, self.clip = heads, clip
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.distance = nn.Parameter(torch.empty(heads, 2 * clip + 1))

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        place = torch.arange(t, device=x.device)
        offset = (place[None, :] - place[:, None]).clamp(-self.clip, self.clip) + self.clip
        scores = scores + self.distance[:, offset]
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        return self.out(x)


class ContextEncoder(nn.Module):
    def __init__(self, dim, cfg):
        super().__init__()
        self.rnn = nn.GRU(dim, cfg.hidden, batch_first=True, bidirectional=True)
        self.attention = RelativeSelfAttention(2 * cfg.hidden, cfg.heads, cfg.clip_distance)
        self.norm = nn.LayerNorm(2 * cfg.hidden, eps=cfg.norm_eps)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, mask):
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.norm(h + self.drop(self.attention(h, mask)))
