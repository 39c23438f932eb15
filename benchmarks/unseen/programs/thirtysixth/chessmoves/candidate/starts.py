"""Initial values."""
import math

from paddle import ParamAttr
from paddle.nn import Conv2D, Linear
from paddle.nn.initializer import Constant, Normal, XavierNormal


def linear(n_in, n_out, bias_attr=None):
    return Linear(n_in, n_out, weight_attr=ParamAttr(initializer=XavierNormal()), bias_attr=bias_attr)


def conv(n_in, n_out, size):
    std = math.sqrt(2.0 / (n_out * size * size))
    return Conv2D(
        n_in, n_out, size, padding=(size - 1) // 2, weight_attr=ParamAttr(initializer=Normal(0.0, std)), bias_attr=False
    )


small = Normal(0.0, 0.2)
zero = Constant(0.0)
