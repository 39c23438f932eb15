"""Convolution with standardised kernels."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal


def standardise(kernel, gain, floor=1e-4):
    flat = kernel.flatten(1)
    centred = flat - flat.mean(axis=1, keepdim=True)
    power = paddle.clip(centred.square().sum(axis=1, keepdim=True), min=floor)
    return (centred / power.sqrt()).reshape(kernel.shape) * gain


class StandardConv(nn.Layer):
    def __init__(self, fan, out, size, dilation=1):
        super().__init__()
        spread = (2.0 / (out * size ** 2)) ** 0.5
        self.weight = self.create_parameter([out, fan, size, size], default_initializer=Normal(0.0, spread))
        self.bias = self.create_parameter([out], is_bias=True)
        self.gain = self.create_parameter([out, 1, 1, 1], default_initializer=Constant(1.0))
        self.options = {"padding": dilation * (size - 1) // 2, "dilation": dilation}

    def forward(self, x):
        return F.conv2d(x, standardise(self.weight, self.gain), self.bias, **self.options)
