import math

import paddle
import paddle.nn.functional as F
from paddle import nn


def timestep_features(t, dim, dtype):
    half = dim // 2
    rates = paddle.exp(paddle.arange(half).astype(dtype) * (-math.log(10000.0) / (half - 1)))
    angles = paddle.outer(t.astype(dtype), rates)
    return paddle.concat([paddle.sin(angles), paddle.cos(angles)], axis=1)


class Residual(nn.Layer):
    def __init__(self, n_in, n_out, temb):
        super().__init__()
        self.pre = nn.Sequential(nn.GroupNorm(4, n_in), nn.Silu(), nn.Conv1D(n_in, n_out, 3, padding=1))
        self.film = nn.Sequential(nn.Silu(), nn.Linear(temb, 2 * n_out))
        self.norm = nn.GroupNorm(4, n_out, epsilon=1e-6)
        self.post = nn.Sequential(nn.Silu(), nn.Conv1D(n_out, n_out, 3, padding=1))
        self.shortcut = None if n_in == n_out else nn.Conv1D(n_in, n_out, 1)

    def forward(self, x, emb):
        gain, bias = paddle.split(self.film(emb).unsqueeze(2), 2, axis=1)
        h = self.norm(self.pre(x)) * (gain + 1) + bias
        h = self.post(h)
        return h + (x if self.shortcut is None else self.shortcut(x))


class SelfAttention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(1, width)
        self.to_qkv = nn.Conv1D(width, 3 * width, 1, bias_attr=False)
        self.proj = nn.Conv1D(width, width, 1)

    def forward(self, x):
        b, c, n = x.shape
        d = c // self.heads
        q, k, v = [p.reshape([b, self.heads, d, n]) for p in paddle.chunk(self.to_qkv(self.norm(x)), 3, axis=1)]
        weights = F.softmax(paddle.matmul(q, k, transpose_x=True) / math.sqrt(d), axis=-1)
        mixed = paddle.matmul(v, weights, transpose_y=True)
        return x + self.proj(mixed.reshape([b, c, n]))


class Denoiser(nn.Layer):
    def __init__(self, channels, width, temb):
        super().__init__()
        self.temb = temb
        self.embed = nn.Sequential(nn.Linear(temb, 2 * temb), nn.Silu(), nn.Linear(2 * temb, temb))
        self.enter = nn.Conv1D(channels, width, 7, padding=3)
        self.high = Residual(width, width, temb)
        self.shrink = nn.Conv1D(width, 2 * width, 4, stride=2, padding=1)
        self.low = Residual(2 * width, 2 * width, temb)
        self.attention = SelfAttention(2 * width, heads=2)
        self.grow = nn.Conv1DTranspose(2 * width, width, 4, stride=2, padding=1)
        self.merge = Residual(2 * width, width, temb)
        self.leave = nn.Conv1D(width, channels, 1)

    def forward(self, x, t):
        emb = self.embed(timestep_features(t, self.temb, x.dtype))
        fine = self.high(self.enter(x), emb)
        coarse = self.attention(self.low(self.shrink(fine), emb))
        both = paddle.concat([self.grow(coarse), fine], axis=1)
        return self.leave(self.merge(both, emb))
