"""Squares exchange what they know."""
import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from .starts import linear, small


def relative_cells():
    rank, file = np.divmod(np.arange(64), 8)
    down = np.subtract.outer(rank, rank) + 7
    across = np.subtract.outer(file, file) + 7
    return down * 15 + across


class SquareMixer(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = linear(width, width * 3)
        self.out = linear(width, width)
        self.offset = self.create_parameter([225, heads], default_initializer=small)
        self.ln2 = nn.LayerNorm(width)
        self.grow = linear(width, width * 2)
        self.shrink = linear(width * 2, width)
        self.register_buffer("cells", paddle.to_tensor(relative_cells().reshape(-1)), persistable=False)

    def attend(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape([b, n, 3, self.heads, c // self.heads]).unbind(2)
        bias = paddle.index_select(self.offset, self.cells).reshape([n, n, self.heads])
        scores = paddle.einsum("bihd,bjhd->bijh", q, k) * (c // self.heads) ** -0.5 + bias
        mixed = paddle.einsum("bijh,bjhd->bihd", F.softmax(scores, axis=2), v)
        return self.out(mixed.reshape([b, n, c]))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.shrink(paddle.square(F.relu(self.grow(self.ln2(x)))))
