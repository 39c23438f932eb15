"""Losses that need no labels are run without them; those that do say what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED

torch = pytest.importorskip("torch")
LABELLESS = "no labels: the loss was called with None in their place"


def side(loss):
    functions = {
        "build_model": lambda: torch.nn.Linear(6, 4),
        "loss": loss,
        "metric": lambda outputs, labels: (outputs == labels).float().mean(),
        "build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    }
    return Side(framework="torch", functions=functions)


def checked(first, second):
    return check(side(first), side(second), inputs=np.ones((2, 6), "float32"), stages=["loss", "metric", "backward"])


def test_a_loss_that_needs_no_labels_is_judged_without_any():
    own = lambda outputs, labels: outputs.square().mean()  # noqa: E731, ARG005 - the names are the contract
    result = checked(own, own)
    assert [s.verdict for s in result.stages] == [NOT_TESTED, ALIGNED, ALIGNED]  # metric, loss, backward
    assert result["metric"].lacks == ["labels() in the reference"]
    assert all(LABELLESS in result[name].notes for name in ("loss", "backward"))
    wrong = checked(own, lambda outputs, labels: outputs.square().sum())  # noqa: ARG005 - as above
    assert [wrong[name].verdict for name in ("loss", "backward")] == [DIVERGED, DIVERGED]
    assert wrong["loss"].divergence.candidate.op.startswith("aten.sum.default")


def test_a_loss_that_needs_labels_says_so():
    with_labels = lambda outputs, labels: (outputs - labels).square().mean()  # noqa: E731 - used twice
    result = checked(with_labels, with_labels)
    assert [s.verdict for s in result.stages] == [NOT_TESTED] * 3
    for name in ("loss", "backward"):
        assert result[name].notes[0].startswith("no labels: define labels() in the reference, or set [labels]; loss(outputs, None) fails")
        assert result[name].lacks == ["labels() in the reference"]


def test_the_time_of_a_stage_has_its_search_in_it():
    own = lambda outputs, labels: outputs.square().mean()  # noqa: E731, ARG005 - as above
    wrong = checked(own, lambda outputs, labels: outputs.square().sum())  # noqa: ARG005 - as above
    assert wrong["loss"].seconds["total"] > wrong["loss"].seconds["reference"] + wrong["loss"].seconds["candidate"]


class Masked(torch.nn.Module):
    """Scores, and a mask that is made of the inputs; with ``learned``, one that a parameter acts on without changing it."""

    def __init__(self, learned=False):
        super().__init__()
        self.layer, self.learned = torch.nn.Linear(6, 4), learned

    def forward(self, x):
        mask = (x[:, :4] > 0).to(x.dtype)
        felt = self.layer.weight - self.layer.weight.detach()
        return {"mask": mask + felt.sum() if self.learned else mask, "scores": self.layer(x)}


def masked_loss(used, *, learned=False):
    functions = {"build_model": lambda: Masked(learned), "loss": lambda out, _: used(out["mask"], out["scores"].square()).mean()}
    return Side(framework="torch", functions=functions)


def test_the_gradient_of_an_output_without_parameters_is_not_judged():
    decided = lambda mask, values: torch.where(mask > 0, values, torch.zeros_like(values))  # noqa: E731 - used twice
    inputs = {"inputs": np.random.default_rng(0).standard_normal((5, 6)).astype("float32"), "stages": ["loss"]}
    told = check(masked_loss(decided), masked_loss(lambda mask, values: mask * values), **inputs)["loss"]
    assert told.verdict == ALIGNED
    assert [p.judged for p in told.pairs if p.key == "gradient.mask"] == [False]
    assert [note for note in told.notes if note.startswith("gradient.mask differs and was not judged")]
    learned = check(masked_loss(decided), masked_loss(lambda mask, values: mask * values, learned=True), **inputs)["loss"]
    assert (learned.verdict, learned.worst.key) == (DIVERGED, "gradient.mask")
