"""An optimizer of the user's own that shares its rate out among its groups, beside one that tells each group's rate; Lamb by hand."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.stages.steps.shared_rates import are_proportional

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

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


class Lamb(torch.optim.Optimizer):
    """Lamb by hand, with its betas as they are written."""

    def __init__(self, params, lr, betas, eps, decay):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(first).add_(p.grad, alpha=1 - first)
                state["v"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                m, v = state["m"] / (1 - first ** state["step"]), state["v"] / (1 - second ** state["step"])
                update = m / (v.sqrt() + group["eps"]) + group["decay"] * p
                size, step = p.norm(), update.norm()
                p.sub_(group["lr"] * (size / step if size > 0 and step > 0 else 1.0) * update)


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
