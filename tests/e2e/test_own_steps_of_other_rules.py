"""Own steps whose optimizers differ by what no port can avoid: RMSprop's epsilon, outside the root in PyTorch, inside it in Paddle."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

X = (0.01 * np.random.default_rng(0).standard_normal((4, 6))).astype("float32")
Y = np.random.default_rng(1).standard_normal((4, 3)).astype("float32")


def step(model, optimizer, batch):
    value = ((model(batch[0]) - batch[1]) ** 2).mean()
    value.backward()
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": float(value.detach())}


def ported(scale=1.0, decay=1.0):
    def act(model, optimizer, batch):
        value = ((model(batch[0]) - batch[1]) ** 2).mean() * scale
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        for parameter in model.parameters():
            parameter.set_value(parameter * decay)
        return {"loss": float(value.detach()) / scale}

    return act


def backward_of(act, *, strict=False):
    reference = {
        "build_model": lambda: torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)),
        "build_optimizer": lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9),
        "build_dataloader": lambda _split: [(torch.from_numpy(X), torch.from_numpy(Y))],
        "loss": lambda o, y: ((o - y) ** 2).mean(),
        "train_step": step,
    }
    candidate = {
        "build_model": lambda: paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3)),
        "build_optimizer": lambda model: paddle.optimizer.RMSProp(1e-3, rho=0.9, epsilon=1e-8, parameters=model.parameters()),
        "build_dataloader": lambda _split: [(paddle.to_tensor(X), paddle.to_tensor(Y))],
        "loss": lambda o, y: ((o - y) ** 2).mean(),
        "train_step": act,
    }
    sides = Side(framework="torch", functions=reference), Side(framework="paddle", functions=candidate)
    return check(*sides, inputs=X, labels=Y, stages=["backward"], strict=strict).stages[-1]


def test_steps_that_are_what_both_rules_make_of_equal_gradients_are_no_fault():
    found = backward_of(ported())
    assert found.verdict == ALIGNED
    assert any("each side's own rule makes its changes" in note for note in found.notes)


@pytest.mark.parametrize("act", [ported(decay=0.9999), ported(scale=2.0)], ids=["another change", "another gradient"])
def test_a_step_that_does_something_else_diverges(act):
    assert backward_of(act).verdict == DIVERGED


def uncleared(model, optimizer, batch):
    value = ((model(batch[0]) - batch[1]) ** 2).mean()
    value.backward()
    optimizer.step()
    return {"loss": float(value.detach())}


def later(*, loss=1.0, returned=1.0):
    """A step that makes more of its loss, or returns more of it, from the second one on."""

    def act(model, optimizer, batch):
        first = not hasattr(optimizer, "taken")
        optimizer.taken = True
        value = ((model(batch[0]) - batch[1]) ** 2).mean() * (1.0 if first else loss)
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        return {"loss": float(value.detach()) * (1.0 if first else returned)}

    return act


@pytest.mark.parametrize("act", [uncleared, later(loss=10.0)], ids=["gradients not cleared", "another loss"])
def test_what_only_later_steps_do_wrong_diverges(act):
    assert backward_of(act).verdict == DIVERGED


def test_a_later_value_far_beyond_what_the_rules_make_is_undecided():
    found = backward_of(later(returned=2.0))
    assert found.verdict == UNDERPOWERED
    assert any("was not shown" in warning for warning in found.warnings)


def test_strictly_the_rules_count():
    assert backward_of(ported(), strict=True).verdict == DIVERGED
