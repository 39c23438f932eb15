import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Normal

from .layers import linear
from .ops import ring_gap


class Around(nn.Layer):
    """Attention of the columns of one row; what counts beside the content is the way round the ring."""

    def __init__(self, channels, heads, width):
        super().__init__()
        self.heads, self.size = heads, channels // heads
        self.ln = nn.LayerNorm(channels)
        self.query, self.key, self.value = (linear(channels, channels, bias=False) for _ in range(3))
        self.merge = linear(channels, channels)
        self.closeness = self.create_parameter([heads, width // 2 + 1], default_initializer=Normal(0.0, 0.3))

    def split(self, x):
        return x.reshape([0, 0, self.heads, self.size])

    def forward(self, x):
        n = x.shape[1]
        h = self.ln(x)
        content = paddle.einsum("bqhd,bkhd->bhqk", self.split(self.query(h)), self.split(self.key(h)))
        way = paddle.index_select(self.closeness, ring_gap(n).flatten(), axis=1).reshape([self.heads, n, n])
        share = F.softmax(content / self.size ** 0.5 + way, axis=-1)
        return x + self.merge(paddle.einsum("bhqk,bkhd->bqhd", share, self.split(self.value(h))).flatten(2))
