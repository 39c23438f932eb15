"""Values that lie exactly at a kink, where each framework takes another derivative."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = pytest.mark.usefixtures("standing_workers")

REFERENCE = """
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * torch.where(x > 0, 1.0, 0.1).to(x.dtype)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.near = nn.Conv2d(1, 4, 3, padding=1)
        self.far = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)
        for layer in (self.near, self.far):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = ACTIVATION(self.near(x))
        x = F.leaky_relu(self.far(x), 0.1)
        return self.head(x.mean((2, 3)))

def build_model():
    return Net()

def inputs():
    pictures = np.random.RandomState(0).rand(4, 1, 8, 8).astype("float32")
    pictures[:, :, :5] = 0  # a mask: what is convolved of it is exactly zero
    return pictures

def labels():
    return np.array([0, 1, 2, 1])

def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)

def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F

class Step(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensor()
        return gradient * paddle.where(x >= 0, paddle.ones_like(x), paddle.full_like(x, 0.1))

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.near = nn.Conv2D(1, 4, 3, padding=1)
        self.far = nn.Conv2D(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        first = self.near(x)
        x = ACTIVATION(first)
        x = F.leaky_relu(self.far(x), 0.1)
        pooled = x.mean((2, 3))
        return self.head(pooled)

def build_model():
    return Net()

def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)

def build_optimizer(model):
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())
"""

LEAKY, STEP = "(lambda x: F.leaky_relu(x, 0.1))", "Step.apply"


def backward(folder, capsys, candidate, activation=LEAKY, *options):
    (folder / "kink_reference.py").write_text(REFERENCE.replace("ACTIVATION", activation))
    (folder / "kink_candidate.py").write_text(candidate.replace("ACTIVATION", activation))
    (folder / "paralign.toml").write_text(
        '[reference]\nmodule = "kink_reference.py"\nframework = "torch"\n[candidate]\nmodule = "kink_candidate.py"\nframework = "paddle"\n'
    )
    main(["check", str(folder), "weights", "forward", "loss", "backward", "--json", *options])
    stages = {stage["name"]: stage for stage in json.loads(capsys.readouterr().out)["stages"]}
    assert [stages[name]["verdict"] for name in ("weights", "forward", "loss")] == ["aligned"] * 3
    return stages["backward"]


def line(text):
    return f"kink_candidate.py:{CANDIDATE.splitlines().index(text) + 1}"


def test_a_right_port_is_aligned_and_the_kink_is_told(tmp_path, capsys):
    found = backward(tmp_path, capsys, CANDIDATE)
    assert found["verdict"] == "aligned"
    told = next(note for note in found["notes"] if "exactly at a kink" in note)
    assert "kink_candidate.py:" in told
    assert "leaky_relu" in told
    assert "with the zeros of 2 parameters moved to 1e-30, the same on both sides, all of the stage agrees" in told


def test_under_strict_it_diverges(tmp_path, capsys):
    found = backward(tmp_path, capsys, CANDIDATE, LEAKY, "--strict")
    assert found["verdict"] == "diverged"
    assert "leaky_relu" in found["divergences"][0]["candidate"]["op"]


AFTER, BEFORE = "        pooled = x.mean((2, 3))", "        first = self.near(x)"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (AFTER, "        pooled = 0.5 * x.mean((2, 3)) + 0.5 * x.detach().mean((2, 3))"),
        (BEFORE, "        first = 0.5 * self.near(x) + 0.5 * self.near(x).detach()"),
    ],
)
def test_a_mistake_beside_kinks_is_found_and_leads(tmp_path, capsys, right, wrong):
    found = backward(tmp_path, capsys, CANDIDATE.replace(right, wrong))
    assert found["verdict"] == "diverged"
    assert found["divergences"][0]["candidate"]["source"].endswith(line(right))
    assert any("that difference is gone, and others stay" in note for note in found["notes"])


def test_a_backward_of_ones_own_is_not_excused(tmp_path, capsys):
    found = backward(tmp_path, capsys, CANDIDATE, STEP)
    assert found["verdict"] == "diverged"


def test_another_guard_against_small_values_is_no_kink(tmp_path, capsys):
    """A constant that acts on exact zeros alone changes the gradients there: the port is wrong."""

    def guarded(text, call, name):
        return text.replace(call, f"{call[: call.index('x = ')]}x = self.far(x)\n        x = x / x.abs().sum(1, keepdim=True).{name}")

    far = "x = F.leaky_relu(self.far(x), 0.1)"
    (tmp_path / "kink_reference.py").write_text(guarded(REFERENCE.replace("ACTIVATION", "torch.tanh"), far, "clamp(min=1e-4)"))
    wrong = guarded(CANDIDATE.replace("ACTIVATION", "paddle.tanh"), far, "clip(min=1e-6)")
    (tmp_path / "kink_candidate.py").write_text(wrong.replace("axis", "axis").replace("sum(1, keepdim=True)", "sum(1, keepdim=True)"))
    (tmp_path / "paralign.toml").write_text(
        '[reference]\nmodule = "kink_reference.py"\nframework = "torch"\n[candidate]\nmodule = "kink_candidate.py"\nframework = "paddle"\n'
    )
    main(["check", str(tmp_path), "weights", "forward", "backward", "--json"])
    stages = {stage["name"]: stage for stage in json.loads(capsys.readouterr().out)["stages"]}
    assert stages["forward"]["verdict"] == "aligned"
    assert stages["backward"]["verdict"] == "diverged"
