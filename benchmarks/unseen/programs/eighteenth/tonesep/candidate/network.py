"""Temporal convolutional mask estimator, ported to Paddle."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .frontend import Spectral
from .settings import NETWORK


def _attrs(fan_in):
    """Both attributes of a layer as PyTorch draws them."""
    r = 1.0 / math.sqrt(fan_in)
    return {"weight_attr": paddle.ParamAttr(initializer=I.Uniform(-r, r)),
            "bias_attr": paddle.ParamAttr(initializer=I.Uniform(-r, r))}


def pointwise(c_in, c_out):
    return nn.Conv1D(c_in, c_out, 1, **_attrs(c_in))


def dense(c_in, c_out):
    return nn.Linear(c_in, c_out, **_attrs(c_in))


class TrackedStandardiser(nn.Layer):
    """Standardises every channel; keeps moving statistics for evaluation."""

    def __init__(self, channels, decay=0.95, epsilon=1e-4):
        super().__init__()
        self.decay, self.epsilon = decay, epsilon
        self.register_buffer("running_mean", paddle.zeros([channels]))
        self.register_buffer("running_var", paddle.ones([channels]))

    def forward(self, x):
        mu, var = self.running_mean, self.running_var
        if self.training:
            mu = paddle.mean(x, axis=[0, 2])
            var = paddle.var(x, axis=[0, 2], unbiased=False)
            with paddle.no_grad():
                for buffer, now in ((self.running_mean, mu), (self.running_var, var)):
                    buffer.set_value(buffer * self.decay + now.detach() * (1.0 - self.decay))
        return (x - mu.reshape([1, -1, 1])) * paddle.rsqrt(var.reshape([1, -1, 1]) + self.epsilon)


class GLN(nn.Layer):
    """Global layer normalisation: one mean and one deviation per clip."""

    def __init__(self, channels, epsilon=1e-5):
        super().__init__()
        self.epsilon = epsilon
        self.scale = self.create_parameter([1, channels, 1], default_initializer=I.Constant(1.0))
        self.shift = self.create_parameter([1, channels, 1], is_bias=True)

    def forward(self, x):
        centred = x - x.mean(axis=[1, 2], keepdim=True)
        spread = paddle.square(centred).mean(axis=[1, 2], keepdim=True)
        return centred * paddle.rsqrt(spread + self.epsilon) * self.scale + self.shift


class ChannelGate(nn.Layer):
    def __init__(self, channels, reduction):
        super().__init__()
        self.fc = nn.Sequential(dense(channels, channels // reduction), nn.Silu(),
                                dense(channels // reduction, channels), nn.Sigmoid())

    def forward(self, x):
        summary = paddle.mean(x, axis=-1) + paddle.max(x, axis=-1)
        return x * self.fc(summary).unsqueeze(-1)


class TemporalUnit(nn.Layer):
    def __init__(self, width, inner, taps, rate, reduction):
        super().__init__()
        self.inlet = nn.Sequential(pointwise(width, inner), nn.PReLU(), GLN(inner))
        self.spread = nn.Conv1D(inner, inner, taps, padding=rate * (taps // 2), dilation=rate, groups=inner,
                                padding_mode="replicate", **_attrs(taps))
        self.outlet = nn.Sequential(nn.PReLU(inner), GLN(inner), ChannelGate(inner, reduction))
        self.to_trunk = pointwise(inner, width)
        self.to_skip = pointwise(inner, width)

    def forward(self, trunk):
        h = self.outlet(self.spread(self.inlet(trunk)))
        return trunk + self.to_trunk(h), self.to_skip(h)


class ToneNet(nn.Layer):
    def __init__(self, speakers, width, inner, taps, rates, reduction, bound, decay):
        super().__init__()
        self.speakers, self.bound = speakers, bound
        self.frontend = Spectral.from_settings()
        n_bins = self.frontend.n_bins
        self.standardise = TrackedStandardiser(3 * n_bins, decay)
        self.stem = pointwise(3 * n_bins, width)
        self.units = nn.LayerList([TemporalUnit(width, inner, taps, r, reduction) for r in rates])
        head_out = speakers * 2 * n_bins
        std = 0.5 * math.sqrt(2.0 / (width + head_out))
        self.head = nn.Sequential(
            nn.PReLU(),
            nn.Conv1D(width, head_out, 1, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)),
                      bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0))))

    def forward(self, mixture):
        z = self.frontend(mixture)
        trunk = self.stem(self.standardise(self.frontend.describe(z)))
        skips = []
        for unit in self.units:
            trunk, skip = unit(trunk)
            skips.append(skip)
        raw = self.head(paddle.add_n(skips))
        bins, frames = z.shape[1:]
        raw = paddle.tanh(raw.reshape([-1, self.speakers, 2, bins, frames])) * self.bound
        real, imag = paddle.unbind(raw, axis=2)
        masked = paddle.complex(real, imag) * z.unsqueeze(1)
        samples = mixture.shape[-1]
        voices = self.frontend.inverse(masked.reshape([-1, bins, frames]), samples)
        voices = voices.reshape([-1, self.speakers, samples])
        missing = mixture.unsqueeze(1) - paddle.sum(voices, axis=1, keepdim=True)
        return voices + missing / self.speakers


def create_network(**changes):
    return ToneNet(**{**NETWORK, **changes})
