"""Automatic casts in a training step or a loss alone, on one side or on both; and outputs that such casts have made bfloat16."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = pytest.mark.filterwarnings("ignore:amp_guard")

X = np.random.default_rng(0).standard_normal((12, 6)).astype("float32")
Y = np.random.default_rng(1).integers(0, 3, 12)


def with_casts(function):
    def act(*arguments):
        with torch.autocast("cpu", torch.bfloat16):
            return function(*arguments)

    return act


def with_ported_casts(function):
    def act(*arguments):
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            return function(*arguments)

    return act


def entropy(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs @ torch.eye(3).to(outputs), labels)


def ported_entropy(outputs, labels):
    return paddle.nn.functional.cross_entropy(paddle.matmul(outputs, paddle.eye(3).astype(outputs.dtype)), labels)


def step_of(loss):
    def step(model, optimizer, batch):
        value = loss(model(batch[0]), batch[1])
        optimizer.clear_grad() if hasattr(optimizer, "clear_grad") else optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return {"loss": float(value.detach().astype("float32") if hasattr(value, "astype") else value.detach().float())}

    return step


class Net(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x)


class Cast(Net):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


def checked(theirs, ours, stages, model=Net):
    reference = {
        "build_model": lambda: model(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)),
        "build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        "build_dataloader": lambda _split: [(torch.from_numpy(X[i : i + 4]), torch.from_numpy(Y[i : i + 4])) for i in (0, 4, 8)],
        "loss": entropy,
        "metric": lambda o, y: {"share": (o.argmax(1) == y).float().mean(), "top": o.max(1).values.mean()},
        **theirs,
    }
    candidate = {
        "build_model": lambda: paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3)),
        "build_optimizer": lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters()),
        "build_dataloader": lambda _split: [(paddle.to_tensor(X[i : i + 4]), paddle.to_tensor(Y[i : i + 4])) for i in (0, 4, 8)],
        "loss": ported_entropy,
        "metric": lambda o, y: {"share": (o.argmax(1) == y).astype("float32").mean(), "top": o.max(1).mean()},
        **ours,
    }
    sides = Side(framework="torch", functions=reference), Side(framework="paddle", functions=candidate)
    return check(*sides, inputs=X[:4], labels=Y[:4], stages=stages)


def counted(stage):
    return [str(part) for part in stage.coverage]


def test_casts_in_the_references_loss_alone_are_counted_in_the_row():
    loss = checked({"loss": with_casts(entropy)}, {}, ["loss"])["loss"]
    assert loss.verdict == ALIGNED
    assert any("of loss in bfloat16 in the reference alone" in said for said in counted(loss))
    assert any("of the other side none: the first at test_own_casts.py:" in note for note in loss.notes)


def test_casts_in_the_references_step_alone_are_counted_in_the_row():
    backward = checked({"train_step": with_casts(step_of(entropy))}, {"train_step": step_of(ported_entropy)}, ["backward"])["backward"]
    assert backward.verdict == ALIGNED
    assert any("of train_step in bfloat16 in the reference alone" in said for said in counted(backward))


def test_casts_that_the_port_alone_asks_for_in_vain_make_the_test_too_weak():
    loss = checked({}, {"loss": with_ported_casts(ported_entropy)}, ["loss"])["loss"]
    assert loss.verdict == UNDERPOWERED
    assert any("loss of the candidate switches automatic casts on (test_own_casts.py:" in said for said in loss.warnings)


def test_casts_on_both_sides_are_no_fault_and_what_the_device_does_not_know_is_said():
    loss = checked({"loss": with_casts(entropy)}, {"loss": with_ported_casts(ported_entropy)}, ["loss"])["loss"]
    assert loss.verdict == ALIGNED
    assert any("have no effect on this device" in note for note in loss.notes)


def test_without_casts_nothing_is_said():
    loss = checked({}, {}, ["loss"])["loss"]
    assert loss.verdict == ALIGNED
    assert not any("automatic casts" in said or "bfloat16" in said for said in [*loss.notes, *loss.warnings, *counted(loss)])


def test_outputs_that_casts_of_the_reference_made_bfloat16_are_given_as_the_port_has_its_own():
    result = checked({}, {}, ["forward", "loss", "metric"], model=Cast)
    assert [result[name].verdict for name in ("metric", "loss")] == [ALIGNED, ALIGNED]


HALF = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(6, 3)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.line(x)

def build_model():
    torch.manual_seed(0)
    return Net()

def build_dataloader(split="train"):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(64, 6, generator=generator), torch.arange(64) % 3) for _ in range(2)]

def metric(outputs, labels):
    return {{"spread": (outputs{whole} * 300).softmax(1).std().item()}}
"""


@pytest.mark.parametrize(("whole", "verdict"), [(".float()", ALIGNED), ("", DIVERGED)])
def test_outputs_that_the_port_casts_too_stay_as_they_are(tmp_path, whole, verdict):
    sides = '[reference]\nframework = "torch"\n[candidate]\nframework = "torch"\n'
    (tmp_path / "paralign.toml").write_text(f'stages = ["weights", "forward", "metric"]\n{sides}[inputs]\nshape = [64, 6]\n')
    (tmp_path / "reference.py").write_text(HALF.format(whole=".float()"))
    (tmp_path / "candidate.py").write_text(HALF.format(whole=whole))
    assert check_project(tmp_path)[0].stages[2].verdict == verdict
