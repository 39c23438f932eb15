"""Initialisers by the names that the paper's code uses."""
from paddle.nn import initializer as I


def fill(parameter, initializer):
    initializer(parameter)


def embedding_(weight, std=0.1, pad=0):
    fill(weight, I.Normal(0.0, std))
    value = weight.numpy().copy()
    value[pad] = 0.0
    weight.set_value(value)


def gru_(gru):
    for name, parameter in gru.named_parameters():
        if "weight_hh" in name:
            fill(parameter, I.Orthogonal(gain=0.8))
        elif "weight_ih" in name:
            fill(parameter, I.XavierUniform())
        else:
            fill(parameter, I.Constant(0.0))


def linear_(layer, uniform_gain=None):
    if uniform_gain is None:
        fill(layer.weight, I.XavierNormal())
    else:
        fill(layer.weight, I.XavierUniform(gain=uniform_gain))
    fill(layer.bias, I.Constant(0.0))


def context_(vector, bound=0.5):
    fill(vector, I.Uniform(-bound, bound))
