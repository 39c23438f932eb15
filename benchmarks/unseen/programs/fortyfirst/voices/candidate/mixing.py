"""How notes learn of each other."""
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .basics import RootMean, linear, table


class ByInterval(nn.Layer):
    """Attention with a bias for the interval and a price on distance in time."""

    def __init__(self, width, heads, cells=16):
        super().__init__()
        self.heads = heads
        self.price = self.create_parameter([heads], default_initializer=I.Assign(np.linspace(-2, 1, heads)))
        self.ask = linear(width, width, bias=False, weight=I.XavierUniform(gain=0.5 ** 0.5))
        self.tell = linear(width, 2 * width, bias=False)
        self.close = linear(width, width)
        self.bias = table(cells, heads, std=0.1)

    def forward(self, x, cell, apart, real):
        b, n, w = x.shape
        d = w // self.heads
        q = self.ask(x).reshape([b, n, self.heads, d])
        k, v = self.tell(x).reshape([b, n, 2, self.heads, d]).unbind(axis=2)
        score = paddle.einsum("bihd,bjhd->bijh", q, k) / d ** 0.5
        score = score + self.bias(cell) - apart[..., None] * F.softplus(self.price)
        score = paddle.where((real > 0)[:, None, :, None], score, paddle.full_like(score, -1e30))
        share = F.softmax(score, axis=2)
        return self.close(paddle.einsum("bijh,bjhd->bihd", share, v).reshape([b, n, w]))


class WithChord(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.blend = linear(2 * width, width)

    def forward(self, x, together):
        voices = together.sum(axis=-1, keepdim=True)
        around = paddle.bmm(together, x) / paddle.clip(voices, min=1.0)
        return F.tanh(self.blend(paddle.concat([x, around], axis=-1)))


class Gated(nn.Layer):
    def __init__(self, width, inner):
        super().__init__()
        self.inner = inner
        self.widen = linear(width, 2 * inner)
        self.narrow = linear(inner, width)

    def forward(self, x):
        value, gate = self.widen(x).split([self.inner, self.inner], axis=-1)
        return self.narrow(F.gelu(gate, approximate=True) * value)


class Stage(nn.Layer):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.listen, self.stack, self.think = ByInterval(width, heads), WithChord(width), Gated(width, inner)
        self.even = nn.LayerList([RootMean(width), RootMean(width), RootMean(width)])
        self.amount = self.create_parameter([3, width], default_initializer=I.Constant(0.3))

    def forward(self, x, cell, apart, together, real):
        a, c, g = self.amount.unbind(axis=0)
        x = x + a * self.listen(self.even[0](x), cell, apart, real)
        x = x + c * self.stack(self.even[1](x), together)
        x = x + g * self.think(self.even[2](x))
        return x
