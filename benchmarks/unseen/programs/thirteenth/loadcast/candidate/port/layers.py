"""Layers that start as the reference's do."""

import paddle
import paddle.nn as nn
from paddle.nn import initializer as I


def _uniform(bound):
    return paddle.ParamAttr(initializer=I.Uniform(-bound, bound))


def dense(n_in, n_out):
    bound = n_in**-0.5
    return nn.Linear(n_in, n_out, weight_attr=_uniform(bound), bias_attr=_uniform(bound))


def conv(n_in, n_out, kernel=1, dilation=1):
    bound = (n_in * kernel) ** -0.5
    return nn.Conv1D(n_in, n_out, kernel, dilation=dilation, weight_attr=_uniform(bound), bias_attr=_uniform(bound))


def table(rows, dim):
    return nn.Embedding(rows, dim, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 1.0)))


def two_layers(n_in, hidden, n_out, activation):
    return nn.Sequential(dense(n_in, hidden), activation, dense(hidden, n_out))
