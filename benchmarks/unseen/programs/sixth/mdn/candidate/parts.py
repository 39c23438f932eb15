import math

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Assign, Constant, Normal, Uniform


def affine(inner, outer, weight=None, bias=None):
    """A linear layer that starts as PyTorch's does."""
    bound = 1.0 / math.sqrt(inner)
    return nn.Linear(
        inner,
        outer,
        weight_attr=paddle.ParamAttr(initializer=weight or Uniform(-bound, bound)),
        bias_attr=paddle.ParamAttr(initializer=bias or Uniform(-bound, bound)),
    )


class KernelFeatures(nn.Layer):
    def __init__(self, inputs, waves):
        super().__init__()
        self.log_width = self.create_parameter([inputs], default_initializer=Constant(0.5))
        self.log_power = self.create_parameter([], default_initializer=Constant(0.0))
        self.register_buffer("frequency", paddle.randn([inputs, waves]))
        self.register_buffer("offset", paddle.uniform([waves], min=0.0, max=2 * math.pi))

    def forward(self, x):
        angle = paddle.matmul(x * paddle.exp(-self.log_width), self.frequency) + self.offset
        power = 2.0 * paddle.exp(self.log_power) / self.frequency.shape[1]
        return paddle.sqrt(power) * paddle.cos(angle)


class Refine(nn.Layer):
    def __init__(self, width, wide):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon=1e-5)
        self.widen = affine(width, wide)
        self.narrow = affine(wide, width)
        self.share = self.create_parameter([width], default_initializer=Constant(0.3))

    def forward(self, x):
        y = F.gelu(self.widen(self.norm(x)), approximate=True)
        return x + self.narrow(y) * self.share


class Gaussians(nn.Layer):
    """One projection each for shares, centres, roots of the precision."""

    def __init__(self, width, count, floor=0.01):
        super().__init__()
        self.count, self.floor = count, floor
        line = np.linspace(-1.5, 1.5, count, dtype="float32")
        self.share = affine(width, count)
        self.center = affine(
            width, 2 * count, Normal(std=0.02), Assign(np.column_stack([line, line[::-1]]).reshape(-1))
        )
        self.root = affine(width, 3 * count, bias=Constant(0.0))

    def forward(self, x):
        root = self.root(x).reshape([-1, 3, self.count])
        diagonal = F.softplus(root[:, :2].transpose([0, 2, 1])) + self.floor
        return {
            "log_pi": F.log_softmax(self.share(x), axis=-1),
            "mu": self.center(x).reshape([-1, self.count, 2]),
            "diag": diagonal,
            "off": F.tanh(root[:, 2]),
        }
