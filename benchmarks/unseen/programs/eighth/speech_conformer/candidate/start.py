"""Where a training begins: Xavier's law for what has two or more axes, PyTorch's own for biases."""
import math

from paddle import nn
from paddle.nn import initializer as I


def inputs_of(layer):
    """Numbers that each output of a layer is made of."""
    if isinstance(layer, nn.Linear):
        return layer.weight.shape[0]
    return math.prod(layer.weight.shape[1:])


def start_like_reference(model):
    for layer in model.sublayers():
        if isinstance(layer, (nn.Linear, nn.Conv1D, nn.Conv2D)) and layer.bias is not None:
            bound = 1.0 / math.sqrt(inputs_of(layer))
            I.Uniform(-bound, bound)(layer.bias)
    xavier = I.XavierUniform()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            xavier(parameter)
