"""Faults in formulas that stand for one operation of the reference, on a side without an optimizer: the line to be edited is named first."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.words = nn.Linear(16, 9)
        self.place = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.tanh(self.body(x))
        x = F.normalize(Rounded.apply(3 * x), dim=-1)
        return {"words": 4 * self.words(x), "place": self.place(x)}


def build_model():
    torch.manual_seed(3)
    return Net()


def loss(outputs, labels):
    entropy = F.cross_entropy(outputs["words"], labels["word"], label_smoothing=0.2)
    near = F.smooth_l1_loss(outputs["place"], labels["place"], beta=0.3)
    wide = F.softplus(outputs["place"] - labels["place"]).mean(-1)
    return entropy + 0.7 * near + (wide * labels["share"]).sum() / labels["share"].sum()
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F


class Rounded(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return paddle.round(x * 4) / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.words = nn.Linear(16, 9)
        self.place = nn.Linear(16, 4)

    def forward(self, x):
        x = paddle.tanh(self.body(x))
        x = F.normalize(Rounded.apply(3 * x), axis=-1)
        return {"words": 4 * self.words(x), "place": self.place(x)}


def build_model():
    return Net()


def loss(outputs, labels):
    chances = F.log_softmax(outputs["words"], axis=-1)
    own = paddle.take_along_axis(chances, labels["word"].unsqueeze(-1), axis=-1).squeeze(-1)
    entropy = -(0.8 * own + 0.2 * chances.mean(axis=-1)).mean()
    error = outputs["place"] - labels["place"]
    square = 0.5 * error * error / 0.3
    linear = error.abs() - 0.15
    near = paddle.where(error.abs() < 0.3, square, linear).mean()
    wide = paddle.log(1 + paddle.exp(error)).mean(-1)
    wide = (wide * labels["share"]).sum() / labels["share"].sum()
    return entropy + 0.7 * near + wide
"""

#: name -> what is replaced, by what; the new text is on the line to be named
FAULTS = {
    "another operator": ("square = 0.5 * error * error / 0.3", "square = 0.5 * error * error * 0.3"),
    "another sign": ("linear = error.abs() - 0.15", "linear = error.abs() + 0.15"),
    "another number": ("(0.8 * own", "(0.4 * own"),
    "another function": ("chances = F.log_softmax(", "chances = F.softmax("),
    "another comparison": ("error.abs() < 0.3, square", "error.abs() > 0.3, square"),
    "a sum for a mean": ("wide = paddle.log(1 + paddle.exp(error)).mean(-1)", "wide = paddle.log(1 + paddle.exp(error)).sum(-1)"),
    "a step left out": ("wide = paddle.log(1 + paddle.exp(error))", "wide = (1 + paddle.exp(error))"),
    "repeated against itself": ('labels["word"].unsqueeze(-1), axis', 'labels["word"].unsqueeze(0), axis'),
    "all but a term": ("return entropy + 0.7 * near + wide", "return 0.7 * near + wide"),
    "rounded in another measure": ("return paddle.round(x * 4) / 4", "return paddle.round(x * 4) * 4"),
    "a detached term": ("(1 + paddle.exp(error)).mean(-1)", "(1 + paddle.exp(error)).mean(-1).detach()"),
    "a detached branch": ("x = paddle.tanh(self.body(x))", "x = paddle.tanh(self.body(x)).detach()"),
}

COUNT = itertools.count()


def side(path, framework):
    spec = importlib.util.spec_from_file_location(f"formulas_{next(COUNT)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Side(framework=framework, functions={name: getattr(module, name) for name in ("build_model", "loss")})


def checked(folder, text):
    for name, source in (("reference.py", REFERENCE), ("candidate.py", text)):
        (folder / name).write_text(source)
    torch.manual_seed(7)
    given = torch.randn(6, 12).numpy()
    labels = {"word": (torch.arange(6) * 5 % 9).numpy(), "place": torch.randn(6, 4).numpy(), "share": torch.rand(6).numpy()}
    sides = side(folder / "reference.py", "torch"), side(folder / "candidate.py", "paddle")
    result = check(*sides, inputs=given, labels=labels, stages=["forward", "loss", "backward"], out=folder / "result")
    return {stage.name: stage for stage in result.stages}


def test_the_port_is_right_and_its_gradients_are_judged_without_an_optimizer(tmp_path):
    stages = checked(tmp_path, CANDIDATE)
    assert {stage.verdict for stage in stages.values()} == {"aligned"}
    assert "neither side has build_optimizer(model): no update was tested" in stages["backward"].notes
    keys = {pair.key for pair in stages["backward"].pairs}
    assert "gradient_0 body.weight" in keys
    assert not any(key.startswith(("update", "lr", "gradient_1")) for key in keys)


#: losses that are handed out with their terms, the mistake in a helper: what is replaced, by what
IN_TERMS = {
    "a factor of the reference is missing": ("linear = error.abs() - 0.5 * beta", "linear = error.abs() - 0.5"),
    "another comparison": ("kept = (word == 5)", "kept = (word >= 5)"),
}
TERMS = """
def over(values, mask):
    return (values * mask).sum() / mask.sum()


def near_term(error, beta):
    square = 0.5 * error * error / beta
    linear = error.abs() - 0.5 * beta
    return paddle.where(error.abs() < beta, square, linear).mean(-1)


def loss(outputs, labels):
    word = labels["word"]
    kept = (word == 5).astype(outputs["place"].dtype)
    near = over(near_term(outputs["place"] - labels["place"], 0.3), labels["share"])
    wide = over(outputs["place"].mean(-1), kept)
    return {"loss": 0.7 * near + wide, "near": near.detach(), "wide": wide.detach()}
"""
TERMS_OF_REFERENCE = """
def loss(outputs, labels):
    near = F.smooth_l1_loss(outputs["place"], labels["place"], beta=0.3, reduction="none").mean(-1)
    near = (near * labels["share"]).sum() / labels["share"].sum()
    wide = outputs["place"].mean(-1)[labels["word"] == 5].mean()
    return {"loss": 0.7 * near + wide, "near": near.detach(), "wide": wide.detach()}
"""


@pytest.mark.parametrize("name", list(IN_TERMS))
def test_a_wrong_term_is_named_in_the_helper_that_makes_it(tmp_path, name, monkeypatch):
    old, new = IN_TERMS[name]
    monkeypatch.setattr(sys.modules[__name__], "REFERENCE", REFERENCE[: REFERENCE.index("def loss(")] + TERMS_OF_REFERENCE)
    right = CANDIDATE[: CANDIDATE.index("def loss(")] + TERMS
    assert right.count(old) == 1
    stages = checked(tmp_path, right.replace(old, new))
    assert stages["forward"].verdict == "aligned"
    assert stages["loss"].verdict == "diverged"
    line = stages["loss"].divergences[0].candidate.source.rpartition(":")[2]
    assert new in (tmp_path / "candidate.py").read_text().splitlines()[int(line) - 1]


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_line_is_named_first(tmp_path, name):
    old, new = FAULTS[name]
    assert CANDIDATE.count(old) == 1
    stages = checked(tmp_path, CANDIDATE.replace(old, new))
    first = next(stage for stage in stages.values() if stage.verdict == "diverged").divergences[0]
    file, _, line = first.candidate.source.rpartition(":")
    assert file == str(tmp_path / "candidate.py")
    assert new in (tmp_path / "candidate.py").read_text().splitlines()[int(line) - 1]
