"""Layers with their initial values."""
import paddle
from paddle import nn
from paddle.nn import initializer as I


def dense(cin, cout, bias=True, gain=1.0):
    std = gain * (2.0 / (cin + cout)) ** 0.5
    bias_attr = paddle.ParamAttr(initializer=I.Constant(0.0)) if bias else False
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=I.Normal(std=std)), bias_attr=bias_attr)


def table(count, width, **options):
    return nn.Embedding(count, width, weight_attr=paddle.ParamAttr(initializer=I.Normal(std=0.1)), **options)
