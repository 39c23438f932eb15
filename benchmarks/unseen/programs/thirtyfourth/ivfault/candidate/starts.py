"""Initial values of layers, as short functions that give attributes."""
import math

import paddle
from paddle import nn
from paddle.nn import initializer as I


def conv(cin, cout, width, bias=True, **options):
    """Conv1D with He's normal values by the fan out, and no bias at the start."""
    start = I.Normal(0.0, math.sqrt(2.0 / (cout * width)))
    bias_attr = paddle.ParamAttr(initializer=I.Constant(0.0)) if bias else False
    return nn.Conv1D(cin, cout, width, weight_attr=paddle.ParamAttr(initializer=start), bias_attr=bias_attr, **options)


def dense(cin, cout, bias=0.0):
    start = I.TruncatedNormal(mean=0.0, std=cin ** -0.5, a=-2.0, b=2.0)
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=start),
                     bias_attr=paddle.ParamAttr(initializer=I.Constant(bias)))
