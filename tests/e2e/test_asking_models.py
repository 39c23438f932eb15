"""Models whose code asks what pass it is in, and data sets that draw from where no seed reaches: the result says so."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
from torch import is_grad_enabled  # noqa: E402 - after the question whether it is there

X = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
Y = np.random.default_rng(1).integers(0, 4, 5)


def scaled(h):
    return h * 2 if is_grad_enabled() else h


class Theirs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.b(scaled(torch.tanh(self.a(x))))


class Ours(paddle.nn.Layer):
    def __init__(self, asks):
        super().__init__()
        self.a, self.b, self.asks = paddle.nn.Linear(6, 8), paddle.nn.Linear(8, 4), asks

    def forward(self, x):
        h = paddle.tanh(self.a(x))
        if self.asks and not h.stop_gradient:
            h = h * 2
        return self.b(h)


class Plain(torch.nn.Module):
    """The framework's own layer asks; its user only freezes."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x):
        x.requires_grad = False
        return self.layer(x)


def sides(asks):
    losses = torch.nn.functional.cross_entropy, paddle.nn.functional.cross_entropy
    return Side(model=Theirs(), loss=losses[0]), Side(model=Ours(asks), loss=losses[1])


def asking(result):
    return [note for note in result["forward"].notes if "asks what pass it is in" in note]


def test_questions_are_named_with_their_lines_in_helpers_and_methods():
    notes = asking(check(*sides(True), inputs=X, labels=Y, stages=["weights", "forward"]))
    lines = scaled.__code__.co_firstlineno + 1, Ours.forward.__code__.co_firstlineno + 2
    assert f"the reference asks what pass it is in (is_grad_enabled at test_asking_models.py:{lines[0]})" in notes[0]
    assert f"the candidate asks what pass it is in (stop_gradient at test_asking_models.py:{lines[1]})" in notes[1]


def test_a_branch_that_only_passes_with_gradients_take_is_found_by_backward():
    result = check(*sides(False), inputs=X, labels=Y, stages=["weights", "forward", "loss", "backward"])
    assert result["backward"].verdict == DIVERGED
    assert asking(result)


def test_questions_of_the_framework_and_what_is_set_are_none():
    result = check(Side(model=Plain()), Side(model=Plain()), inputs=X[None], stages=["weights", "forward"])
    assert result["forward"].verdict == ALIGNED
    assert not asking(result)


# -- models that ask for the element type -----------------------------------------------------------------------------------------


class Typed(torch.nn.Module):
    """A layer between two others, another one in float64 than in float32."""

    def __init__(self, native, double):
        super().__init__()
        self.a, self.b, self.native, self.double = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4), native, double

    def forward(self, x):
        h = self.a(x)
        return self.b(self.double(h) if h.dtype == torch.float64 else self.native(h))


def gelu(h):
    return torch.nn.functional.gelu(h)


def approximate_gelu(h):
    return torch.nn.functional.gelu(h, approximate="tanh")


def spelled_gelu(h):
    return 0.5 * h * (1 + torch.erf(h / 2**0.5))


def a_little_more(h):
    return gelu(h) * 1.00001


def least_of_type(h):
    return gelu(h).clamp(min=torch.finfo(h.dtype).min) + torch.finfo(h.dtype).eps


def typed(native, double=gelu):
    sides = [Side(functions={"build_model": lambda of=of: Typed(*of)}, framework="torch") for of in ((gelu, gelu), (native, double))]
    return check(*sides, inputs=X, stages=["weights", "forward"])["forward"]


def branching(result):
    return [note for note in result.notes if "computes otherwise in float64 than as it is" in note]


@pytest.mark.parametrize("native", [approximate_gelu, a_little_more])
def test_a_formula_that_only_float32_takes_diverges_at_its_line(native):
    result = typed(native)
    assert result.verdict == DIVERGED, result.notes
    line = f"test_asking_models.py:{native.__code__.co_firstlineno + 1}"
    assert line in branching(result)[0]
    assert result.divergence.candidate.source.endswith(line)


def test_a_right_formula_in_other_operations_is_said_and_aligned():
    result = typed(spelled_gelu)
    assert result.verdict == ALIGNED, result.notes
    assert branching(result)


@pytest.mark.parametrize("formula", [gelu, least_of_type])
def test_numbers_that_belong_to_an_element_type_are_no_branch(formula):
    result = typed(formula, formula)
    assert not branching(result)


GENERATORS = {
    "numpy": lambda: np.random.default_rng().normal,
    "python": lambda: lambda size: [random.Random().gauss(0, 1) for _ in range(size)],
}


class Rows:
    def __init__(self, kind, scale, split):
        assert split
        self.draw, self.scale = GENERATORS[kind]() if kind else self.nothing, scale
        self.x = np.random.default_rng(3).normal(size=(12, 5)).astype("float32")

    def nothing(self, size):
        return np.zeros(size)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + np.asarray(self.scale * np.asarray(self.draw(size=5)), "float32"), index % 3


def data(reference, candidate):
    of = [
        Side(framework=name, functions={"build_dataset": partial(Rows, *own)})
        for name, own in zip(("torch", "paddle"), (reference, candidate), strict=True)
    ]
    return check(*of, stages=["data"])["data"]


@pytest.mark.parametrize("kind", GENERATORS)
def test_samples_from_generators_that_no_seed_reaches_are_compared_by_their_laws(kind):
    result = data((kind, 0.1), (kind, 0.1))
    assert result.verdict == UNDERPOWERED, result.notes
    assert any("generators of their own, which no seed reaches" in note for note in result.notes)


@pytest.mark.parametrize("candidate", [("numpy", 0.2), (None, 0.1)])
def test_other_laws_and_none_diverge_all_the_same(candidate):
    assert data(("numpy", 0.1), candidate).verdict == DIVERGED


class Touched:
    def __getattribute__(self, name):
        raise RuntimeError(name)


untouchable = Touched()


def circular(h):
    return h


circular.__wrapped__ = circular


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 4)

    def forward(self, x):
        return circular(self.layer(x)) if x is not untouchable else None


def test_objects_that_the_code_names_are_not_touched():
    result = check(Side(model=Odd()), Side(model=Odd()), inputs=X, stages=["weights", "forward"])
    assert result["forward"].verdict == ALIGNED
