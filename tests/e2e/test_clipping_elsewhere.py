"""One side clips in its loop, the other in its optimizer: rules that nobody knows, thresholds that the check's batch does not reach."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

sys.path.insert(0, str(Path(__file__).parent))
from lamb_by_hand import Lamb  # noqa: E402 - beside this file

X = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
Y = np.random.default_rng(1).standard_normal((8, 3)).astype("float32")

#: of all gradients together: those of the batch are below the first and above the second
NEVER, OFTEN = 20.0, 0.01


class Rooted(torch.optim.Optimizer):
    """A rule that no library has: the root of each gradient, with its sign, averaged."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "mean" not in state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].mul_(0.6).add_(p.grad.sign() * (p.grad.abs() + 1.0).log(), alpha=0.4)
                p.sub_(group["lr"] * state["mean"] / (1.0 + state["mean"].abs()))


class RootedPort(paddle.optimizer.Optimizer):
    """The same, with the clipping of Paddle's optimizers."""

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            self._add_accumulator("mean", p)

    def _append_optimize_op(self, block, param_and_grad):
        p, g = param_and_grad
        mean = self._get_accumulator("mean", p)
        mean.set_value(0.6 * mean + 0.4 * paddle.sign(g) * paddle.log(paddle.abs(g) + 1.0))
        p.set_value(p - self.get_lr() * mean / (1.0 + paddle.abs(mean)))


def rooted(model):
    return Rooted(model.parameters(), lr=0.05)


def rooted_port(threshold):
    clip = paddle.nn.ClipGradByGlobalNorm(threshold)
    return lambda model: RootedPort(0.05, parameters=model.parameters(), grad_clip=clip)


def looped(threshold):
    """A step of PyTorch that clips before its update; None: one that does not."""

    def step(model, optimizer, batch):
        model.train()
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        if threshold is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), threshold)
        optimizer.step()
        return {"loss": float(loss)}

    return step


def ported(model, optimizer, batch):
    model.train()
    loss = ((model(batch[0]) - batch[1]) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(loss)}


def smooth():
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def smooth_port():
    return paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))


class Louder(torch.nn.Sequential):
    """Larger outputs in training, so that its gradients are larger there too."""

    def forward(self, x):
        return super().forward(x) * (20.0 if self.training else 1.0)


class LouderPort(paddle.nn.Sequential):
    def forward(self, x):
        return super().forward(x) * (20.0 if self.training else 1.0)


def louder():
    return Louder(*smooth())


def louder_port():
    return LouderPort(*smooth_port())


def judged(step, optimizers, models=(smooth, smooth_port), stages=("optimizer", "backward")):
    shared = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    both = [
        Side(framework=name, functions={"build_model": model, "build_optimizer": optimizer, "train_step": own, **shared})
        for name, model, optimizer, own in zip(("torch", "paddle"), models, optimizers, (step, ported), strict=True)
    ]
    return check(*both, inputs=X, labels=Y, stages=list(stages))


def told(result):
    return result.verdict, result.failure, [f.cause for f in result.findings], result.notes, result.warnings


@pytest.mark.parametrize("threshold", [NEVER, OFTEN], ids=["never reached", "always reached"])
def test_rules_that_nobody_knows_are_given_clipped_gradients(threshold):
    found = judged(looped(threshold), (rooted, rooted_port(threshold)))
    for stage in found.stages:
        assert stage.verdict == ALIGNED, told(stage)
        assert stage.findings == []


@pytest.mark.parametrize("threshold", [NEVER, OFTEN], ids=["never reached", "always reached"])
def test_a_loop_that_does_not_clip_is_told_whatever_the_rule(threshold):
    found = judged(looped(None), (rooted, rooted_port(threshold)))["optimizer"]
    assert found.verdict == DIVERGED, told(found)
    (finding,) = found.findings
    assert "gradient clipping: none in the reference" in finding.cause
    assert finding.proven
    assert finding.error_after < 1e-6 < finding.error_before


def test_a_clipping_does_not_hide_another_rule():
    class Other(RootedPort):
        def _append_optimize_op(self, block, param_and_grad):
            p, g = param_and_grad
            super()._append_optimize_op(block, (p, 1.01 * g))

    def other(model):
        return Other(0.05, parameters=model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(OFTEN))

    found = judged(looped(OFTEN), (rooted, other), stages=["optimizer"])["optimizer"]
    assert found.verdict == DIVERGED, told(found)
    assert not any("clipping" in f.cause for f in found.findings), told(found)


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


def momentum_port(model):
    return paddle.optimizer.Momentum(0.001, 0.9, model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(10.0))


@pytest.mark.parametrize(("threshold", "verdict"), [(10.0, ALIGNED), (20.0, DIVERGED), (None, DIVERGED)])
def test_a_threshold_that_only_train_mode_reaches(threshold, verdict):
    found = judged(looped(threshold), (momentum, momentum_port), (louder, louder_port), stages=["backward"])["backward"]
    assert found.verdict == verdict, told(found)
    made_up = any("comes to the same" in note for note in found.notes)
    assert made_up is (verdict == ALIGNED), told(found)


@pytest.mark.parametrize(("threshold", "verdict"), [(NEVER, ALIGNED), (None, DIVERGED), (2 * NEVER, DIVERGED)])
def test_steps_that_never_reach_a_threshold_are_taken_with_larger_gradients(threshold, verdict):
    def clipping(model):
        return paddle.optimizer.Momentum(0.001, 0.9, model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(1e-3 * NEVER))

    small = None if threshold is None else 1e-3 * threshold

    def step(model, optimizer, batch):
        return looped(small)(model, optimizer, (batch[0], (model(batch[0]) + 1e-3 * batch[1]).detach()))

    def own(model, optimizer, batch):
        return ported(model, optimizer, (batch[0], (model(batch[0]) + 1e-3 * batch[1]).detach()))

    shared = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    sides = [
        Side(framework=name, functions={"build_model": model, "build_optimizer": optimizer, "train_step": each, **shared})
        for name, model, optimizer, each in (("torch", smooth, momentum, step), ("paddle", smooth_port, clipping, own))
    ]
    found = check(*sides, inputs=X, labels=Y, stages=["optimizer"])["optimizer"]
    assert found.verdict == verdict, told(found)
    assert any("times as large" in note for note in found.notes), told(found)


def checked(theirs, ours, steps, stages, first=smooth):
    shared = {"loss": lambda outputs, labels: ((outputs - labels) ** 2).mean()}
    sides = [
        Side(framework=name, functions={"build_model": model, "build_optimizer": optimizer, "train_step": step, **shared})
        for name, model, optimizer, step in zip(("torch", "paddle"), (first, smooth_port), (theirs, ours), steps, strict=True)
    ]
    return check(*sides, inputs=X, labels=Y, stages=stages)


def by_group(threshold):
    def step(model, optimizer, batch):
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], threshold)
        optimizer.step()

    return step


def layers(model):
    return [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters())}]


def quiet():
    """A first layer whose gradients are small beside those of the second."""
    torch.manual_seed(0)
    model = smooth()
    with torch.no_grad():
        model[2].weight.mul_(0.3)
    return model


def test_groups_of_other_sizes_that_are_clipped_each_by_its_norm():
    found = checked(
        lambda model: torch.optim.SGD(layers(model), lr=0.1),
        lambda model: paddle.optimizer.SGD(0.1, layers(model), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)),
        (by_group(0.05), ported),
        ["backward"],
        first=quiet,
    )["backward"]
    assert found.verdict == ALIGNED, told(found)


@pytest.mark.parametrize(("step", "verdict"), [(by_group(0.05), ALIGNED), (looped(0.05), DIVERGED)], ids=["by group", "all together"])
def test_a_library_rule_that_nobody_knows_clips_by_group(step, verdict):
    found = checked(
        lambda model: Lamb(layers(model), 0.01, (0.9, 0.99), 1e-6, 0.02),
        lambda model: paddle.optimizer.Lamb(
            0.01, 0.02, 0.9, 0.99, 1e-6, parameters=layers(model), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)
        ),
        (step, ported),
        ["optimizer"],
    )["optimizer"]
    assert found.verdict == verdict, told(found)


def test_gradients_that_no_backward_pass_leaves_are_not_held_to_be_larger():
    def theirs(model, optimizer, batch):
        parameters = list(model.parameters())
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(((model(batch[0]) - batch[1]) ** 2).mean(), parameters), strict=True
        ):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(parameters, 3.0)
        optimizer.step()

    def ours(model, optimizer, batch):
        parameters = model.parameters()
        for parameter, gradient in zip(parameters, paddle.grad(((model(batch[0]) - batch[1]) ** 2).mean(), parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
        optimizer.clear_grad()

    found = checked(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        lambda model: paddle.optimizer.SGD(0.1, model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(3.0)),
        (theirs, ours),
        ["optimizer"],
    )["optimizer"]
    assert found.verdict == UNDERPOWERED, told(found)
    assert not any("times as large" in note for note in found.notes)
