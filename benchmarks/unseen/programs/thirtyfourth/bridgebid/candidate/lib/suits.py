import paddle
import paddle.nn.functional as F
from paddle import nn

from .build import dense, table


def describe(suits):
    """Length, high-card points and quick tricks per suit."""
    ace, king, queen, jack = (suits[:, :, i] for i in range(4))
    points = 4.0 * ace + 3.0 * king + 2.0 * queen + jack
    quick = ace + 0.5 * king * (1.0 + ace) + 0.5 * ace * queen * (1.0 - king)
    return paddle.stack([suits.mean(axis=-1), 0.1 * points, 0.5 * quick], axis=-1)


class HandNet(nn.Layer):
    def __init__(self, width, dim):
        super().__init__()
        self.cards = dense(13, width)
        self.shape = dense(3, width, bias=False)
        self.suit = table(4, width)
        self.others = dense(width, width)
        self.pool = dense(2 * width, dim)

    def forward(self, suits):
        h = F.relu(self.cards(suits) + self.shape(describe(suits)))
        h = h + self.suit.weight
        rest = (h.sum(axis=1, keepdim=True) - h) / 3.0
        h = h + F.tanh(self.others(rest))
        return h, self.pool(paddle.concat([h.mean(axis=1), h.max(axis=1)], axis=-1))
