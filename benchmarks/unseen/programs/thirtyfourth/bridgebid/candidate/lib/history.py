"""The auction so far."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .build import dense, table
from .mixing import AuctionMixer
from .vocab import BEGIN, PAD, SIZE


class Rms(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.gain = self.create_parameter([dim], default_initializer=I.Constant(1.0))

    def forward(self, x):
        size = x.square().mean(axis=-1, keepdim=True)
        return self.gain * x / paddle.sqrt(size + 1e-5)


class Layer(nn.Layer):
    def __init__(self, dim, heads, hidden, gain):
        super().__init__()
        self.norm1 = Rms(dim)
        self.attn = AuctionMixer(dim, heads, gain)
        self.norm2 = Rms(dim)
        self.both = dense(dim, 2 * hidden, bias=False)
        self.down = dense(hidden, dim, bias=False, gain=gain)

    def forward(self, x, seats, empty):
        x = x + self.attn(self.norm1(x), seats, empty)
        gate, up = self.both(self.norm2(x)).chunk(2, axis=-1)
        return x + self.down(F.silu(gate) * up)


class History(nn.Layer):
    def __init__(self, dim, heads, hidden, depth):
        super().__init__()
        self.call = table(SIZE, dim, padding_idx=PAD)
        self.seat = table(4, dim)
        self.vul = dense(2, dim, bias=False)
        self.layers = nn.LayerList([Layer(dim, heads, hidden, (2 * depth) ** -0.5) for _ in range(depth)])
        self.norm = Rms(dim)

    def forward(self, calls, seats, vul):
        empty = calls == PAD
        x = self.call(calls)
        x = x * x.shape[-1] ** 0.5 + self.seat(seats) + self.vul(vul).unsqueeze(1)
        for layer in self.layers:
            x = layer(x, seats, empty)
        return self.norm(x), empty


def by_side(tokens, calls, seats):
    spoken = paddle.logical_and(calls != PAD, calls != BEGIN)

    def mean(parity):
        take = paddle.logical_and(spoken, seats % 2 == parity).astype(tokens.dtype)
        return paddle.einsum("nt,ntd->nd", take, tokens) / take.sum(axis=1, keepdim=True).clip(min=1.0)

    return mean(0), mean(1)


def newest(tokens, empty):
    last = paddle.logical_not(empty).astype("int64").sum(axis=1) - 1
    return paddle.take_along_axis(tokens, last.reshape([-1, 1, 1]), axis=1).squeeze(1)
