"""Layers that begin as they do in PyTorch."""
import paddle
from paddle import nn
from paddle.nn import initializer as I


def linear(n_in, n_out, bias=True, weight=None, bias_value=None):
    r = n_in ** -0.5
    start = I.Uniform(-r, r) if bias_value is None else I.Constant(bias_value)
    return nn.Linear(n_in, n_out, weight_attr=weight or I.Uniform(-r, r), bias_attr=start if bias else False)


def table(rows, width, std=1.0, pad=None):
    return nn.Embedding(rows, width, padding_idx=pad, weight_attr=I.Normal(0.0, std))


class RootMean(nn.Layer):
    def __init__(self, width, small=1e-3):
        super().__init__()
        self.small = small
        self.gain = self.create_parameter([width], default_initializer=I.Constant(1.0))

    def forward(self, x):
        power = (x * x).mean(axis=-1, keepdim=True)
        return self.gain * x / paddle.sqrt(power + self.small)
