import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Normal

from .blocks import Decoder, Residual, conv


class UShapedSR(nn.Layer):
    def __init__(self, widths=(12, 20, 28), factor=2, mean=(0.41, 0.36, 0.47), std=(0.24, 0.22, 0.26)):
        super().__init__()
        w0, w1, w2 = widths
        self.factor = factor
        self.register_buffer("mean", paddle.to_tensor(mean, dtype=paddle.get_default_dtype()).reshape([1, 3, 1, 1]))
        self.register_buffer("std", paddle.to_tensor(std, dtype=paddle.get_default_dtype()).reshape([1, 3, 1, 1]))
        self.stem = conv(3, w0, 3)
        self.stage0 = Residual(w0)
        self.shrink0 = nn.Sequential(nn.PixelUnshuffle(2), conv(4 * w0, w1))
        self.stage1 = Residual(w1)
        self.shrink1 = nn.Sequential(nn.PixelUnshuffle(2), conv(4 * w1, w2))
        self.bottom = Residual(w2, dilation=2, attention=True)
        self.decode1 = Decoder(w2, w1)
        self.decode0 = Decoder(w1, w0)
        self.out = conv(w0, 3 * factor * factor, 3, replicate=False, weight_init=Normal(std=0.02))
        self.shuffle = nn.PixelShuffle(factor)

    def encode(self, x):
        e0 = self.stage0(self.stem(x))
        e1 = self.stage1(self.shrink0(e0))
        return e0, e1, self.bottom(self.shrink1(e1))

    def forward(self, x):
        e0, e1, deep = self.encode((x - self.mean) / self.std)
        d = self.decode1(deep, e1)
        d = self.decode0(d, e0)
        residual = self.shuffle(self.out(d)) * self.std
        base = F.interpolate(x, scale_factor=self.factor, mode="bicubic", align_corners=False)
        return base + residual


class RestorationModel(nn.Layer):
    """Network and exponential moving average in one."""

    def __init__(self):
        super().__init__()
        self.net = UShapedSR()
        self.ema = UShapedSR()
        self.ema.set_state_dict(self.net.state_dict())
        for p in self.ema.parameters():
            p.stop_gradient = True
        self.register_buffer("updates", paddle.zeros([], dtype="int64"))

    def forward(self, x):
        return self.net(x)

    def ema_update(self, max_decay):
        with paddle.no_grad():
            self.updates.set_value(self.updates + 1)
            n = int(self.updates)
            decay = min(max_decay, (n + 1.0) / (n + 10.0))
            for e, p in zip(self.ema.parameters(), self.net.parameters()):
                e.set_value(e * decay + p * (1.0 - decay))
        return decay
