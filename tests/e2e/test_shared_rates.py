"""An optimizer of the user's own that shares its rate out among its groups, beside one that tells each group's rate; Lamb by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.stages.steps.shared_rates import are_proportional

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

sys.path.insert(0, str(Path(__file__).parent))
from lamb_by_hand import Lamb  # noqa: E402 - beside this file

X = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
Y = np.random.default_rng(1).standard_normal((8, 3)).astype("float32")


class Shared(torch.optim.Optimizer):
    """Momentum whose groups have a share of the rate, which only its step knows."""

    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "share": 1.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["velocity"] = p.grad.clone() if "velocity" not in state else 0.9 * state["velocity"] + p.grad
                p.sub_(group["lr"] * group["share"] * state["velocity"])


def reference():
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def port():
    return paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))


def shared(model):
    return Shared([{"params": list(model[0].parameters()), "share": 0.3}, {"params": list(model[2].parameters())}], lr=0.1)


def scheduled(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (step + 1))


def told(share, power=1.0):
    """Paddle's own, whose groups tell their rates."""

    def build(model):
        rate = paddle.optimizer.lr.LambdaDecay(0.1, lambda step: 1.0 / (step + 1) ** power)
        groups = [
            {"params": model[0].parameters(), "learning_rate": share},
            {"params": model[2].parameters(), "learning_rate": 1.0},
        ]
        return paddle.optimizer.Momentum(rate, 0.9, groups)

    return build


def judged(optimizer):
    loss = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    sides = (
        Side(framework="torch", functions={"build_model": reference, "build_optimizer": shared, "build_scheduler": scheduled, **loss}),
        Side(framework="paddle", functions={"build_model": port, "build_optimizer": optimizer, **loss}),
    )
    return check(*sides, inputs=X, labels=Y, stages=["optimizer", "backward"])


def said(stage):
    return stage.verdict, stage.failure, [f.cause for f in stage.findings], stage.notes, stage.warnings


def test_rates_told_otherwise_that_are_equal_in_effect():
    for stage in judged(told(0.3)).stages:
        assert stage.verdict == ALIGNED, said(stage)
        assert any("equal in effect" in note for note in stage.notes)
        assert stage.divergence is None


@pytest.mark.parametrize("wrong", [told(0.4), told(0.3, power=0.5)], ids=["another share", "another curve"])
def test_another_share_or_another_curve_is_told(wrong):
    for stage in judged(wrong).stages:
        assert stage.verdict == DIVERGED, said(stage)


def test_curves_that_are_multiples_of_one():
    curve = np.array([1.0, 0.5, 0.25, 0.0])[:, None]
    assert are_proportional(curve * [1.0, 0.3], curve * [0.7])
    assert not are_proportional(curve * [1.0, 0.3], curve**2)
    assert not are_proportional(curve * [1.0, 0.0], curve)
    assert not are_proportional(curve * [1.0, np.nan], curve)
    assert not are_proportional(curve[:0], curve[:0])


@pytest.mark.parametrize(("second", "verdict"), [(0.999, ALIGNED), (0.99, DIVERGED)])
def test_betas_that_a_kernel_of_no_known_rule_stores_in_float32(second, verdict):
    def own(model):
        return Lamb(model.parameters(), 0.01, (0.9, 0.999), 1e-6, 0.02)

    def library(model):
        return paddle.optimizer.Lamb(0.01, lamb_weight_decay=0.02, beta1=0.9, beta2=second, epsilon=1e-6, parameters=model.parameters())

    sides = (
        Side(framework="torch", functions={"build_model": reference, "build_optimizer": own}),
        Side(framework="paddle", functions={"build_model": port, "build_optimizer": library}),
    )
    found = check(*sides, inputs=X, stages=["optimizer"])["optimizer"]
    assert found.verdict == verdict, said(found)


class Forgetful(paddle.optimizer.lr.LRScheduler):
    """Begins anew wherever it is loaded."""

    def __init__(self, rate):
        self.first = rate
        super().__init__(rate)

    def get_lr(self):
        return self.first * 0.1 ** (self.last_epoch // 10_000)

    def state_dict(self):
        return {}

    def set_state_dict(self, state):
        pass


def test_a_schedule_that_is_not_resumed_is_told_beside_an_own_optimizer():
    def own(model):
        return Shared([{"params": list(model.parameters())}], lr=0.1)

    def falling(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.1 ** (step // 10_000))

    def forgetful(model):
        return paddle.optimizer.Momentum(Forgetful(0.1), 0.9, model.parameters())

    sides = (
        Side(framework="torch", functions={"build_model": reference, "build_optimizer": own, "build_scheduler": falling}),
        Side(framework="paddle", functions={"build_model": port, "build_optimizer": forgetful}),
    )
    found = check(*sides, inputs=X, stages=["optimizer"])["optimizer"]
    assert found.verdict == DIVERGED, said(found)
    assert not any("equal in effect" in note for note in found.notes)


class Branch(torch.nn.Module):
    """A second layer without a gradient."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.a(x) + 0.0 * self.b(x).detach()


class BranchPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = paddle.nn.Linear(6, 3), paddle.nn.Linear(6, 3)

    def forward(self, x):
        return self.a(x) + 0.0 * self.b(x).detach()


class Plain(torch.optim.Optimizer):
    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(group["lr"] * p.grad)


def test_the_rate_of_a_group_that_no_update_shows_is_not_excused():
    def own(model):
        return Plain([{"params": list(model.a.parameters())}, {"params": list(model.b.parameters()), "lr": 0.01}], lr=0.1)

    def library(model):
        return paddle.optimizer.SGD(0.1, [{"params": model.a.parameters()}, {"params": model.b.parameters(), "learning_rate": 1.0}])

    loss = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    sides = (
        Side(framework="torch", functions={"build_model": Branch, "build_optimizer": own, **loss}),
        Side(framework="paddle", functions={"build_model": BranchPort, "build_optimizer": library, **loss}),
    )
    found = check(*sides, inputs=X, labels=Y, stages=["backward"])["backward"]
    assert found.verdict == DIVERGED, said(found)


def test_a_share_of_the_step_is_not_blamed_where_another_setting_explains_the_updates():
    def decaying(model):
        rate = paddle.optimizer.lr.LambdaDecay(0.1, lambda step: 1.0 / (step + 1))
        groups = [
            {"params": model[0].parameters(), "learning_rate": 0.3, "weight_decay": 0.1},
            {"params": model[2].parameters(), "learning_rate": 1.0},
        ]
        return paddle.optimizer.Momentum(rate, 0.9, groups)

    found = judged(decaying)["optimizer"]
    assert found.verdict == DIVERGED
    assert ["weight decay" in finding.cause for finding in found.findings] == [True], said(found)
    schedule = next(pair for pair in found.pairs if pair.key == "schedule")
    assert not schedule.judged


def test_a_group_that_is_frozen_on_both_sides_has_no_rate_that_matters():
    def still():
        model = reference()
        model[0].bias.requires_grad_(False)
        return model

    def still_port():
        model = port()
        model[0].bias.stop_gradient = True
        return model

    class Skipping(Shared):
        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(group["lr"] * group["share"] * p.grad)

    def own(model):
        groups = [{"params": [model[0].weight], "share": 0.3}, {"params": [model[0].bias], "share": 0.3}]
        return Skipping([*groups, {"params": list(model[2].parameters())}], lr=0.1)

    def library(model):
        rate = paddle.optimizer.lr.LambdaDecay(0.1, lambda step: 1.0 / (step + 1))
        groups = [{"params": [model[0].weight], "learning_rate": 0.3}, {"params": [model[0].bias], "learning_rate": 0.3}]
        return paddle.optimizer.SGD(rate, [*groups, {"params": model[2].parameters(), "learning_rate": 1.0}])

    loss = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    sides = (
        Side(framework="torch", functions={"build_model": still, "build_optimizer": own, "build_scheduler": scheduled, **loss}),
        Side(framework="paddle", functions={"build_model": still_port, "build_optimizer": library, **loss}),
    )
    for stage in check(*sides, inputs=X, labels=Y, stages=["optimizer", "backward"]).stages:
        assert stage.verdict == ALIGNED, said(stage)


def test_another_family_does_not_explain_rates():
    def adam(model):
        return paddle.optimizer.Adam(paddle.optimizer.lr.LambdaDecay(1.0, lambda step: 1.0 / (step + 1)), parameters=model.parameters())

    found = judged(adam)["optimizer"]
    assert found.verdict == DIVERGED
    assert not any("equal in effect" in note for note in found.notes), said(found)
