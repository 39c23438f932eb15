"""The network in Paddle."""
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingNormal, Uniform


def he(out_channels, *kernel):
    """Normal initialisation by the outgoing fan."""
    return KaimingNormal(fan_in=out_channels * int(np.prod(kernel)), nonlinearity="relu")


def conv1d(cin, cout, k, stride=1, bias=False):
    return nn.Conv1D(cin, cout, k, stride=stride, padding=k // 2, weight_attr=he(cout, k),
                     bias_attr=Constant(0.0) if bias else False)


def dense(cin, cout):
    bound = 1.0 / math.sqrt(cin)
    return nn.Linear(cin, cout, weight_attr=Uniform(-bound, bound), bias_attr=Uniform(-bound, bound))


class BatchNorm(nn.BatchNorm1D):
    """Paddle keeps the biased variance, the original the unbiased one."""

    def __init__(self, channels, gamma=1.0):
        super().__init__(channels, momentum=0.9, epsilon=1e-5, weight_attr=Constant(gamma))

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        kept = self._variance.clone() * self._momentum
        out = super().forward(x)
        with paddle.no_grad():
            count = x.shape[0] * x.shape[2]
            self._variance.set_value(kept + (self._variance - kept) * (count / (count - 1)))
        return out


class Residual(nn.Layer):
    def __init__(self, cin, cout, k, stride, ratio):
        super().__init__()
        self.body = nn.Sequential(
            conv1d(cin, cout, k, stride), BatchNorm(cout), nn.ReLU(),
            conv1d(cout, cout, k), BatchNorm(cout, gamma=0.25),
        )
        self.squeeze = conv1d(cout, cout // ratio, 1, bias=True)
        self.excite = conv1d(cout // ratio, cout, 1, bias=True)
        skip = []
        if stride > 1:
            skip.append(nn.AvgPool1D(3, stride, padding=1, exclusive=False))
        if stride > 1 or cin != cout:
            skip += [conv1d(cin, cout, 1), BatchNorm(cout)]
        self.skip = nn.Sequential(*skip) if skip else None

    def forward(self, x):
        y = self.body(x)
        gate = F.relu(self.squeeze(y.mean(-1, keepdim=True)))
        y = y * F.sigmoid(self.excite(gate))
        return F.relu(y + (x if self.skip is None else self.skip(x)))


class PowerSpectrum(nn.Layer):
    """Logarithm of the power of a centred short-time Fourier transform, [batch, leads, frequency, frame]."""

    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        taper = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(n_fft) / n_fft)
        self.register_buffer("taper", paddle.to_tensor(taper.astype("float32")), persistable=False)

    def forward(self, x):
        x = F.pad(x, [self.n_fft // 2, self.n_fft // 2], mode="reflect", data_format="NCL")
        frames = paddle.signal.frame(x, self.n_fft, self.hop, axis=-1)
        spectrum = paddle.fft.rfft(frames * self.taper.astype(x.dtype).unsqueeze(-1), axis=-2)
        power = spectrum.real().square() + spectrum.imag().square()
        return paddle.log(power + 1e-3)


class HeartNet(nn.Layer):
    def __init__(self, leads, classes, stem, widths, kernel, se_ratio, n_fft, hop, spec_channels, rr_hidden,
                 dropout):
        super().__init__()
        self.entry = nn.Sequential(conv1d(leads, stem, 7, stride=2), BatchNorm(stem))
        self.trunk = nn.LayerList()
        for depth, (cin, cout) in enumerate(zip([stem] + widths[:-1], widths)):
            self.trunk.append(Residual(cin, cout, kernel, 2 if depth else 1, se_ratio))
        c1, c2 = spec_channels
        self.spectrum = PowerSpectrum(n_fft, hop)
        self.spec1 = nn.Conv2D(leads, c1, 3, padding=1, weight_attr=he(c1, 3, 3), bias_attr=Constant(0.0))
        self.spec2 = nn.Conv2D(c1, c2, 3, padding=1, weight_attr=he(c2, 3, 3), bias_attr=Constant(0.0))
        self.rhythm = dense(3, rr_hidden)
        self.drop = nn.Dropout(dropout)
        self.classifier = dense(2 * widths[-1] + c2 + rr_hidden, classes)

    def frequency_features(self, wave):
        s = self.spectrum(wave)
        s = s - s.mean(axis=[2, 3], keepdim=True)
        s = F.avg_pool2d(F.gelu(self.spec1(s)), 2, ceil_mode=True)
        return F.gelu(self.spec2(s)).mean(axis=[2, 3])

    def forward(self, wave, rhythm):
        x = F.max_pool1d(F.relu(self.entry(wave)), 3, stride=2, padding=1)
        for block in self.trunk:
            x = block(x)
        parts = [x.mean(axis=-1), x.amax(axis=-1), self.frequency_features(wave), F.tanh(self.rhythm(rhythm))]
        return self.classifier(self.drop(paddle.concat(parts, axis=1)))
