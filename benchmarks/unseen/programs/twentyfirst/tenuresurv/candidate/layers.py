import math

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I


def torch_linear(n_in, n_out, bias=True):
    """nn.Linear that starts as PyTorch's does."""
    k = 1 / math.sqrt(n_in)
    return nn.Linear(n_in, n_out, weight_attr=I.Uniform(-k, k), bias_attr=I.Uniform(-k, k) if bias else False)


class ObservedNorm(nn.Layer):
    def __init__(self, mean, var, keep=0.95, epsilon=1e-3):
        super().__init__()
        self.keep, self.epsilon = keep, epsilon
        self.register_buffer("running_mean", paddle.to_tensor(np.asarray(mean, "float32")))
        self.register_buffer("running_var", paddle.to_tensor(np.asarray(var, "float32")))

    def batch_moments(self, x, seen):
        count = seen.sum(axis=0)
        safe = paddle.clip(count, min=1.0)
        mean = (x * seen).sum(axis=0) / safe
        var = (paddle.square(x - mean) * seen).sum(axis=0) / safe
        with paddle.no_grad():
            keep = paddle.where(count > 1, paddle.full_like(count, self.keep), paddle.ones_like(count))
            self.running_mean.set_value(keep * self.running_mean + (1 - keep) * mean)
            self.running_var.set_value(keep * self.running_var + (1 - keep) * var)
        return mean, var

    def forward(self, x, seen):
        mean, var = self.batch_moments(x, seen) if self.training else (self.running_mean, self.running_var)
        return seen * (x - mean) / paddle.sqrt(var + self.epsilon)


class WaveEmbedding(nn.Layer):
    def __init__(self, fields, waves, dim, sigma):
        super().__init__()
        k = 1 / math.sqrt(2 * waves)
        self.freq = self.create_parameter([fields, waves], default_initializer=I.Normal(0.0, sigma))
        self.kernel = self.create_parameter([fields, 2 * waves, dim], default_initializer=I.Uniform(-k, k))
        self.shift = self.create_parameter([fields, dim], default_initializer=I.Uniform(-k, k))
        self.absent = self.create_parameter([fields, dim], default_initializer=I.Normal(0.0, 0.02))

    def forward(self, z, seen):
        phase = 2 * math.pi * z.unsqueeze(-1) * self.freq
        wave = paddle.concat([paddle.cos(phase), paddle.sin(phase)], axis=-1)      # B F 2k
        out = paddle.matmul(wave.transpose([1, 0, 2]), self.kernel)                # F B d
        out = F.relu(out.transpose([1, 0, 2]) + self.shift)
        seen = seen.unsqueeze(-1)
        return out * seen + self.absent * (1 - seen)


class LevelEmbedding(nn.Layer):
    def __init__(self, books, dim):
        super().__init__()
        self.columns = nn.LayerList([
            nn.Embedding(len(book) + 1, dim, padding_idx=0, weight_attr=I.Normal(0.0, 1 / math.sqrt(dim)))
            for book in books])

    def forward(self, codes):
        columns = paddle.unbind(codes, axis=1)
        return paddle.stack([embed(c) for embed, c in zip(self.columns, columns)], axis=1)


class TokenPool(nn.Layer):
    def __init__(self, dim, hidden=24):
        super().__init__()
        self.proj = nn.Linear(dim, hidden, weight_attr=I.XavierNormal(gain=5 / 3), bias_attr=I.Constant(0.0))
        self.query = torch_linear(hidden, 1, bias=False)

    def forward(self, tokens, usable):
        logit = self.query(paddle.tanh(self.proj(tokens)))                         # B T 1
        logit = paddle.where(usable.unsqueeze(-1), logit, paddle.full_like(logit, -1e9))
        return paddle.sum(F.softmax(logit, axis=1) * tokens, axis=1)


class GegluResidual(nn.Layer):
    def __init__(self, width, p):
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.expand = torch_linear(width, 2 * width)
        self.reduce = torch_linear(width, width)
        self.dropout = nn.Dropout(p)
        self.gamma = self.create_parameter([width], default_initializer=I.Constant(0.1))

    def forward(self, h):
        a, b = paddle.split(self.expand(self.ln(h)), 2, axis=-1)
        return h + self.reduce(self.dropout(a * F.gelu(b, approximate=True))) * self.gamma


class TenureModel(nn.Layer):
    def __init__(self, books, moments, hazard, fields=5, dim=16, waves=6, sigma=0.35, width=64, depth=2, p=0.1):
        super().__init__()
        tokens = fields + len(books)
        self.norm_in = ObservedNorm(*moments)
        self.wave = WaveEmbedding(fields, waves, dim, sigma)
        self.level = LevelEmbedding(books, dim)
        self.token_pool = TokenPool(dim)
        self.flat = nn.Linear(tokens * dim, width, weight_attr=I.KaimingUniform(nonlinearity="relu"),
                              bias_attr=I.Constant(0.0))
        self.pooled = torch_linear(dim, width, bias=False)
        self.trunk = nn.Sequential(*[GegluResidual(width, p) for _ in range(depth)])
        self.norm_out = nn.LayerNorm(width, epsilon=1e-6)
        prior = np.log(hazard / (1 - hazard)).astype("float32")
        self.risk_head = nn.Linear(width, 1, weight_attr=I.Normal(0.0, 0.02), bias_attr=False)
        self.hazard_head = nn.Linear(width, len(hazard), weight_attr=I.Normal(0.0, 0.02), bias_attr=I.Assign(prior))

    def forward(self, x, seen, codes):
        z = self.norm_in(x, seen)
        tokens = paddle.concat([self.wave(z, seen), self.level(codes)], axis=1)
        usable = paddle.concat([paddle.full(seen.shape, True, dtype="bool"), codes != 0], axis=1)
        h = self.flat(tokens.reshape([tokens.shape[0], -1])) + self.pooled(self.token_pool(tokens, usable))
        h = self.norm_out(self.trunk(h))
        risk = self.risk_head(h)
        return {"risk": risk[:, 0], "hazard": self.hazard_head(h) + risk}
