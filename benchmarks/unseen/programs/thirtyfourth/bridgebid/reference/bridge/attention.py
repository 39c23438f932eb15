import torch
from torch import nn


def slopes(heads):
    """Of ALiBi: 2^-2, 2^-4, ... for four heads."""
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])


def split(x, heads):
    n, t, d = x.shape
    return x.view(n, t, heads, d // heads).transpose(1, 2)


def merge(x):
    n, h, t, d = x.shape
    return x.transpose(1, 2).reshape(n, t, h * d)


class AuctionAttention(nn.Module):
    """Causal; distance in calls lowers the score, and each head has a bias for calls of one's own side."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.side = nn.Parameter(torch.zeros(heads, 2))
        self.register_buffer("slope", slopes(heads), persistent=False)

    def bias(self, seats, dtype):
        t = seats.shape[1]
        place = torch.arange(t, device=seats.device)
        far = (place[:, None] - place[None, :]).to(dtype)
        same = ((seats[:, :, None] - seats[:, None, :]) % 2 == 0).long()
        side = self.side[:, same].transpose(0, 1)
        causal = (far < 0)[None, None]
        return side - self.slope.to(dtype).view(1, -1, 1, 1) * far.clamp(min=0), causal

    def forward(self, x, seats, padded):
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        bias, causal = self.bias(seats, x.dtype)
        score = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        score = score.masked_fill(causal | padded[:, None, None, :], float("-inf"))
        return self.out(merge(score.softmax(-1) @ v))


class HandQuery(nn.Module):
    """The hand asks the auction."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.keyvalue = nn.Linear(dim, 2 * dim)

    def forward(self, hand, tokens, padded):
        q = split(self.query(hand).unsqueeze(1), self.heads)
        k, v = (split(part, self.heads) for part in self.keyvalue(tokens).chunk(2, dim=-1))
        score = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        weight = score.masked_fill(padded[:, None, None, :], float("-inf")).softmax(-1)
        return merge(weight @ v).squeeze(1)
