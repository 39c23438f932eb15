import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr
from paddle.nn.initializer import Constant, Uniform


def torch_like(fan_in):
    k = 1.0 / math.sqrt(fan_in)
    return dict(weight_attr=ParamAttr(initializer=Uniform(-k, k)), bias_attr=ParamAttr(initializer=Uniform(-k, k)))


def conv(c_in, c_out, k, stride=1, zero=False):
    attrs = torch_like(c_in * k * k)
    if zero:
        attrs = dict(weight_attr=ParamAttr(initializer=Constant(0.0)), bias_attr=ParamAttr(initializer=Constant(0.0)))
    return nn.Conv2D(c_in, c_out, k, stride=stride, padding=k // 2, **attrs)


def fourier(t, dim):
    half = dim // 2
    rate = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000.0) / half))
    phase = t.astype("float32").unsqueeze(1) * rate.unsqueeze(0)
    return paddle.concat([paddle.cos(phase), paddle.sin(phase)], axis=1)


class Residual(nn.Layer):
    def __init__(self, c_in, c_out, d_time, p):
        super().__init__()
        self.gn1 = nn.GroupNorm(4, c_in, epsilon=1e-5)
        self.conv1 = conv(c_in, c_out, 3)
        self.film = nn.Linear(d_time, 2 * c_out, **torch_like(d_time))
        self.gn2 = nn.GroupNorm(4, c_out, epsilon=1e-5)
        self.drop = nn.Dropout(p)
        self.conv2 = conv(c_out, c_out, 3, zero=True)
        self.short = conv(c_in, c_out, 1) if c_in != c_out else None

    def forward(self, x, time):
        h = self.conv1(F.silu(self.gn1(x)))
        film = self.film(F.silu(time)).unsqueeze(-1).unsqueeze(-1)
        gain, offset = paddle.split(film, 2, axis=1)
        h = self.gn2(h) * (gain + 1.0) + offset
        h = self.conv2(self.drop(F.silu(h)))
        return h + (x if self.short is None else self.short(x))


class SpatialAttention(nn.Layer):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.gn = nn.GroupNorm(4, width, epsilon=1e-5)
        self.mix_in = nn.Linear(width, 3 * width, **torch_like(width))
        self.mix_out = nn.Linear(width, width, **torch_like(width))

    def forward(self, x):
        b, c, h, w = x.shape
        tokens = self.gn(x).flatten(2).transpose([0, 2, 1])
        # channel layout of the fused map: head, then (q, k, v), then feature
        fused = self.mix_in(tokens).reshape([b, h * w, self.heads, 3, self.size]).transpose([3, 0, 2, 1, 4])
        q, k, v = fused[0], fused[1], fused[2]
        weight = F.softmax(paddle.matmul(q, k, transpose_y=True) / math.sqrt(self.size), axis=-1)
        y = paddle.matmul(weight, v).transpose([0, 2, 1, 3]).reshape([b, h * w, c])
        return x + self.mix_out(y).transpose([0, 2, 1]).reshape([b, c, h, w])


class Denoiser(nn.Layer):
    def __init__(self, channels=2, base=8, d_time=32, p=0.1):
        super().__init__()
        self.base = base
        self.time1 = nn.Linear(base, d_time, **torch_like(base))
        self.time2 = nn.Linear(d_time, d_time, **torch_like(d_time))
        self.first = conv(channels, base, 3)
        self.enc_a = Residual(base, base, d_time, p)
        self.shrink = conv(base, base, 3, stride=2)
        self.enc_b = Residual(base, 2 * base, d_time, p)
        self.attn = SpatialAttention(2 * base)
        self.middle = Residual(2 * base, 2 * base, d_time, p)
        self.dec_b = Residual(4 * base, 2 * base, d_time, p)
        self.grow = conv(2 * base, base, 3)
        self.dec_a = Residual(2 * base, base, d_time, p)
        self.last_gn = nn.GroupNorm(4, base, epsilon=1e-5)
        self.last = conv(base, channels, 3, zero=True)

    def forward(self, x, t):
        time = self.time2(F.silu(self.time1(fourier(t, self.base).astype(x.dtype))))
        a = self.enc_a(self.first(x), time)
        b = self.enc_b(self.shrink(a), time)
        h = self.middle(self.attn(b), time)
        h = self.dec_b(paddle.concat([h, b], axis=1), time)
        h = F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False, align_mode=0)
        h = self.dec_a(paddle.concat([self.grow(h), a], axis=1), time)
        return self.last(F.silu(self.last_gn(h)))
