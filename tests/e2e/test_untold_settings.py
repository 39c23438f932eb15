"""An optimizer of the user's own that keeps a setting under a name that nobody knows, and clips in the training loop."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

INPUTS = (np.random.RandomState(0).randn(8, 6) * 3).astype("float32")
LABELS = (np.random.RandomState(1).randn(8, 3) * 5).astype("float32")
LIMIT, SHRINK = 0.2, 0.02


class Adamax(torch.optim.Optimizer):
    """Paddle's rule, written by hand; the share of the weights is called ``l2``."""

    def __init__(self, params, *, l2):
        super().__init__(params, {"lr": 4e-3, "l2": l2})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, moment=torch.zeros_like(p), peak=torch.zeros_like(p))
                state["step"] += 1
                g = p.grad + group["l2"] * p
                state["moment"].mul_(0.9).add_(g, alpha=0.1)
                state["peak"].copy_(torch.maximum(state["peak"] * 0.99 + 1e-6, g.abs()))
                p.sub_(group["lr"] / (1 - 0.9 ** state["step"]) * state["moment"] / state["peak"])


def reference(l2):
    torch.manual_seed(0)

    def train_step(model, optimizer, batch):
        optimizer.zero_grad()
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        loss.backward()
        for p in model.parameters():
            p.grad.mul_(min(1.0, LIMIT / float(p.grad.norm())))
        optimizer.step()
        return {"loss": float(loss)}

    return Side(
        framework="torch",
        functions={
            "build_model": lambda: torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)),
            "loss": lambda outputs, labels: ((outputs - labels) ** 2).mean(),
            "build_optimizer": lambda model: Adamax(model.parameters(), l2=l2),
            "train_step": train_step,
        },
    )


def candidate():
    def train_step(model, optimizer, batch):
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return {"loss": float(loss)}

    def build_optimizer(model):
        shrink, clip = paddle.regularizer.L2Decay(SHRINK), paddle.nn.ClipGradByNorm(LIMIT)
        return paddle.optimizer.Adamax(4e-3, 0.9, 0.99, 1e-6, model.parameters(), weight_decay=shrink, grad_clip=clip)

    return Side(
        framework="paddle",
        functions={
            "build_model": lambda: paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3)),
            "loss": lambda outputs, labels: ((outputs - labels) ** 2).mean(),
            "build_optimizer": build_optimizer,
            "train_step": train_step,
        },
    )


@pytest.mark.parametrize(("l2", "verdict"), [(SHRINK, "aligned"), (0.0, "diverged")])
def test_what_the_steps_do_not_show_is_no_difference(l2, verdict):
    result = check(reference(l2), candidate(), inputs=INPUTS, labels=LABELS, stages=["weights", "optimizer", "backward"])
    told = [(stage.name, stage.verdict, [f.cause for f in stage.findings], stage.notes) for stage in result.stages]
    assert (result["optimizer"].verdict, result["backward"].verdict) == (verdict, verdict), told
    notes = [note for stage in result.stages for note in stage.notes]
    assert not any("weight decay: none in the reference" in note for note in notes), told
    if verdict == "diverged":
        causes = [finding.cause for finding in result["optimizer"].findings]
        assert any(cause.startswith(f"weight decay: none in the reference, {SHRINK}") for cause in causes), told
        assert any(cause.startswith("gradient clipping: none in the reference") for cause in causes), told
