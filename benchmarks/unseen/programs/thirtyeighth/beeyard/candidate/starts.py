"""Initial values as the original has them."""
from paddle.nn.initializer import Uniform


def uniform_by_fan(fan_in):
    """For weights and for biases: within one over the root of the inputs of a unit."""
    bound = fan_in ** -0.5
    return Uniform(-bound, bound)


def conv_starts(channels, size=1):
    start = uniform_by_fan(channels * size * size)
    return {"weight_attr": start, "bias_attr": start}
