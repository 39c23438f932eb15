import torch
from torch import nn

POINTS = [4.0, 3.0, 2.0, 1.0]


class HandEncoder(nn.Module):
    """Every suit by the same layers, each told of the three others."""

    def __init__(self, width, dim):
        super().__init__()
        self.cards = nn.Linear(13, width)
        self.shape = nn.Linear(3, width, bias=False)
        self.suit = nn.Embedding(4, width)
        self.others = nn.Linear(width, width)
        self.pool = nn.Linear(2 * width, dim)

    @staticmethod
    def figures(suits):
        """Length, points and quick tricks of each suit, scaled."""
        points = (suits[..., :4] * suits.new_tensor(POINTS)).sum(-1)
        a, k, q = suits[..., 0], suits[..., 1], suits[..., 2]
        quick = a + 0.5 * k + 0.5 * a * k + 0.5 * a * q * (1 - k)
        return torch.stack([suits.sum(-1) / 13, points / 10, quick / 2], dim=-1)

    def forward(self, suits):
        h = torch.relu(self.cards(suits) + self.shape(self.figures(suits))) + self.suit.weight
        rest = (h.sum(1, keepdim=True) - h) / 3
        h = h + torch.tanh(self.others(rest))
        return h, self.pool(torch.cat([h.mean(1), h.amax(1)], dim=-1))
