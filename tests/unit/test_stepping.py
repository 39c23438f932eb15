"""Lines inside optimizers: what is chosen to be watched, how settings and ways are read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters.base import Operation
from paralign.locate.optimizer.setting_lines import is_given
from paralign.locate.optimizer.watched_steps import ELEMENTS, RIGHT, WRONG, chosen
from paralign.locate.source.statements import alias_line
from paralign.worker.watching.fused import taken_apart


def plan(**shapes):
    """A plan in which tensors of these shapes (the reference's, the candidate's) correspond one to one."""
    moves = {
        name: [
            SimpleNamespace(reference=SimpleNamespace(shape=one), candidate=SimpleNamespace(name=f"own {name}", shape=other), transform=how)
        ]
        for name, (one, other, how) in shapes.items()
    }
    return SimpleNamespace(moves_of=lambda name: moves[name], fillings=lambda: {f"own {name}": (name,) for name in moves})


def test_a_few_wrong_and_right_parameters_of_each_kind_are_watched():
    shapes = {f"w{n}": ((8, 4), (4, 8), "transpose") for n in range(9)}
    shapes.update({f"b{n}": ((8 * (n + 3),), (8 * (n + 3),), None) for n in range(9)})
    found = chosen(plan(**shapes), [n for n in shapes if n[1] < "6"], [n for n in shapes if n[1] >= "6"])
    assert found["b0"] == "own b0"
    assert len(found) == WRONG + RIGHT
    assert {name[0] for name in found} == {"w", "b"}


def test_parameters_whose_order_shapes_do_not_tell_are_not_watched():
    shapes = {"square": ((8, 8), (8, 8), "transpose"), "oblong": ((8, 4), (4, 8), "transpose"), "same": ((8, 8), (8, 8), None)}
    assert set(chosen(plan(**shapes), list(shapes), [])) == {"oblong", "same"}


def test_huge_parameters_are_watched_alone_if_at_all():
    shapes = {"huge": ((ELEMENTS, 2), (ELEMENTS, 2), None), "small": ((64,), (64,), None)}
    assert set(chosen(plan(**shapes), list(shapes), [])) == {"small"}
    assert set(chosen(plan(**shapes), ["huge"], [])) == {"huge"}


@pytest.mark.parametrize(
    ("arguments", "given"),
    [({"epsilon": 1e-8}, True), ({"eps": 1e-3}, False), ({"epsilon": 1e-8, "eps": 1e-3}, False), ({"beta1": 1e-8}, False), ({}, False)],
)
def test_a_value_is_given_where_an_argument_of_that_name_has_it(arguments, given):
    assert is_given(arguments, "eps", 1e-3, 1e-8) is given


def test_pairs_and_switches_are_arguments_too():
    assert is_given({"betas": [0.9, 0.99]}, "second", 0.999, 0.99)
    assert is_given({"use_nesterov": False}, "nesterov", True, False)
    assert not is_given({"use_nesterov": 0}, "nesterov", True, False)
    assert not is_given({"eps": 1e-3}, "place", "outside", "inside")


CODE = """
def step(p, g, m):
    mean = m
    way = g * 2
    other = way
    return p - way * mean
"""


def test_a_name_that_is_only_handed_on_is_found(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(CODE, encoding="utf-8")
    assert alias_line(f"{path}:6") == f"{path}:3"
    assert alias_line(f"{path}:4") is None
    assert alias_line(f"{path}:99") is None
    path.write_text("def step(", encoding="utf-8")
    assert alias_line(f"{path}:6") is None
    assert alias_line(str(tmp_path / "none.py:3")) is None
    assert alias_line(None) is None


def fused(op, attrs, *tensors, out):
    return Operation(0, op, "", attrs, list(tensors), [out], (), "")


X, A, B = (np.random.default_rng(0).normal(size=(3, 6)) for _ in range(3))


@pytest.mark.parametrize(
    ("op", "attrs", "tensors", "result", "kind"),
    [
        ("aten.addcdiv_.default", {"value": -0.1}, (X, A, B), X - 0.1 * A / B, "subtract"),
        ("aten.addcmul.default", {"value": 0.2}, (X, A, B), X + 0.2 * A * B, "add"),
        ("aten.add_.Tensor", {"alpha": -3}, (X, A), X - 3 * A, "subtract"),
        ("aten.sub.Tensor", {"alpha": 0.5}, (X, A), X - 0.5 * A, "subtract"),
        ("aten.lerp_.Scalar", {"weight": 0.1}, (X, A), X + 0.1 * (A - X), "add"),
    ],
)
def test_what_does_several_things_is_taken_apart(op, attrs, tensors, result, kind):
    parts = taken_apart(fused(op, attrs, *tensors, out=result))
    one, other = parts.last
    assert parts.kind == kind
    np.testing.assert_allclose(one - other if kind == "subtract" else one + other, result, rtol=1e-12)
    assert all(any(part.value is taken for part in parts.steps) or any(t is taken for t in tensors) for taken in parts.last)


@pytest.mark.parametrize(("op", "attrs"), [("aten.add.Tensor", {}), ("aten.mul.Tensor", {"alpha": 2}), ("add", {"alpha": 2})])
def test_what_does_one_thing_is_left_whole(op, attrs):
    assert taken_apart(fused(op, attrs, X, A, out=X + A)) is None
