"""Causal convolutions with weight normalisation, as layers with explicit g and v."""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class WNCausalConv(nn.Layer):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=1):
        super().__init__()
        bound = 1.0 / (in_channels * kernel_size) ** 0.5
        self.left, self.dilation = dilation * (kernel_size - 1), dilation
        self.v = self.create_parameter([out_channels, in_channels, kernel_size],
                                       default_initializer=nn.initializer.Normal(0.0, 0.1))
        self.g = self.create_parameter([out_channels], default_initializer=nn.initializer.Constant(1.0))
        self.g.set_value(self._norm())
        self.bias = self.create_parameter([out_channels], is_bias=True,
                                          default_initializer=nn.initializer.Uniform(-bound, bound))

    def _norm(self):
        return paddle.sqrt(paddle.sum(paddle.square(self.v), axis=[1, 2]))

    @property
    def weight(self):
        return self.v * (self.g / self._norm()).reshape([-1, 1, 1])

    def forward(self, x):
        x = F.pad(x, [self.left, 0], data_format="NCL")
        return F.conv1d(x, self.weight, self.bias, dilation=self.dilation)


class ResidualTCNBlock(nn.Layer):
    def __init__(self, c_in, c_out, k, d):
        super().__init__()
        self.match = None
        if c_in != c_out:
            b = c_in ** -0.5
            self.match = nn.Conv1D(c_in, c_out, 1, weight_attr=nn.initializer.Normal(0.0, 0.1),
                                   bias_attr=nn.initializer.Uniform(-b, b))
        self.second = WNCausalConv(c_out, c_out, k, d)
        self.first = WNCausalConv(c_in, c_out, k, d)

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(y + (self.match(x) if self.match is not None else x))
