import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Uniform

from . import CFG


def _even(fan_in):
    bound = 1 / math.sqrt(fan_in)
    return paddle.ParamAttr(initializer=Uniform(-bound, bound))


def mix(cin, cout):
    """A linear map of the channels at each point."""
    return nn.Conv1D(cin, cout, 1, weight_attr=_even(cin), bias_attr=_even(cin))


class Fourier(nn.Layer):
    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.weight = self.create_parameter(
            [channels, channels, modes, 2], default_initializer=Uniform(0.0, 1.0 / channels**2)
        )

    def forward(self, x):
        points = x.shape[2]
        low = paddle.fft.rfft(x, axis=2)[:, :, : self.modes]
        re, im = low.real(), low.imag()
        w_re, w_im = self.weight[..., 0], self.weight[..., 1]

        def times(a, b):
            return paddle.einsum("bik,iok->bok", a, b)

        product = paddle.complex(times(re, w_re) - times(im, w_im), times(re, w_im) + times(im, w_re))
        return paddle.fft.irfft(product, n=points, axis=2)


class Stage(nn.Layer):
    def __init__(self, channels, modes):
        super().__init__()
        self.norm = nn.InstanceNorm1D(channels)
        self.fourier = Fourier(channels, modes)
        self.mix = mix(channels, channels)
        self.film = nn.Linear(1, 2 * channels, weight_attr=_even(1), bias_attr=_even(1))

    def forward(self, x, nu, act):
        h = self.norm(x)
        h = self.fourier(h) + self.mix(h)
        gain, bias = paddle.split(self.film(nu.unsqueeze(1)), 2, axis=1)
        h = h * (gain + 1).unsqueeze(2) + bias.unsqueeze(2)
        return x + (F.gelu(h) if act else h)


class Operator(nn.Layer):
    def __init__(self):
        super().__init__()
        net = CFG["net"]
        self.waves = net["waves"]
        self.lift = mix(2 + 2 * self.waves, net["channels"])
        self.stages = nn.LayerList([Stage(net["channels"], net["modes"]) for _ in range(net["depth"])])
        self.hidden = mix(net["channels"], net["head"])
        self.out = mix(net["head"], 1)

    def position(self, n, dtype):
        angle = 2 * math.pi * paddle.arange(n, dtype=dtype) / n
        rows = []
        for k in range(1, self.waves + 1):
            rows += [paddle.sin(k * angle), paddle.cos(k * angle)]
        return paddle.stack(rows)

    def forward(self, u, nu):
        b, n = u.shape
        pieces = [
            u.unsqueeze(1),
            paddle.tile(self.position(n, u.dtype).unsqueeze(0), [b, 1, 1]),
            paddle.tile(nu.reshape([b, 1, 1]), [1, 1, n]),
        ]
        h = self.lift(paddle.concat(pieces, axis=1))
        last = len(self.stages) - 1
        for i, stage in enumerate(self.stages):
            h = stage(h, nu, act=i < last)
        return u + self.out(F.gelu(self.hidden(h))).squeeze(1)
