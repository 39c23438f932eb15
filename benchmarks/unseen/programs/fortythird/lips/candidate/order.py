"""Frames in their order; and the guess who it is, which must fail."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.autograd import PyLayer

from .plain import conv1d, linear


class Order(nn.Layer):
    def __init__(self, width, memory):
        super().__init__()
        self.near = conv1d(width, width, 3, groups=width)
        self.far = conv1d(width, width, 5, groups=width)
        self.blend = linear(2 * width, width)
        self.both_ways = nn.GRU(width, memory, direction="bidirect")
        self.even = nn.LayerNorm(2 * memory)
        self.forget = nn.Dropout(0.1)

    def forward(self, x, lengths, there):
        y = (x * there.unsqueeze(-1)).transpose([0, 2, 1])
        y = paddle.concat([self.near(y), self.far(y)], axis=1).transpose([0, 2, 1])
        out, _ = self.both_ways(x + paddle.tanh(self.blend(y)), sequence_length=lengths)
        return self.forget(self.even(out * there.unsqueeze(-1)))


class TurnRound(PyLayer):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * -ctx.strength


class Guess(nn.Layer):
    def __init__(self, width, people):
        super().__init__()
        self.one, self.two = linear(2 * width, width), linear(width, people)

    def forward(self, seen, there):
        seen = TurnRound.apply(seen, 0.3)
        share = there / there.sum(axis=1, keepdim=True)
        mean = paddle.einsum("bt,btc->bc", share, seen)
        spread = paddle.einsum("bt,btc->bc", share, (seen - mean[:, None]).square())
        figures = paddle.concat([mean, paddle.sqrt(spread + 1e-5)], axis=-1)
        return self.two(F.relu(self.one(figures)))
