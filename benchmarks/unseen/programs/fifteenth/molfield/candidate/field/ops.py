import math

import paddle
import paddle.nn.functional as F
from paddle import geometric


def softplus0(x):
    return F.softplus(x) - math.log(2.0)


def gather(x, index):
    return paddle.gather(x, index, axis=0)


def add_at(values, index, size):
    start = paddle.zeros([size] + list(values.shape[1:]), dtype=values.dtype)
    return paddle.scatter_nd_add(start, index.unsqueeze(-1), values)


def over_molecules(values, graph, how="sum"):
    reduce = {
        "sum": geometric.segment_sum,
        "mean": geometric.segment_mean,
        "max": geometric.segment_max,
    }[how]
    return reduce(values, graph)


def softmax_in_molecules(scores, graph):
    top = over_molecules(scores.detach(), graph, "max")
    powers = paddle.exp(scores - gather(top, graph))
    return powers / gather(over_molecules(powers, graph), graph)


def gaussians(distance, count, cutoff):
    centres = paddle.linspace(0.0, cutoff, count, dtype="float32")
    width = cutoff / (count - 1)
    away = (distance.unsqueeze(-1) - centres.astype(distance.dtype)) / width
    return paddle.exp(-0.5 * away ** 2)


def fade(distance, cutoff):
    smooth = 0.5 * (1.0 + paddle.cos(distance * (math.pi / cutoff)))
    return paddle.where(distance < cutoff, smooth, paddle.zeros_like(smooth))


def huber(predicted, wanted, delta):
    error = paddle.abs(predicted - wanted)
    inner = 0.5 * error ** 2
    outer = delta * (error - 0.5 * delta)
    return paddle.where(error <= delta, inner, outer).mean()
