import torch
from torch import nn

from .attention import HandQuery
from .auction import AuctionEncoder, last_token, side_means
from .hand import HandEncoder


class CallHead(nn.Module):
    """A bid's logit is made of its level, its strain, and a low-rank term of both."""

    def __init__(self, dim, width, rank=4):
        super().__init__()
        self.rank = rank
        self.level = nn.Linear(dim, 7 * (rank + 1))
        self.strain = nn.Linear(dim, 5 * (rank + 1))
        self.special = nn.Linear(dim, 3)
        self.fit = nn.Linear(width, 1, bias=False)
        self.notrump = nn.Parameter(torch.zeros(1))

    def forward(self, h, suits):
        n = len(h)
        level = self.level(h).view(n, 7, self.rank + 1)
        strain = self.strain(h).view(n, 5, self.rank + 1)
        fit = self.fit(suits).squeeze(-1).flip(1)
        fit = torch.cat([fit, self.notrump.expand(n, 1)], dim=1)
        bids = level[:, :, None, 0] + (strain[:, :, 0] + fit)[:, None, :]
        bids = bids + torch.einsum("nlr,nsr->nls", level[:, :, 1:], strain[:, :, 1:])
        return torch.cat([bids.flatten(1), self.special(h)], dim=1)


class TrickHead(nn.Module):
    """Ordinal: logits of more than 0, 1, ... 12 tricks with ordered cuts."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.first = nn.Parameter(torch.tensor([-4.0]))
        self.gaps = nn.Parameter(torch.full((12,), 0.1))

    def forward(self, h):
        gaps = nn.functional.softplus(self.gaps)
        cuts = torch.cat([self.first, self.first + gaps.cumsum(0)])
        return self.score(h) - cuts


class Bidder(nn.Module):
    def __init__(self, dim=32, width=24, heads=4, hidden=48, depth=2, drop=0.1):
        super().__init__()
        self.hand = HandEncoder(width, dim)
        self.auction = AuctionEncoder(dim, heads, hidden, depth)
        self.ask = HandQuery(dim, heads)
        self.fuse = nn.Linear(5 * dim, 2 * dim)
        self.drop = nn.Dropout(drop)
        self.call = CallHead(2 * dim, width)
        self.tricks = TrickHead(2 * dim)

    def forward(self, suits, calls, seats, vul, legal):
        per_suit, hand = self.hand(suits)
        tokens, padded = self.auction(calls, seats, vul)
        ours, theirs = side_means(tokens, calls, seats)
        h = torch.cat([hand, self.ask(hand, tokens, padded), ours, theirs, last_token(tokens, padded)], dim=-1)
        h = self.drop(nn.functional.gelu(self.fuse(h)))
        logits = self.call(h, per_suit).masked_fill(~legal, float("-inf"))
        logp = logits.log_softmax(-1).masked_fill(~legal, 0.0)
        return {"logp": logp, "tricks": self.tricks(h)}
