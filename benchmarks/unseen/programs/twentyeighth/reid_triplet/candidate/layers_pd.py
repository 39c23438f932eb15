"""Layers which Paddle lacks or computes differently."""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal, Uniform


def conv_bn_free(cin, cout, stride):
    std = (2.0 / (cout * 9)) ** 0.5               # fan-out He normal
    return nn.Conv2D(cin, cout, 3, stride=stride, padding=1, weight_attr=Normal(0.0, std), bias_attr=False)


class HalfInstanceNorm(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.gn = nn.GroupNorm(2, c - c // 2)
        self.inn = nn.InstanceNorm2D(c // 2)

    def forward(self, x):
        k = x.shape[1] // 2
        return paddle.concat([self.inn(x[:, :k]), self.gn(x[:, k:])], axis=1)


class GeneralizedMean(nn.Layer):
    def __init__(self, power=3.0):
        super().__init__()
        self.power = self.create_parameter([1], default_initializer=Constant(power))

    def forward(self, x):
        x = paddle.pow(paddle.clip(x, min=1e-6), self.power)
        return paddle.pow(paddle.mean(x, axis=[2, 3]), 1.0 / self.power)


class SpectralLinear(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        b = n_in ** -0.5
        self.weight = self.create_parameter([n_in, n_out], default_initializer=Uniform(-b, b))
        self.bias = self.create_parameter([n_out], is_bias=True, default_initializer=Uniform(-b, b))
        self.register_buffer("sv_right", F.normalize(paddle.randn([n_in]), axis=0))
        self.register_buffer("sv_left", F.normalize(paddle.randn([n_out]), axis=0))
        for _ in range(15):
            self.power_step()

    @paddle.no_grad()
    def power_step(self):
        self.sv_right.set_value(F.normalize(paddle.mv(self.weight, self.sv_left), axis=0))
        self.sv_left.set_value(F.normalize(paddle.mv(self.weight.t(), self.sv_right), axis=0))

    def forward(self, x):
        if self.training:
            self.power_step()
        l, r = self.sv_left.clone(), self.sv_right.clone()
        sigma = paddle.sum(r * paddle.mv(self.weight, l))
        return F.linear(x, self.weight / sigma, self.bias)


class Neck(nn.Layer):
    """Batch norm without a learnt shift; unbiased running variance."""

    def __init__(self, c, rho=0.9, eps=1e-5):
        super().__init__()
        self.rho, self.eps = rho, eps
        self.gamma = self.create_parameter([c], default_initializer=Constant(1.0))
        self.beta = self.create_parameter([c], attr=paddle.ParamAttr(trainable=False), is_bias=True)
        self.register_buffer("mu", paddle.zeros([c]))
        self.register_buffer("sigma2", paddle.ones([c]))

    def forward(self, x):
        if self.training:
            m, v = x.mean(axis=0), x.var(axis=0, unbiased=False)
            with paddle.no_grad():
                n = x.shape[0]
                self.mu.set_value(self.rho * self.mu + (1 - self.rho) * m)
                self.sigma2.set_value(self.rho * self.sigma2 + (1 - self.rho) * n / (n - 1) * v)
        else:
            m, v = self.mu, self.sigma2
        return (x - m) * paddle.rsqrt(v + self.eps) * self.gamma + self.beta
