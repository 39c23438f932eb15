"""PyTorch's initialisers for Paddle: ``torch.nn.init``, and its layers' defaults.

Every function fills a Paddle parameter or tensor in place and returns it. A layer may be given in place of its weight. Values
come from a numpy generator seeded by Paddle's own, so ``paddle.seed`` makes them reproducible; ``generator`` takes an integer
or a ``numpy.random.Generator`` instead.

A matrix alone does not say which axis is the input: ``paddle.nn.Linear`` keeps ``[in, out]``, PyTorch and Paddle's embeddings the
other order. Where the order decides (``kaiming_uniform_``, ``kaiming_normal_`` and ``sparse_`` of a 2-dimensional tensor), give the
layer, whose class tells the layout, or say ``layout="paddle"`` or ``layout="torch"``; a bare matrix is refused. All other functions
treat both axes alike, and all other weights lie in Paddle as they do in PyTorch.

>>> import paddle
>>> from paralign import init
>>> linear = paddle.nn.Linear(64, 3)
>>> _ = init.kaiming_uniform_(linear, nonlinearity="relu", generator=0)  # the fan is 64, as in PyTorch
>>> float(linear.weight.abs().max()) < (6 / 64) ** 0.5
True
>>> print(init.default_like_torch(linear, seed=0))
2 parameters initialised as in PyTorch, 0 left as they were
  weight  Linear  U(-0.125, 0.125)
  bias    Linear  U(-0.125, 0.125)
"""

from __future__ import annotations

from paralign.init._problems import InvalidInit
from paralign.init.defaults import default_like_torch
from paralign.init.detection import conv_init_, linear_init_
from paralign.init.fans import calculate_gain
from paralign.init.filling import (
    constant_,
    dirac_,
    eye_,
    kaiming_normal_,
    kaiming_uniform_,
    normal_,
    ones_,
    orthogonal_,
    sparse_,
    trunc_normal_,
    uniform_,
    xavier_normal_,
    xavier_uniform_,
    zeros_,
)
from paralign.init.outcome import Filled, InitReport, Left

__all__ = [
    "Filled",
    "InitReport",
    "InvalidInit",
    "Left",
    "calculate_gain",
    "constant_",
    "conv_init_",
    "default_like_torch",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "linear_init_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
