"""Faults of gradients and losses planted in one small port: the line that has to be edited is the first that is named."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

COMMON = """
WORDS, WIDTH = 40, 12


class Encoder(nn.MODULE):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 24)
        self.down = nn.Linear(24, WIDTH)

    def forward(self, x):
        return self.down(FW.tanh(self.up(x)))


class Net(nn.MODULE):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(WORDS, WIDTH)
        self.student = Encoder()
        self.teacher = Encoder()
        self.guess = nn.Linear(WIDTH, WIDTH)
        self.domain = nn.Linear(WIDTH, 3)
        self.gate = GATE
        FREEZE

    def forward(self, ids):
        x = self.word(ids)
        z = self.student(x)
        z = z + self.gate * FW.tanh(self.guess(z))
        with FW.no_grad():
            due = self.teacher(x)
        value = self.domain(Reverse.apply(z, 0.5))
        kept = z.detach() * 0.5
        return {"z": z, "due": due, "value": value, "kept": kept}


def loss(outputs, labels):
    error = outputs["z"] - outputs["due"]
    near = error * error * 0.5
    far = (error * error + 0.01) ** 0.5 - 0.1
    pull = near.mean() + far.mean()
    spread = (outputs["z"] - outputs["kept"]) ** 2
    entropy = F.cross_entropy(outputs["value"], labels) * 3.0 * 3.0
    return 0.7 * entropy + pull + 0.3 * spread.mean()
"""

REFERENCE = (
    """
import torch
import torch as FW
from torch import nn
from torch.nn import functional as F


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.strength * gradient, None

"""
    + COMMON.replace("MODULE", "Module")
    .replace("GATE", "nn.Parameter(torch.zeros(1))")
    .replace("FREEZE", "self.teacher.requires_grad_(False)")
    + """

def build_model():
    torch.manual_seed(1)
    return Net()


def build_optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
"""
)

CANDIDATE = (
    """
import paddle
import paddle as FW
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F


class Reverse(PyLayer):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.strength * gradient

"""
    + COMMON.replace("MODULE", "Layer")
    .replace("GATE", "self.create_parameter([1])")
    .replace("        FREEZE\n", "        for parameter in self.teacher.parameters():\n            parameter.stop_gradient = True\n")
    + """

def build_model():
    return Net()


def build_optimizer(model):
    return paddle.optimizer.SGD(0.5, parameters=[p for p in model.parameters() if not p.stop_gradient])
"""
)

FREEZING = "        for parameter in self.teacher.parameters():\n            parameter.stop_gradient = True\n"
WITHOUT = "        with FW.no_grad():\n            due = self.teacher(x)\n"

#: name -> kind, what is replaced, by what, text of the line to be named, and further replacements
FAULTS = {
    "detached early": ("detached", "z = self.student(x)", "z = self.student(x.detach())", "z = self.student(x.detach())"),
    "no gradients kept": (
        "detached",
        "        z = self.student(x)\n",
        "        with paddle.no_grad():\n            z = self.student(x)\n",
        "with paddle.no_grad():",
    ),
    "not detached": ("kept", "kept = z.detach() * 0.5", "kept = z * 0.5", "kept = z * 0.5"),
    "not frozen": ("kept", FREEZING, "", "self.teacher(x)", WITHOUT, "        due = self.teacher(x)\n"),
    "frozen": (
        "frozen",
        FREEZING,
        FREEZING + "        self.student.up.bias.stop_gradient = True\n",
        "self.student.up.bias.stop_gradient = True",
    ),
    "another sign": ("gradient", "return -ctx.strength * gradient", "return ctx.strength * gradient", "return ctx.strength * gradient"),
    "not reversed": ("gradient", "self.domain(Reverse.apply(z, 0.5))", "self.domain(z)", "value = self.domain(z)"),
    "detached in the loss": ("detached", "far = (error * error", "far = (error.detach() * error", "far = (error.detach() * error"),
    "hidden by a zero": ("different", "FW.tanh(self.guess(z))", "F.sigmoid(self.guess(z))", "F.sigmoid(self.guess(z))"),
    "factor left out": ("missing", " * 3.0 * 3.0", "", "entropy = F.cross_entropy"),
    "weighed twice": ("extra", "spread = (outputs", "spread = 0.3 * (outputs", "spread = 0.3 * (outputs"),
    "step left out": ("missing", " ** 0.5 - 0.1", " ** 0.5", "far = (error * error + 0.01) ** 0.5"),
    "scaled": ("different", "+ 0.3 * spread.mean()", "+ 0.6 * spread.mean()", "+ 0.6 * spread.mean()"),
}

WORDS, COUNT = 40, itertools.count()


def module_of(path):
    spec = importlib.util.spec_from_file_location(f"gradients_{next(COUNT)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def side(path, framework):
    module = module_of(path)
    return Side(framework=framework, functions={name: getattr(module, name) for name in ("build_model", "loss", "build_optimizer")})


def checked(folder, text):
    for name, source in (("reference.py", REFERENCE), ("candidate.py", text)):
        (folder / name).write_text(source)
    ids = (torch.arange(30).reshape(5, 6) % WORDS).numpy()
    result = check(
        side(folder / "reference.py", "torch"),
        side(folder / "candidate.py", "paddle"),
        inputs={"ids": ids[:, 0]},
        labels=ids[:, 1] % 3,
        stages=["forward", "backward"],
        out=folder / "result",
    )
    return {stage.name: stage for stage in result.stages}


def test_the_port_is_right(tmp_path):
    stages = checked(tmp_path, CANDIDATE)
    assert {stage.verdict for stage in stages.values()} == {"aligned"}


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_line_is_named_first(tmp_path, name):
    what, old, new, marker, *more = FAULTS[name]
    text = CANDIDATE
    for before, after in zip([old, *more[::2]], [new, *more[1::2]], strict=True):
        assert text.count(before) == 1
        text = text.replace(before, after)
    stages = checked(tmp_path, text)
    assert stages["forward"].verdict == "aligned" or name == "hidden by a zero"
    first = stages["backward"].divergences[0]
    text = (tmp_path / "candidate.py").read_text().splitlines()
    file, _, line = first.candidate.source.rpartition(":")
    assert file == str(tmp_path / "candidate.py")
    assert marker in text[int(line) - 1]
    if name != "hidden by a zero":
        assert first.what == what
