import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I


def linear(n_in, n_out, std=None, bias=False):
    std = n_in**-0.5 if std is None else std
    return nn.Linear(
        n_in, n_out,
        weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)) if bias else False,
    )


class RMSNorm(nn.Layer):
    def __init__(self, dim, eps):
        super().__init__()
        self.scale = self.create_parameter([dim], default_initializer=I.Constant(1.0))
        self.eps = eps

    def forward(self, x):
        power = (x * x).mean(axis=-1, keepdim=True)
        return x / paddle.sqrt(power + self.eps) * self.scale


class StateSpace(nn.Layer):
    """The dual form: decays between all pairs of steps, no loop over time."""

    def __init__(self, m, out_std):
        super().__init__()
        self.m = m
        self.wide = m.inner + 2 * m.ssm_groups * m.state
        self.in_proj = linear(m.dim, m.inner + self.wide + m.ssm_heads)
        bound = m.conv**-0.5
        self.conv = nn.Conv1D(
            self.wide, self.wide, m.conv, groups=self.wide,
            weight_attr=paddle.ParamAttr(initializer=I.Uniform(-bound, bound)),
            bias_attr=paddle.ParamAttr(initializer=I.Uniform(-bound, bound)),
        )
        low, high = math.log(m.dt_low), math.log(m.dt_high)
        dt = np.exp(np.random.uniform(low, high, m.ssm_heads))
        self.dt_bias = self.vector(np.log(np.expm1(dt)))
        self.a_log = self.vector(np.log(np.arange(m.ssm_heads) + 1.0))
        self.skip = self.vector(np.ones(m.ssm_heads))
        self.norm = RMSNorm(m.inner, m.eps)
        self.out_proj = linear(m.inner, m.dim, out_std(m.inner))

    def vector(self, values):
        return self.create_parameter([len(values)], default_initializer=I.Assign(values.astype("float32")))

    def forward(self, x, mask=None):
        m = self.m
        b, t = x.shape[:2]
        z, mixed, dt = paddle.split(self.in_proj(x), [m.inner, self.wide, m.ssm_heads], axis=-1)
        mixed = F.pad(mixed.transpose([0, 2, 1]), [m.conv - 1, 0], data_format="NCL")
        mixed = F.silu(self.conv(mixed)).transpose([0, 2, 1])
        gn = m.ssm_groups * m.state
        u, write, read = paddle.split(mixed, [m.inner, gn, gn], axis=-1)
        u = u.reshape([b, t, m.ssm_heads, -1]).transpose([0, 2, 1, 3])
        write = write.reshape([b, t, m.ssm_groups, m.state]).transpose([0, 2, 1, 3])
        read = read.reshape([b, t, m.ssm_groups, m.state]).transpose([0, 2, 1, 3])
        dt = F.softplus(dt + self.dt_bias).transpose([0, 2, 1])  # [b, heads, t]
        total = paddle.cumsum(-dt * self.a_log.exp().unsqueeze(-1), axis=-1)
        between = total.unsqueeze(-1) - total.unsqueeze(-2)
        past = paddle.tril(paddle.ones([t, t], dtype=x.dtype))
        decay = paddle.exp(between * past) * past
        overlap = paddle.matmul(read, write, transpose_y=True)  # [b, groups, t, t]
        overlap = paddle.repeat_interleave(overlap, m.ssm_heads // m.ssm_groups, axis=1)
        y = paddle.matmul(overlap * decay * dt.unsqueeze(-2), u) + self.skip.reshape([-1, 1, 1]) * u
        y = y.transpose([0, 2, 1, 3]).reshape([b, t, m.inner])
        return self.out_proj(self.norm(y * F.silu(z)))


class LocalAttention(nn.Layer):
    def __init__(self, m, out_std, max_len):
        super().__init__()
        self.m = m
        self.head_dim = m.dim // m.heads
        self.qkv = linear(m.dim, 3 * m.dim)
        self.out_proj = linear(m.dim, m.dim, out_std(m.dim))
        self.temperature = self.create_parameter([m.heads], default_initializer=I.Constant(0.0))
        self.dropout = nn.Dropout(m.dropout)
        half = m.rotary_dim // 2
        speed = m.rotary_base ** (-np.arange(half) / half)
        angle = np.arange(max_len)[:, None] * speed[None]
        self.register_buffer("cos", paddle.to_tensor(np.cos(angle).astype("float32")), persistable=False)
        self.register_buffer("sin", paddle.to_tensor(np.sin(angle).astype("float32")), persistable=False)

    def rotate(self, x):
        t, half = x.shape[1], self.m.rotary_dim // 2
        cos = self.cos[:t].astype(x.dtype).unsqueeze(1)
        sin = self.sin[:t].astype(x.dtype).unsqueeze(1)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return paddle.concat([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)

    def bias(self, mask, dtype):
        t = mask.shape[1]
        i = paddle.arange(t)
        back = i.unsqueeze(1) - i.unsqueeze(0)
        near = (back >= 0) & (back < self.m.window)
        allowed = near.unsqueeze(0) & (mask.unsqueeze(1) | (back == 0).unsqueeze(0))
        zero = paddle.zeros(allowed.shape, dtype=dtype)
        return paddle.where(allowed, zero, paddle.full_like(zero, -1e9)).unsqueeze(1)

    def forward(self, x, mask):
        b, t, d = x.shape
        qkv = self.qkv(x).reshape([b, t, 3, self.m.heads, self.head_dim])
        q, k, v = (p.squeeze(2) for p in paddle.split(qkv, 3, axis=2))
        q = self.rotate(q) * (self.temperature.exp() / math.sqrt(self.head_dim)).unsqueeze(-1)
        k = self.rotate(k)
        q, k, v = (p.transpose([0, 2, 1, 3]) for p in (q, k, v))
        weights = F.softmax(paddle.matmul(q, k, transpose_y=True) + self.bias(mask, x.dtype), axis=-1)
        y = paddle.matmul(self.dropout(weights), v)
        return self.out_proj(y.transpose([0, 2, 1, 3]).reshape([b, t, d]))
