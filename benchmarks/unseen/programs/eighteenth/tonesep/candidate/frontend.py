"""Complex time-frequency front end."""
import math

import paddle
from paddle import nn, signal

from .settings import FRONTEND


class Spectral(nn.Layer):
    def __init__(self, frame, shift, compress, floor):
        super().__init__()
        self.frame, self.shift = frame, shift
        self.compress, self.floor = compress, floor
        # the square root of a periodic Hann window is half a period of a sine
        half_wave = paddle.sin(paddle.arange(frame, dtype="float64") * (math.pi / frame))
        self.register_buffer("taper", half_wave.astype("float32"), persistable=False)

    @classmethod
    def from_settings(cls):
        return cls(**FRONTEND)

    @property
    def n_bins(self):
        return self.frame // 2 + 1

    def forward(self, x):
        return signal.stft(x, n_fft=self.frame, hop_length=self.shift, window=self.taper)

    def inverse(self, z, samples):
        return signal.istft(z, n_fft=self.frame, hop_length=self.shift, window=self.taper, length=samples)

    def describe(self, z):
        """Real part, imaginary part (both compressed) and log1p of the magnitude, stacked along frequency."""
        re, im = paddle.real(z), paddle.imag(z)
        modulus = paddle.sqrt(paddle.square(re) + paddle.square(im) + self.floor)
        scale = paddle.exp((self.compress - 1.0) * paddle.log(modulus))
        return paddle.concat([re * scale, im * scale, paddle.log1p(modulus)], axis=1)
