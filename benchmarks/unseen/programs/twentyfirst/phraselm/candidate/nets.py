import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform


def dense(n_in, n_out, bias=False, init=None):
    k = n_in ** -0.5
    return nn.Linear(n_in, n_out, weight_attr=init or Uniform(-k, k), bias_attr=Uniform(-k, k) if bias else False)


def residual_init(n_in, depth):
    return Normal(0.0, 0.6 / math.sqrt(n_in * depth))


class CentredRMSNorm(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.delta = self.create_parameter([dim], default_initializer=Constant(0.0))

    def forward(self, x):
        power = paddle.mean(paddle.square(x), axis=-1, keepdim=True)
        return (1.0 + self.delta) * x / paddle.sqrt(power + 1e-5)


class DiagonalState(nn.Layer):
    """Exponential averages over time as one depthwise convolution with the unrolled kernel."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.logit_a = self.create_parameter([dim], default_initializer=Uniform(0.5, 3.5))
        self.amplitude = self.create_parameter([dim], default_initializer=Normal(1.0, 0.2))
        self.skip = self.create_parameter([dim], default_initializer=Normal(0.0, 0.2))

    def forward(self, u):
        n = u.shape[1]
        a = F.sigmoid(self.logit_a).unsqueeze(-1)
        power = paddle.arange(n - 1, -1, -1).astype(u.dtype)          # the newest token comes last
        kernel = self.amplitude.unsqueeze(-1) * (1 - a) * paddle.pow(a, power)
        x = F.pad(u.transpose([0, 2, 1]), [n - 1, 0], data_format="NCL")
        y = F.conv1d(x, kernel.unsqueeze(1), groups=self.dim).transpose([0, 2, 1])
        return y + u * self.skip


class StateMixer(nn.Layer):
    def __init__(self, dim, depth, p):
        super().__init__()
        self.pre = CentredRMSNorm(dim)
        self.shift = self.create_parameter([dim], default_initializer=Constant(0.3))
        self.value = dense(dim, dim)
        self.gate = dense(dim, dim, bias=True)
        self.memory = DiagonalState(dim)
        self.proj = dense(dim, dim, init=residual_init(dim, depth))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        h = self.pre(x)
        previous = paddle.concat([paddle.zeros_like(h[:, :1]), h[:, :-1]], axis=1)
        h = (1 - self.shift) * h + self.shift * previous
        return x + self.drop(self.proj(F.silu(self.gate(h)) * self.memory(self.value(h))))


def distance_buckets(n, buckets=16, far=64):
    """[n, n] bucket of every pair; pairs with the future share bucket 0."""
    distance = np.maximum(np.arange(n)[:, None] - np.arange(n)[None, :], 0)
    exact = buckets // 2
    log = np.log(np.maximum(distance, 1) / exact) / math.log(far / exact)
    coarse = np.minimum(exact + np.trunc(log * (buckets - exact)).astype("int64"), buckets - 1)
    return np.where(distance < exact, distance, coarse)


class LocalAttention(nn.Layer):
    def __init__(self, dim, heads, depth, reach, cap, p):
        super().__init__()
        self.heads, self.reach, self.cap = heads, reach, cap
        self.pre = CentredRMSNorm(dim)
        self.in_proj = dense(dim, 3 * dim)
        self.distance = self.create_parameter([16, heads], default_initializer=Normal(0.0, 0.3))
        self.nowhere = self.create_parameter([heads], default_initializer=Constant(0.0))
        self.proj = dense(dim, dim, init=residual_init(dim, depth))
        self.drop = nn.Dropout(p)

    def split(self, x):
        b, n, d = x.shape
        return x.reshape([b, n, self.heads, d // self.heads]).transpose([0, 2, 1, 3])

    def position(self, n):
        buckets = paddle.to_tensor(distance_buckets(n).reshape(-1))
        return paddle.gather(self.distance, buckets).reshape([n, n, self.heads]).transpose([2, 0, 1])

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = [self.split(t) for t in paddle.chunk(self.in_proj(self.pre(x)), 3, axis=-1)]
        q = q * (d // self.heads) ** -0.5
        score = paddle.matmul(q, k, transpose_y=True) + self.position(n)
        score = paddle.tanh(score / self.cap) * self.cap
        back = np.arange(n)[:, None] - np.arange(n)[None, :]
        seen = paddle.to_tensor((back >= 0) & (back < self.reach)).astype(score.dtype)
        weight = paddle.exp(score) * seen                            # the cap keeps this in range
        total = weight.sum(axis=-1, keepdim=True) + paddle.exp(self.nowhere).reshape([1, -1, 1, 1])
        mixed = paddle.matmul(weight / total, v).transpose([0, 2, 1, 3]).reshape([b, n, d])
        return x + self.drop(self.proj(mixed))


class FeedForward(nn.Layer):
    def __init__(self, dim, hidden, depth, p):
        super().__init__()
        self.pre = CentredRMSNorm(dim)
        self.gate, self.value = dense(dim, hidden), dense(dim, hidden)
        self.proj = dense(hidden, dim, init=residual_init(hidden, depth))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        h = self.pre(x)
        return x + self.drop(self.proj(F.silu(self.gate(h)) * self.value(h)))


class CharModel(nn.Layer):
    def __init__(self, vocab, dim=64, heads=4, pattern="sasa", hidden=112, reach=20, cap=12.0, p=0.1):
        super().__init__()
        depth = len(pattern)
        self.token = nn.Embedding(vocab, dim, weight_attr=Normal(0.0, dim ** -0.5))
        self.factor = dim ** 0.5
        mixers = {"s": lambda: StateMixer(dim, depth, p), "a": lambda: LocalAttention(dim, heads, depth, reach, cap, p)}
        self.body = nn.Sequential(*[nn.Sequential(mixers[kind](), FeedForward(dim, hidden, depth, p))
                                    for kind in pattern])
        self.post = CentredRMSNorm(dim)
        self.offset = self.create_parameter([vocab], default_initializer=Constant(0.0))

    def forward(self, tokens):
        h = self.post(self.body(self.token(tokens) * self.factor))
        return paddle.matmul(h, self.token.weight, transpose_y=True) + self.offset
