"""Faults planted in one optimizer written by hand, and in the choice of its parameters: the line to be edited is the first that is named."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import numpy as np
import pytest
from tests.e2e import written_projects

from paralign import Side, check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

COMMON = """
class Net(nn.MODULE):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 24)
        self.down = nn.Linear(24, 3)

    def forward(self, x):
        return self.down(FW.tanh(self.up(x)))


def build_model():
    return Net()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)

"""

REFERENCE = (
    "import torch\nimport torch as FW\nfrom torch import nn\nfrom torch.nn import functional as F\n"
    + COMMON.replace("MODULE", "Module")
    + """
def build_optimizer(model):
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "lr": 2e-3}, {"params": others, "lr": 1e-3}]
    return torch.optim.RMSprop(groups, lr=2e-3, alpha=0.9, eps=1e-3, momentum=0.8)
"""
)

CANDIDATE = (
    "import paddle\nimport paddle as FW\nfrom paddle import nn\nfrom paddle.nn import functional as F\n"
    + COMMON.replace("MODULE", "Layer")
    + """
class RMSprop:
    def __init__(self, groups, rho, epsilon, momentum):
        self.param_groups = groups
        self.rho, self.epsilon, self.momentum = rho, epsilon, momentum
        self.squares, self.velocities = {}, {}

    @paddle.no_grad()
    def step(self):
        for group in self.param_groups:
            rate = group["lr"] * 1.0
            for parameter in group["params"]:
                self.update(parameter, parameter.grad, parameter.name, rate)

    def update(self, parameter, gradient, name, rate):
        square = self.squares.get(name, paddle.zeros_like(gradient))
        square = self.rho * square + (1 - self.rho) * gradient * gradient
        scaled = gradient / (paddle.sqrt(square) + self.epsilon)
        velocity = self.momentum * self.velocities.get(name, 0.0) + scaled
        self.squares[name] = square
        self.velocities[name] = velocity
        factor = rate / 1.0
        moved = factor * velocity
        parameter.set_value(parameter - moved)

    def clear_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.clear_grad()


def build_optimizer(model):
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "lr": 2e-3}, {"params": others, "lr": 1e-3}]
    return RMSprop(groups, rho=0.9, epsilon=1e-3, momentum=0.8)
"""
)

#: name -> what is replaced, by what, text of the line to be named
FAULTS = {
    "kept under another key": ("self.squares[name] = square", "self.squares[rate] = square", "self.squares[rate] = square"),
    "another value kept": ("self.velocities[name] = velocity", "self.velocities[name] = scaled", "self.velocities[name] = scaled"),
    "taken from another key": ("self.velocities.get(name, 0.0)", "self.velocities.get(rate, 0.0)", "self.velocities.get(rate, 0.0)"),
    "nothing kept": ("        self.velocities[name] = velocity\n", "", "velocity = self.momentum"),
    "left unused": ("self.velocities.get(name, 0.0) + scaled", "self.velocities.get(name, 0.0)", "velocity = self.momentum"),
    "never written": ("parameter.set_value(parameter - moved)", "(parameter - moved)", "(parameter - moved)"),
    "another value written": ("parameter.set_value(parameter - moved)", "parameter.set_value(square - moved)", "set_value(square - moved)"),
    "settings mixed up": ("= rho, epsilon, momentum", "= rho, momentum, epsilon", "self.rho, self.epsilon, self.momentum"),
    "another number": ("factor = rate / 1.0", "factor = rate / 3.0", "factor = rate / 3.0"),
    "a number's sign": ("factor = rate / 1.0", "factor = 0 - rate", "factor = 0 - rate"),
}

#: an optimizer of the frameworks, with groups of parameters that are filled one by one
GROUPS = """
def build_optimizer(model):
    weights, others = [], []
    for p in model.parameters():
        if p.ndim > 1:
            weights.append(p)
        elif p.ndim == 1:
            others.append(p)
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.01}]
    return OPTIMIZER
"""

COUNT = itertools.count()


def side(path, framework):
    spec = importlib.util.spec_from_file_location(f"updates_{next(COUNT)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Side(framework=framework, functions={name: getattr(module, name) for name in ("build_model", "loss", "build_optimizer")})


def checked(folder, text, reference=REFERENCE):
    for name, source in (("reference.py", reference), ("candidate.py", text)):
        (folder / name).write_text(source)
    draws = np.random.default_rng(3)
    return check(
        side(folder / "reference.py", "torch"),
        side(folder / "candidate.py", "paddle"),
        inputs=draws.normal(size=(8, 6)).astype("float32"),
        labels=draws.integers(0, 3, 8),
        stages=["forward", "backward"],
        out=folder / "result",
    )


def test_the_port_is_right(tmp_path):
    result = checked(tmp_path, CANDIDATE)
    assert {stage.verdict for stage in result.stages} == {"aligned"}


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_line_is_named_first(tmp_path, name):
    old, new, marker = FAULTS[name]
    assert CANDIDATE.count(old) == 1
    result = checked(tmp_path, CANDIDATE.replace(old, new))
    first = result["backward"].divergence
    file, _, line = first.candidate.source.rpartition(":")
    assert file == str(tmp_path / "candidate.py")
    assert marker in (tmp_path / "candidate.py").read_text().splitlines()[int(line) - 1]


def test_the_line_that_chooses_a_group_is_named(tmp_path):
    reference = REFERENCE.partition("def build_optimizer")[0] + GROUPS.replace("OPTIMIZER", "torch.optim.AdamW(groups, lr=1e-3)")
    candidate = CANDIDATE.partition("class RMSprop")[0] + GROUPS.replace("OPTIMIZER", "paddle.optimizer.AdamW(1e-3, parameters=groups)")
    assert checked(tmp_path, candidate, reference)["backward"].verdict == "aligned"
    first = checked(tmp_path, candidate.replace("p.ndim == 1", "p.ndim == 0"), reference)["backward"].divergence
    assert "p.ndim == 0" in (tmp_path / "candidate.py").read_text().splitlines()[int(first.candidate.source.rpartition(":")[2]) - 1]


#: a group with a rate of its own, and a schedule over both
OWN_RATE = """
SETTINGS = dict(rate=2e-3,
                plain=RATE)


def build_optimizer(model):
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights}, {"params": others, KEY: SETTINGS["plain"]}]
    return OPTIMIZER


def build_scheduler(optimizer):
    return SCHEDULE
"""


def with_own_rate(start, **texts):
    text = start.partition("def loss")[0] + OWN_RATE
    for name, value in texts.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize(("rate", "verdict"), [("2.0", "aligned"), ("4e-3", "diverged")])
def test_a_rate_of_a_group_is_no_fault_of_the_schedule(tmp_path, rate, verdict):
    falling = "lambda step: 1 / (1 + step / 7)"
    reference = with_own_rate(
        REFERENCE,
        OPTIMIZER='torch.optim.AdamW(groups, lr=SETTINGS["rate"])',
        RATE="4e-3",
        KEY='"lr"',
        SCHEDULE=f"torch.optim.lr_scheduler.LambdaLR(optimizer, {falling})",
    )
    candidate = with_own_rate(
        CANDIDATE,
        OPTIMIZER=f'paddle.optimizer.AdamW(paddle.optimizer.lr.LambdaDecay(SETTINGS["rate"], {falling}), parameters=groups)',
        RATE=rate,
        KEY='"learning_rate"',
        SCHEDULE="optimizer._learning_rate",
    )
    stage = written_projects.checked(tmp_path, reference, candidate, "optimizer")
    assert stage.verdict == verdict
    if verdict == "diverged":
        line = int(stage.divergence.candidate.source.rpartition(":")[2])
        assert "plain=4e-3" in candidate.lstrip().splitlines()[line - 1]
