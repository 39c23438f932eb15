import torch
from torch import nn

from .attention import AuctionAttention
from .calls import PAD, START, TOKENS
from .norm import RMSNorm


class Gated(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.both = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, dim=-1)
        return self.down(nn.functional.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1, self.attn = RMSNorm(dim), AuctionAttention(dim, heads)
        self.norm2, self.feed = RMSNorm(dim), Gated(dim, hidden)

    def forward(self, x, seats, padded):
        x = x + self.attn(self.norm1(x), seats, padded)
        return x + self.feed(self.norm2(x))


class AuctionEncoder(nn.Module):
    def __init__(self, dim, heads, hidden, depth):
        super().__init__()
        self.call = nn.Embedding(TOKENS, dim, padding_idx=PAD)
        self.seat = nn.Embedding(4, dim)
        self.vul = nn.Linear(2, dim, bias=False)
        self.blocks = nn.ModuleList([Block(dim, heads, hidden) for _ in range(depth)])
        self.norm = RMSNorm(dim)
        self.scale = dim ** 0.5

    def forward(self, calls, seats, vul):
        padded = calls == PAD
        x = self.call(calls) * self.scale + self.seat(seats) + self.vul(vul).unsqueeze(1)
        for block in self.blocks:
            x = block(x, seats, padded)
        return self.norm(x), padded


def side_means(tokens, calls, seats):
    """Mean over the calls of our side and of theirs; zero where a side has not called."""
    real = (calls != PAD) & (calls != START)
    out = []
    for side in (0, 1):
        mine = (real & (seats % 2 == side)).to(tokens.dtype).unsqueeze(-1)
        out.append((tokens * mine).sum(1) / mine.sum(1).clamp(min=1))
    return out


def last_token(tokens, padded):
    index = (~padded).sum(1) - 1
    return tokens[torch.arange(len(tokens), device=tokens.device), index]
