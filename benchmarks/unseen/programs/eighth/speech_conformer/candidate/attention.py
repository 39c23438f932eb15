import math

import paddle
from paddle import nn
import paddle.nn.functional as F


def relative_positions(length, dim, dtype):
    """Sines and cosines of the distances length - 1, ..., 0, ..., 1 - length: [2 * length - 1, dim]."""
    distance = paddle.arange(length - 1, -length, -1, dtype="float64").unsqueeze(1)
    rate = paddle.exp(paddle.arange(0, dim, 2, dtype="float64") * (-math.log(10000.0) / dim))
    angle = distance * rate
    table = paddle.stack([paddle.sin(angle), paddle.cos(angle)], axis=-1)
    return table.reshape([2 * length - 1, dim]).astype(dtype)


class RelativeAttention(nn.Layer):
    """Attention by content and distance (Dai et al. 2019)."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.depth = heads, dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.position = nn.Linear(dim, dim, bias_attr=False)
        self.bias_u = self.create_parameter([heads, self.depth])
        self.bias_v = self.create_parameter([heads, self.depth])
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def shift(x):
        """[b, h, t, 2t - 1] by distance to [b, h, t, t] by key."""
        b, h, t, _ = x.shape
        i = paddle.arange(t)
        index = (t - 1) - i.unsqueeze(1) + i.unsqueeze(0)
        return paddle.take_along_axis(x, index.expand([b, h, t, t]), axis=3)

    def split(self, x):
        return x.reshape([*x.shape[:-1], self.heads, self.depth])

    def forward(self, x, positions, keep):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        p = self.split(self.position(positions))
        content = paddle.einsum("bihd,bjhd->bhij", q + self.bias_u, k)
        distance = self.shift(paddle.einsum("bihd,nhd->bhin", q + self.bias_v, p))
        scores = (content + distance) / math.sqrt(self.depth)
        keep = keep.unsqueeze([1, 2])
        scores = paddle.where(keep, scores, paddle.full_like(scores, paddle.finfo(scores.dtype).min))
        weights = F.softmax(scores, axis=-1) * keep.astype(scores.dtype)
        mixed = paddle.einsum("bhij,bjhd->bihd", self.dropout(weights), v)
        return self.out(mixed.flatten(2))
