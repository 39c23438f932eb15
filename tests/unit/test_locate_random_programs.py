"""Random programs: harmless rewrites have no guilty operation; one planted fault is named."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory

ROWS, WIDTH = 5, 8
RELAXED = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

#: step -> what a porter gets wrong in it, as the changed argument
KINDS = ("linear", "relu", "tanh", "norm", "gelu", "residual", "softmax", "scale", "turned")
FAULTY = {"relu": 0.2, "norm": 1e-2, "gelu": True, "scale": 1.3}
RIGHT = {"relu": 0.0, "norm": 1e-5, "gelu": False, "scale": 0.8}


@dataclass(frozen=True)
class Step:
    """One step of a program; ``rewritten`` computes it in another way that means the same."""

    kind: str
    place: int
    wrong: bool = False
    rewritten: bool = False


def parameters(steps):
    rng, found = np.random.default_rng(7), {}
    for step in steps:
        name = f"{step.kind}{step.place}"
        if step.kind == "linear":
            found[f"{name}.w"], found[f"{name}.b"] = rng.normal(size=(WIDTH, WIDTH)) / 2, rng.normal(size=WIDTH)
        elif step.kind == "norm":
            found[f"{name}.w"], found[f"{name}.b"] = 1 + rng.normal(size=WIDTH) / 5, rng.normal(size=WIDTH)
    return {"head": rng.normal(size=(WIDTH, WIDTH)), **found}


def program(steps):
    """A function for a machine; every step is made by a line of its own in a file of its own."""
    return lambda m: m.matmul(run(m, steps), m.parameter("head"))


def run(m, steps):
    x = before = m.input()
    for step in steps:
        arguments = FAULTY if step.wrong else RIGHT
        with m.module(f"{step.kind}{step.place}"):
            after = (REWRITTEN if step.rewritten and step.kind in REWRITTEN else WAYS)[step.kind](
                m, x, before, step, arguments.get(step.kind)
            )
        before, x = x, after
    return x


def given_of(m, step):
    return m.parameter(f"{step.kind}{step.place}.w"), m.parameter(f"{step.kind}{step.place}.b")


def norm_in_steps(m, x, _before, step, eps):
    w, b = given_of(m, step)
    mean = m.operation("mean", lambda a: a.mean(-1, keepdims=True), x)
    centred = m.operation("subtract", lambda a, c: a - c, x, mean)
    variance = m.operation("mean", lambda a: (a**2).mean(-1, keepdims=True), centred)
    root = m.operation("sqrt", lambda a: np.sqrt(a + a.dtype.type(eps)), variance, epsilon=eps)
    return m.add(m.multiply(m.operation("divide", lambda a, c: a / c, centred, root), w), b)


WAYS = {
    "linear": lambda m, x, _, step, __: m.linear(x, *given_of(m, step)),
    "relu": lambda m, x, _, __, slope: m.relu(x, slope=slope),
    "tanh": lambda m, x, *_: m.tanh(x),
    "norm": lambda m, x, _, step, eps: m.layer_norm(x, *given_of(m, step), eps=eps),
    "gelu": lambda m, x, _, __, tanh: m.gelu(x, tanh=tanh),
    "residual": lambda m, x, before, *_: m.add(x, before),
    "softmax": lambda m, x, *_: m.softmax(x),
    "scale": lambda m, x, _, __, by: m.scale(x, by),
    "turned": lambda m, x, *_: m.transpose(m.exp(m.scale(m.transpose(x, 1, 0), 0.3)), 1, 0),
}
REWRITTEN = {
    "linear": lambda m, x, _, step, __: m.add(m.matmul(x, given_of(m, step)[0]), given_of(m, step)[1]),
    "tanh": lambda m, x, *_: m.reshape(m.tanh(m.reshape(m.copy(x), ROWS * WIDTH)), ROWS, WIDTH),
    "norm": norm_in_steps,
    "residual": lambda m, x, before, *_: m.add(m.copy(before), x),
    "softmax": lambda m, x, *_: m.transpose(m.softmax(m.transpose(x, 1, 0), axis=0), 1, 0),
    "turned": lambda m, x, *_: m.exp(m.scale(x, 0.3)),
}


@st.composite
def programs(draw, *, wrong=False):
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=9))
    if wrong:
        kinds.insert(draw(st.integers(0, len(kinds))), draw(st.sampled_from(sorted(FAULTY))))
    places = [place for place, kind in enumerate(kinds) if kind in FAULTY]
    normalised = [place for place in places if kinds[place] == "scale" and "norm" in kinds[place:]]  # which hides a factor
    fault = draw(st.sampled_from([place for place in places if place not in normalised] or [-1])) if wrong else -1
    assume(fault >= 0 or not wrong)
    rewritten = [draw(st.booleans()) for _ in kinds]
    reference = tuple(Step(kind, place) for place, kind in enumerate(kinds))
    candidate = tuple(Step(kind, place, place == fault, rewritten[place] and place != fault) for place, kind in enumerate(kinds))
    return reference, candidate, draw(st.integers(0, 1000))


def laboratory(folder, reference, candidate, seed):
    inputs = {"x": np.random.default_rng(seed).normal(size=(ROWS, WIDTH))}
    return Laboratory(folder, program(reference), program(candidate), inputs, parameters(reference))


@RELAXED
@given(programs())
def test_harmless_rewrites_have_no_guilty_operation(drawn):
    with tempfile.TemporaryDirectory() as folder:
        assert [d.candidate for d in laboratory(folder, *drawn).divergences()] == []


@RELAXED
@given(programs(wrong=True))
def test_one_planted_fault_is_named(drawn):
    reference, candidate, seed = drawn
    fault = next(step for step in candidate if step.wrong)
    with tempfile.TemporaryDirectory() as folder:
        tried = laboratory(folder, reference, candidate, seed)
        found = tried.divergences()
        told = [(d.what, d.candidate.name, d.confirmed, d.error) for d in found]
        name = f"{fault.kind}{fault.place}"
        if tried.judgement().wrong_outputs():
            assert [place for _, place, _, _ in told] == [name], told
            assert all(d.confirmed for d in found)
        else:  # the step does the same with these values, or nothing of it is left in the output
            assert {place for _, place, _, _ in told} <= {name}, told
