"""Constants and guards that one side alone has, or has in another form, and that no value shows."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
T, P = torch.nn.functional, paddle.nn.functional
INPUTS = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")


def forward(theirs, ours, epsilon=1e-5):
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32, eps=epsilon)

        def forward(self, x):
            return theirs(self, self.first(x))

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.norm = paddle.nn.Linear(16, 32), paddle.nn.LayerNorm(32, epsilon=epsilon)

        def forward(self, x):
            return ours(self, self.first(x))

    sides = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    return check(*sides, inputs=INPUTS, stages=["weights", "forward"])["forward"]


def by_hand(epsilon):
    """A layer normalisation of large values by hand, in either framework."""

    def normalised(model, y):
        centred = y * 1e3 - (y * 1e3).mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        root = (variance + epsilon) ** 0.5 if epsilon else variance**0.5
        return centred / root * model.norm.weight + model.norm.bias

    return normalised


def by_layer(model, y):
    return model.norm(y * 1e3)


DIFFERING = {
    "nan_to_num": (
        lambda _, y: torch.nan_to_num(y, nan=0.0),
        lambda _, y: paddle.nan_to_num(y, nan=1.0),
        "where by 1, the reference nan_to_num by 0",
    ),
    "tensor": (
        lambda _, y: torch.clamp(y, min=torch.linspace(-9, -8, 32)),
        lambda _, y: paddle.maximum(y, paddle.linspace(-7, -6, 32)),
        "maximum by -7 to -6, the reference clip by -9 to -8",
    ),
    "hand against layer": (by_layer, by_hand(1e-6), "add by 1e-06, the reference 1e-05"),
    "layer against hand": (by_hand(1e-12), by_layer, "epsilon 1e-05, the reference 1e-12"),
}


@pytest.mark.parametrize("name", DIFFERING)
def test_other_numbers_in_another_form_are_told_with_both_lines(name):
    theirs, ours, said = DIFFERING[name]
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, result.warnings
    assert any(said in note and note.count(__file__) == 2 for note in result.notes), result.notes


ALONE = {
    "nan_to_num of the port": (lambda _, y: y * 2, lambda _, y: paddle.nan_to_num(y) * 2, "candidate that changed no value"),
    "nan_to_num of the reference": (lambda _, y: torch.nan_to_num(y) * 2, lambda _, y: y * 2, "reference that changed no value"),
    "a clamp by a tensor": (lambda _, y: y * 2, lambda _, y: paddle.maximum(y, paddle.linspace(-7, -6, 32)) * 2, "(maximum by -7 to -6)"),
    "log(p + 1e-8)": (lambda _, y: torch.log(torch.softmax(y, -1) + 1e-8), lambda _, y: paddle.log(P.softmax(y, -1)), "(add by 1e-08)"),
    "log(p)": (lambda _, y: torch.log(torch.softmax(y, -1)), lambda _, y: paddle.log(P.softmax(y, -1) + 1e-10), "(add by 1e-10)"),
    "a norm without epsilon": (by_hand(0.0), by_layer, "(epsilon 1e-05)"),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_one_side_alone_has_is_a_note_with_its_number(name):
    theirs, ours, said = ALONE[name]
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, result.warnings
    assert any(said in note and __file__ in note for note in result.notes), result.notes


def spread(y, kind):
    """The deviation that adds its epsilon before the slice, or behind it."""
    return (y.std(-1, keepdim=True) * 1e4 + 1e-6)[:2] if kind == "before" else (y.std(-1, keepdim=True) * 1e4)[:2] + 1e-6


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (by_layer, by_hand(1e-5)),
        (by_hand(1e-5), by_layer),
        (lambda _, y: torch.nan_to_num(y) * 2, lambda _, y: paddle.where(paddle.isnan(y), paddle.zeros_like(y), y) * 2),
        (lambda _, y: torch.nan_to_num(y) * 2, lambda _, y: paddle.nan_to_num(y) * 2),
        (lambda _, y: torch.clamp(y, min=torch.linspace(-9, -8, 32)), lambda _, y: paddle.maximum(y, paddle.linspace(-9, -8, 32))),
        (
            lambda _, y: y.masked_fill(torch.zeros(4, 32, dtype=torch.bool), -1e9),
            lambda _, y: y + paddle.zeros([4, 32]) * -1e9,
        ),
        (lambda _, y: y[:2] / spread(y, "before"), lambda _, y: y[:2] / spread(y, "behind")),
        (lambda _, y: T.normalize(y), lambda _, y: y / (y.norm(p=2, axis=-1, keepdim=True) + 1e-12)),
        (
            lambda _, y: T.rms_norm(y * 1e3, (32,), eps=1e-6),
            lambda _, y: y * 1e3 * paddle.rsqrt((y * 1e3).pow(2).mean(-1, keepdim=True) + 1e-6),
        ),
    ],
)
def test_the_same_constants_in_another_form_are_told_by_nothing(theirs, ours):
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    said = ("too small to show", "changed no value", "constants differ")
    assert not any(each in note for each in said for note in [*result.warnings, *result.notes]), result.notes


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_draws_of_a_ten_millionth_are_a_note(side):
    calls = []

    def drawn(model, y):
        del model
        calls.append(1)
        return y * (1 + 2e-7 * (len(calls) % 2))

    def steady(model, y):
        del model
        return y * 1

    result = forward(*((drawn, steady) if side == "reference" else (steady, drawn)))
    assert result.verdict == ALIGNED, result.warnings
    assert any(f"the {side} does not repeat itself to the last digits" in note for note in result.notes), (result.verdict, result.notes)


@pytest.mark.parametrize(("far", "sides"), [(8e-6, ["reference", "candidate"]), (5e-9, [])])
def test_two_sides_that_do_not_repeat_themselves_say_so_with_its_size(far, sides):
    calls = []

    def drawn(model, y):
        del model
        calls.append(1)
        return y * (1 + far * (len(calls) % 2))

    result = forward(drawn, drawn)
    said = [note for note in result.excused if "does not repeat itself" in note]
    assert [side for side in ("reference", "candidate") if any(f"the {side} does" in note for note in said)] == sides, result.notes
    assert all("differ by 8e-06" in note or "differ by 7." in note for note in said), said
