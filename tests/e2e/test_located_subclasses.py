"""Layers of the framework whose ``forward`` is the user's own: its steps are its lines, what the kernel takes is the construction's."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F


class Standardised(nn.Conv2d):
    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        weight = (self.weight - mean) / torch.sqrt(var + 1e-4)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class Normed(nn.GroupNorm):
    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class Pooled(nn.MaxPool2d):
    def forward(self, x):
        return F.max_pool2d(F.pad(x, (1, 1, 1, 1)), self.kernel_size, self.stride)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = Standardised(3, 8, 3, 2, 1)
        self.second = Standardised(8, 8, 3, 1, 1)
        self.norm = Normed(4, 8)
        self.pool = Pooled(3, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.norm(torch.relu(self.second(torch.relu(self.entry(x)))))
        return self.head(self.pool(x).mean(dim=[2, 3]))


def build_model():
    torch.manual_seed(0)
    return Net()
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F


class WeightNormed(nn.Conv2D):
    def kernel(self):
        flat = self.weight.flatten(1)
        centred = flat - flat.mean(axis=1, keepdim=True)
        var = paddle.var(flat, axis=1, keepdim=True)
        flat = centred / paddle.sqrt(var + 1e-4)
        return flat.reshape(self.weight.shape)

    def forward(self, x):
        return F.conv2d(x, self.kernel(), self.bias, self._stride, self._padding)


class GroupNormed(nn.GroupNorm):
    def forward(self, x):
        return F.group_norm(x, self._num_groups, self._epsilon, self.weight, self.bias)


class EdgePooled(nn.MaxPool2D):
    def forward(self, x):
        return F.max_pool2d(F.pad(x, [1, 1, 1, 1]), self.ksize, self.stride)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.entry = WeightNormed(3, 8, 3, 2, 1)
        self.second = WeightNormed(8, 8, 3, 1, 1)
        self.norm = GroupNormed(4, 8)
        self.pool = EdgePooled(3, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.norm(F.relu(self.second(F.relu(self.entry(x)))))
        return self.head(self.pool(x).mean(axis=[2, 3]))


def build_model():
    return Net()
"""


@pytest.fixture
def located(written_side):
    """The lines that a check names, for a port in which one text is exchanged."""

    def run(old, new):
        assert CANDIDATE.count(old) == 1
        inputs = np.random.default_rng(0).standard_normal((2, 3, 24, 24)).astype("float32")
        text = CANDIDATE.replace(old, new)
        (stage,) = check(
            written_side("torch", REFERENCE, "build_model"), written_side("paddle", text, "build_model"), inputs=inputs, stages=["forward"]
        ).stages
        return [text.splitlines()[int(d.candidate.source.rpartition(":")[2]) - 1].strip() for d in stage.divergences]

    return run


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("flat, axis=1, keepdim=True)\n        flat", "flat, axis=1, unbiased=False, keepdim=True)\n        flat", ("var =", "flat =")),
        ("paddle.sqrt(var + 1e-4)", "paddle.sqrt(var + 1e-2)", ("flat =",)),
        ("paddle.sqrt(var + 1e-4)", "(paddle.sqrt(var) + 1e-4)", ("flat =",)),
    ],
)
def test_a_step_beside_the_kernel_is_named_in_the_layers_own_code(located, old, new, lines):
    assert located(old, new)[0].startswith(lines)


def test_what_the_kernel_takes_is_named_where_the_layer_is_constructed(located):
    assert located("GroupNormed(4, 8)", "GroupNormed(2, 8)")[0] == "self.norm = GroupNormed(2, 8)"
    assert located("EdgePooled(3, 2)", "EdgePooled(2, 2)")[0] == "self.pool = EdgePooled(2, 2)"


def test_a_right_port_diverges_nowhere(located):
    assert located("return Net()", "return Net()  # as it is") == []
