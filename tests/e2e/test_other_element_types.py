"""Sides whose numbers follow the element type as they should are not said to branch on it; those that branch are."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

INPUTS = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")


def torch_model(act, dtype=torch.float32):
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 32, dtype=dtype), torch.nn.Linear(32, 8, dtype=dtype)

        def forward(self, x):
            return self.second(act(self.first(x.to(self.first.weight.dtype))))

    return Side(framework="torch", functions={"build_model": Reference})


def paddle_model(act):
    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 8)

        def forward(self, x):
            return self.second(act(self.first(x)))

    return Side(framework="paddle", functions={"build_model": Port})


def forward(reference, candidate):
    return check(reference, candidate, inputs=INPUTS, stages=["weights", "forward"])["forward"]


def numpy_type(x):
    return np.float32 if x.dtype in (torch.float32, paddle.float32) else np.float64


def numbers_of_numpy(x):
    """Bounds that numpy gives, as the framework's own nan_to_num takes them."""
    info = np.finfo(numpy_type(x))
    return (x + info.eps * x).clip(info.min, info.max)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (torch.nan_to_num, paddle.nan_to_num),
        (lambda x: x * ~torch.isnan(x), lambda x: x * (~paddle.isnan(x)).astype(x.dtype)),
        (lambda x: x * torch.isfinite(x), lambda x: x * paddle.isfinite(x).astype(x.dtype)),
        (lambda x: x * ~torch.isinf(x), lambda x: x * (~paddle.isinf(x)).astype(x.dtype)),
        (numbers_of_numpy, numbers_of_numpy),
    ],
    ids=["nan_to_num", "isnan", "isfinite", "isinf", "finfo"],
)
def test_ends_of_an_element_types_range_are_no_branch(theirs, ours):
    stage = forward(torch_model(theirs), paddle_model(ours))
    assert stage.verdict == ALIGNED
    assert not any("a branch on the element type" in note for note in stage.notes), stage.notes


def test_the_ends_of_half_precision_are_none_either():
    def bounded(x):
        info = torch.finfo(x.dtype)
        return torch.clamp(x + info.eps, info.min, info.max)

    stage = forward(torch_model(bounded, torch.float16), torch_model(bounded, torch.float16))
    assert not any("a branch on the element type" in note for note in stage.notes), stage.notes


def test_a_branch_is_told_where_its_number_is_one_of_numpy():
    def branches(x):
        return x * (np.float32(1.5) if x.dtype == paddle.float32 else np.float64(1.25))

    stage = forward(torch_model(lambda x: 1.25 * x), paddle_model(branches))
    assert any("the candidate computes otherwise in float64 than as it is" in note for note in stage.notes), stage.notes
