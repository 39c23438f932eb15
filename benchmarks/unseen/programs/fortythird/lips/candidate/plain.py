"""Layers that begin as PyTorch's do."""
from math import prod, sqrt

from paddle import nn
from paddle.nn.initializer import Uniform


def around(fan_in):
    return Uniform(-1 / sqrt(fan_in), 1 / sqrt(fan_in))


def linear(n_in, n_out, bias=True):
    return nn.Linear(n_in, n_out, weight_attr=around(n_in), bias_attr=around(n_in) if bias else False)


def conv1d(n_in, n_out, kernel, groups=1, bias=True):
    start = around(n_in // groups * kernel)
    return nn.Conv1D(n_in, n_out, kernel, padding=kernel // 2, groups=groups, weight_attr=start,
                     bias_attr=start if bias else False)


def point(n_in, n_out):
    return nn.Conv2D(n_in, n_out, 1, weight_attr=around(n_in), bias_attr=around(n_in))


def fan_in(weight):
    return prod(weight.shape[1:])
