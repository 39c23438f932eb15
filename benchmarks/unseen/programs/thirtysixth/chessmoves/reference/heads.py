import math

import torch
from torch import nn
from torch.nn import functional as F

from .layers import ConvNorm


class PolicyHead(nn.Module):
    """Score of a move: its from-square's query times its to-square's key; promotions add an offset."""

    def __init__(self, channels, width, cap):
        super().__init__()
        self.width, self.cap = width, cap
        self.source = nn.Linear(channels, width)
        self.target = nn.Linear(channels, width)
        self.promotion = nn.Linear(width, 4, bias=False)

    def forward(self, squares, moves, mask):
        origin, goal, promo = moves.unbind(dim=-1)
        key = self.target(squares)
        scores = self.source(squares) @ key.transpose(1, 2) / math.sqrt(self.width)
        rows = torch.arange(len(moves), device=moves.device)[:, None]
        extra = F.pad(self.promotion(key), (1, 0))
        logits = scores[rows, origin, goal] + extra[rows, goal, promo]
        logits = self.cap * torch.tanh(logits / self.cap)
        log_p = F.log_softmax(logits.masked_fill(~mask, float("-inf")), dim=-1)
        return log_p.masked_fill(~mask, 0.0)


class ValueHead(nn.Module):
    def __init__(self, channels, planes, hidden):
        super().__init__()
        self.squeeze = ConvNorm(channels, planes, 1)
        self.fc = nn.Linear(planes * 64, hidden)
        self.wdl = nn.Linear(hidden, 3)
        self.left = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.mish(self.fc(F.mish(self.squeeze(x)).flatten(1)))
        return self.wdl(h), F.softplus(self.left(h)).squeeze(-1)
