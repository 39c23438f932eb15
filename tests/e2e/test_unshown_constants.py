"""Constants that differ and that no value shows are told; the same ones by other names are no difference."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
T, P = torch.nn.functional, paddle.nn.functional
INPUTS = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")
IDS = np.random.default_rng(0).integers(5, 40, (4, 8)).astype("int64")


def sides(theirs, ours):
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.first = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 32)

        def forward(self, x):
            return theirs(self, x)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table, self.first = paddle.nn.Embedding(50, 16), paddle.nn.Linear(16, 32)

        def forward(self, x):
            return ours(self, x)

    return Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})


def forward(theirs, ours, inputs=INPUTS):
    return check(*sides(theirs, ours), inputs=inputs, stages=["weights", "forward"])["forward"]


def positive(model, x):
    y = model.first(x)
    return y * y + 1


NUMBERS = {
    "layer_norm": (
        lambda m, x: T.layer_norm(m.first(x) * 1e6, (32,), eps=1e-6),
        lambda m, x: P.layer_norm(m.first(x) * 1e6, [32], epsilon=1e-5),
        "epsilon 1e-05, the reference 1e-06",
    ),
    "softplus": (lambda m, x: T.softplus(m.first(x)), lambda m, x: P.softplus(m.first(x), threshold=15), "threshold 15, the reference 20"),
    "leaky": (
        lambda m, x: T.leaky_relu(positive(m, x), 0.1),
        lambda m, x: P.leaky_relu(positive(m, x)),
        "negative_slope 0.01, the reference 0.1",
    ),
    "hardshrink": (
        lambda m, x: T.hardshrink(positive(m, x), 0.2),
        lambda m, x: P.hardshrink(positive(m, x), 0.3),
        "threshold 0.3, the reference 0.2",
    ),
    "added": (lambda m, x: m.first(x) * 1e4 + 1e-5, lambda m, x: m.first(x) * 1e4 + 1e-6, "add by 1e-06, the reference 1e-05"),
    "filled": (
        lambda m, x: positive(m, x).masked_fill(positive(m, x) < 0, 5.0),
        lambda m, x: paddle.where(positive(m, x) < 0, paddle.full([1], 6.0), positive(m, x)),
        "where by 6.0, the reference 5.0",
    ),
    "threshold": (
        lambda m, x: m.first(x) * (positive(m, x) > 0.5),
        lambda m, x: m.first(x) * (positive(m, x) > 0.25).astype(x.dtype),
        "gt by 0.25, the reference 0.5",
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_no_value_shows_are_underpowered_with_both_lines(name):
    theirs, ours, said = NUMBERS[name]
    result = forward(theirs, ours)
    assert result.verdict == UNDERPOWERED, result.notes
    assert any(said in warning and warning.count(__file__) == 2 for warning in result.warnings), result.warnings


def test_an_id_that_is_never_met_is_told():
    result = forward(
        lambda m, x: m.first(m.table(x) * (x != 0)[..., None]),
        lambda m, x: m.first(m.table(x) * (x != 1).astype("float32")[..., None]),
        IDS,
    )
    assert result.verdict == UNDERPOWERED
    assert any("ne by 1, the reference 0" in warning for warning in result.warnings), result.warnings


def test_great_ids_that_are_never_met_are_told():
    result = forward(
        lambda m, x: m.first(m.table(x) * (x != 50257)[..., None]),
        lambda m, x: m.first(m.table(x) * (x != 50256).astype("float32")[..., None]),
        IDS,
    )
    assert result.verdict == UNDERPOWERED
    assert any("ne by 50256, the reference 50257" in warning for warning in result.warnings), result.warnings


def test_bounds_of_whole_numbers_that_divide_them_alike_are_one():
    result = forward(
        lambda m, x: m.first(m.table(x) * (x > 9)[..., None]),
        lambda m, x: m.first(m.table(x) * (x > 9.5).astype("float32")[..., None]),
        IDS,
    )
    assert result.verdict == ALIGNED, result.warnings


def test_the_bound_of_normalize_is_compared_with_the_clamp_within_the_other():
    result = forward(lambda m, x: T.normalize(m.first(x)), lambda m, x: P.normalize(m.first(x), epsilon=1e-3))
    assert result.verdict == UNDERPOWERED
    assert any("0.001 to inf, the reference 1e-12 to inf" in warning for warning in result.warnings), result.warnings


@pytest.mark.parametrize("operand", [paddle.to_tensor(-9.0), -9.0])
def test_a_bound_that_is_a_tensor_is_read(operand):
    def ours(model, x):
        y = model.first(x)
        return paddle.maximum(y, operand if isinstance(operand, paddle.Tensor) else paddle.full_like(y, operand))

    result = forward(lambda m, x: m.first(x).clamp(min=-8), ours)
    assert result.verdict == UNDERPOWERED
    assert any("-9 to inf, the reference -8 to inf" in warning for warning in result.warnings), result.warnings
    assert forward(lambda m, x: m.first(x).clamp(min=-9), ours).verdict == ALIGNED


def test_a_padding_index_that_is_never_met_is_a_note():
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(50, 16, padding_idx=0)

        def forward(self, x):
            return self.table(x)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = paddle.nn.Embedding(50, 16, padding_idx=1)

        def forward(self, x):
            return self.table(x)

    both = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    result = check(*both, inputs=IDS, stages=["weights", "forward"])["forward"]
    assert result.verdict == ALIGNED
    assert any("padding_idx 1, the reference 0" in note and note.count(__file__) == 2 for note in result.notes), result.notes


def test_a_clamp_that_the_port_adds_is_said():
    result = forward(lambda m, x: T.gelu(m.first(x)), lambda m, x: P.gelu(m.first(x)).clip(-90, 90))
    assert result.verdict == ALIGNED
    assert any("of the candidate" in note and "-90 to 90" in note for note in result.notes), result.notes


def ported_rms(model, x):
    y = model.first(x) * 1e3
    return y * paddle.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1.1920929e-07)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (lambda m, x: T.layer_norm(m.first(x) * 1e6, (32,)), lambda m, x: P.layer_norm(m.first(x) * 1e6, [32])),
        (lambda m, x: T.softplus(m.first(x)), lambda m, x: P.softplus(m.first(x), beta=1.0, threshold=20.0)),
        (lambda m, x: T.leaky_relu(positive(m, x)), lambda m, x: P.leaky_relu(positive(m, x), 0.01)),
        (lambda m, x: T.normalize(m.first(x)), lambda m, x: P.normalize(m.first(x))),
        (lambda m, x: T.cosine_similarity(m.first(x), positive(m, x)), lambda m, x: P.cosine_similarity(m.first(x), positive(m, x))),
        (lambda m, x: m.first(x) * 1e4 + 1e-5 + 1e-3, lambda m, x: m.first(x) * 1e4 + 1e-3 + 1e-5),
        (
            lambda m, x: positive(m, x).masked_fill(positive(m, x) < 0, float("-inf")),
            lambda m, x: paddle.where(positive(m, x) < 0, paddle.full([1], -1e9), positive(m, x)),
        ),
        (lambda m, x: T.rms_norm(m.first(x) * 1e3, (32,)), ported_rms),
        (lambda m, x: T.pad(m.first(x), (1, 1), value=-1.0), lambda m, x: P.pad(m.first(x), [0, 0, 1, 1], value=-1.0)),
        (
            lambda m, x: torch.addmm(m.first.bias, x, m.first.weight.T, beta=0.5, alpha=2.0),
            lambda m, x: paddle.addmm(m.first.bias.unsqueeze(0), x, m.first.weight, beta=0.5, alpha=2.0),
        ),
        (
            lambda m, x: positive(m, x).masked_fill(positive(m, x) < 0, float("nan")),
            lambda m, x: paddle.where(positive(m, x) < 0, paddle.full([1], float("nan")), positive(m, x)),
        ),
    ],
)
def test_the_same_constants_in_other_words_are_aligned(theirs, ours):
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert not any("differ at" in said or "not tested" in said for said in [*result.warnings, *result.notes])


def test_momentum_by_its_other_convention_is_no_difference():
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(16, momentum=0.1)

        def forward(self, x):
            return self.norm(x)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm = paddle.nn.BatchNorm1D(16, momentum=0.9)

        def forward(self, x):
            return self.norm(x)

    both = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    result = check(*both, inputs=INPUTS, stages=["weights", "forward"])["forward"]
    assert result.verdict == ALIGNED
    assert not any("differ at" in said for said in [*result.warnings, *result.notes])
