"""Predictions that enlarge rounding, of programs that compute in float32 by themselves."""

from __future__ import annotations

import json

import pytest

REFERENCE = """import numpy as np


class Model:
    def __init__(self):
        self.weight = (np.arange(48.0).reshape(8, 6) / 47.0 + 0.5).astype(np.float32)

    def __call__(self, x):
        return x @ self.weight


def build_model():
    return Model()


def predict(path, model):
    numbers = np.array([float(word) for word in open(path).read().split()], np.float32)
    views = np.stack([numbers, numbers * np.float32(1.002), numbers * np.float32(0.998)])
    out = model(views)
    assert out.dtype == np.float32
    return {"spread": out.std(0)}
"""

ANOTHER_ORDER = REFERENCE.replace("return x @ self.weight", "return (x[:, ::-1] @ self.weight[::-1]).astype(x.dtype)")

SETTINGS = """out = "result"
stages = ["infer"]

[reference]
module = "reference.py"
framework = "numpy"

[candidate]
module = "candidate.py"
framework = "numpy"

[inputs]
shape = [4, 8]

[infer]
paths = ["first.txt", "second.txt"]
"""


@pytest.fixture
def infer(run, tmp_path):
    """Check a candidate; gives the stage of the report."""

    def check(candidate, reference=REFERENCE, framework="numpy"):
        (tmp_path / "reference.py").write_text(reference)
        (tmp_path / "candidate.py").write_text(candidate)
        (tmp_path / "paralign.toml").write_text(SETTINGS.replace("numpy", framework))
        (tmp_path / "first.txt").write_text("3 5 8 1 7 2 6 4")
        (tmp_path / "second.txt").write_text("1 9 2 7 3 3 8 5")
        run("check", tmp_path)
        report = json.loads((tmp_path / "result" / "report.json").read_text())
        return next(stage for stage in report["stages"] if stage["name"] == "infer")

    return check


def test_rounding_that_a_small_spread_enlarges_is_no_divergence(infer):
    stage = infer(ANOTHER_ORDER)
    assert stage["verdict"] == "aligned"
    assert any("rounding of its weights moves the reference's" in note for note in stage["notes"]), stage["notes"]


@pytest.mark.parametrize(("right", "wrong"), [("1.002", "1.003"), ("out.std(0)", "out.std(0) * np.float32(1.001)")])
def test_a_program_that_computes_something_else_diverges(infer, right, wrong):
    assert ANOTHER_ORDER.count(right) == 1
    assert infer(ANOTHER_ORDER.replace(right, wrong))["verdict"] == "diverged"


def test_a_program_that_runs_in_float64_is_judged_there(infer):
    loose = [code.replace("    assert out.dtype == np.float32\n", "") for code in (REFERENCE, ANOTHER_ORDER)]
    stage = infer(loose[1].replace("1.002", "1.0021"), loose[0])
    assert stage["verdict"] == "diverged"


#: a program whose first step is in float32, whatever the model computes in
STEPS = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.9, 1.1, 8))
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 48).reshape(8, 6))

    def forward(self, x, mean=1.0):
        return (x * self.scale) @ self.weight * mean


def build_model():
    return Model()


def predict(path, model):
    numbers = torch.tensor([float(word) for word in open(path).read().split()], dtype=torch.float32)
    count = torch.tensor([float(len(numbers) + 5)])
    mean = count / 7
    views = torch.stack([numbers, numbers * 1.002, numbers * 0.998])
    with torch.no_grad():
        out = model(views, mean)
    return {"spread": out[:, 0].std().reshape(1)}
"""

ANOTHER_STEP = STEPS.replace("count / 7", "count * (1 / torch.tensor(7.0))").replace(
    "(x * self.scale) @ self.weight", "(x.flip(1) * self.scale.flip(0)) @ self.weight.flip(0)"
)


@pytest.mark.torch
def test_first_steps_in_float32_are_no_divergence(infer):
    pytest.importorskip("torch")
    stage = infer(ANOTHER_STEP, STEPS, framework="torch")
    assert stage["verdict"] == "aligned"
    assert any("no more than steps in float32 bring" in note for note in stage["notes"]), stage["notes"]


@pytest.mark.torch
@pytest.mark.parametrize(("right", "wrong"), [("1.002", "1.0021"), ("count * (", "0.9999 * count * (")])
def test_a_small_mistake_beside_steps_in_float32_diverges(infer, right, wrong):
    pytest.importorskip("torch")
    assert ANOTHER_STEP.count(right) == 1
    assert infer(ANOTHER_STEP.replace(right, wrong), STEPS, framework="torch")["verdict"] == "diverged"


#: the same with every step in what the model computes in
NO_STEPS = STEPS.replace("dtype=torch.float32", "dtype=model.weight.dtype").replace(
    "float(len(numbers) + 5)]", "float(len(numbers) + 5)], dtype=model.weight.dtype"
)


@pytest.mark.torch
@pytest.mark.parametrize(("factor", "verdict"), [("1.0", "aligned"), ("1.0000001", "diverged"), ("1.0000003", "diverged")])
def test_programs_without_steps_in_float32_differ_by_none(infer, factor, verdict):
    pytest.importorskip("torch")
    other = NO_STEPS.replace("(x * self.scale) @ self.weight", "(x.flip(1) * self.scale.flip(0)) @ self.weight.flip(0)")
    other = other.replace("mean = count / 7", f"mean = count / 7 * {factor}")
    assert other.count(factor) >= 1
    stage = infer(other, NO_STEPS, framework="torch")
    assert stage["verdict"] == verdict, stage["notes"]


def test_what_cannot_be_watched_is_not_said_to_have_steps_in_float32(infer):
    reference = REFERENCE.replace("    assert out.dtype == np.float32\n", "").replace(
        "model(views)", "model(views.astype(model.weight.dtype))"
    )
    reference = (
        reference.replace(".split()], np.float32)", ".split()])")
        .replace("np.float32(1.002)", "1.002")
        .replace("np.float32(0.998)", "0.998")
    )
    other = reference.replace("return x @ self.weight", "return (x[:, ::-1] @ self.weight[::-1]).astype(x.dtype)")
    stage = infer(other.replace("out.std(0)", "out.std(0) * 1.0000001"), reference)
    notes = " ".join(stage["notes"])
    assert "could not be seen" in notes
    assert "no more than steps in float32 bring" not in notes
