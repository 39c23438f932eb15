"""Small transformer over table cells, with two heads."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Orthogonal, TruncatedNormal, Uniform

from .features import CONTINUOUS, LEVELS, N_KNOTS

CUTS = (1.0, 4.0, 7.5, 11.0, 15.0, 20.0)


def fc(n_in, n_out, bias=True):
    """Linear layer with PyTorch's default initialisation."""
    limit = n_in ** -0.5
    return nn.Linear(n_in, n_out, weight_attr=Uniform(-limit, limit), bias_attr=Uniform(-limit, limit) if bias else False)


class CellProjector(nn.Layer):
    def __init__(self, cells, features, dim):
        super().__init__()
        bound = 1.0 / math.sqrt(dim)
        self.kernel = self.create_parameter([cells, features, dim], default_initializer=Uniform(-bound, bound))
        self.offset = self.create_parameter([cells, dim], default_initializer=Constant(0.0))

    def forward(self, x):
        # one matrix product per column of the table
        return paddle.bmm(x.transpose([1, 0, 2]), self.kernel).transpose([1, 0, 2]) + self.offset


class CosineAttention(nn.Layer):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.to_qkv = fc(dim, 3 * dim, bias=False)
        self.to_out = fc(dim, dim)
        self.log_scale = self.create_parameter([n_heads, 1, 1], default_initializer=Constant(math.log(10.0)))

    def forward(self, x):
        batch, length = x.shape[:2]
        packed = self.to_qkv(x).reshape([batch, length, 3, self.n_heads, self.head_dim])
        q, k, v = (t.transpose([0, 2, 1, 3]) for t in paddle.unbind(packed, axis=2))
        similarity = paddle.matmul(F.normalize(q, axis=-1), F.normalize(k, axis=-1), transpose_y=True)
        attention = F.softmax(similarity * paddle.exp(self.log_scale), axis=-1)
        context = paddle.matmul(attention, v).transpose([0, 2, 1, 3])
        return self.to_out(context.reshape([batch, length, -1]))


class GeGLU(nn.Layer):
    def __init__(self, dim, inner):
        super().__init__()
        self.widen, self.narrow = fc(dim, 2 * inner), fc(inner, dim)

    def forward(self, x):
        content, gate = paddle.chunk(self.widen(x), 2, axis=-1)
        return self.narrow(content * F.gelu(gate))


class Scaled(nn.Layer):
    """Residual branch: normalise, transform, weigh each feature."""

    def __init__(self, dim, branch, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.branch = branch
        self.gain = self.create_parameter([dim], default_initializer=Constant(0.3))

    def forward(self, x):
        return x + self.branch(self.norm(x)) * self.gain


class HazardNet(nn.Layer):
    def __init__(self, dim=24, n_heads=3, depth=2):
        super().__init__()
        self.cells = CellProjector(len(CONTINUOUS), N_KNOTS + 2, dim)
        self.lookup = nn.LayerList([
            nn.Embedding(size + 1, dim, padding_idx=0, weight_attr=Normal(0.0, dim ** -0.5)) for _, size in LEVELS])
        self.summary = self.create_parameter([1, 1, dim], default_initializer=TruncatedNormal(0.0, 0.1, a=-0.2, b=0.2))
        self.trunk = nn.Sequential(*[
            layer for _ in range(depth) for layer in (Scaled(dim, CosineAttention(dim, n_heads), 1e-5),
                                                      Scaled(dim, GeGLU(dim, 2 * dim), 1e-6))])
        self.final_norm = nn.LayerNorm(dim)
        self.risk_head = fc(dim, 1, bias=False)
        self.hazard_head = nn.Linear(dim, len(CUTS) + 1, weight_attr=Orthogonal(gain=0.5), bias_attr=Constant(-1.5))

    def forward(self, numeric, codes):
        words = [table(column) for table, column in zip(self.lookup, paddle.unbind(codes, axis=1))]
        summary = paddle.tile(self.summary, [numeric.shape[0], 1, 1])
        tokens = self.trunk(paddle.concat([summary, self.cells(numeric), paddle.stack(words, axis=1)], axis=1))
        pooled = self.final_norm((tokens[:, 0] + paddle.mean(tokens[:, 1:], axis=1)) / 2)
        return {"risk": paddle.squeeze(self.risk_head(pooled), axis=1), "hazard": self.hazard_head(pooled)}
