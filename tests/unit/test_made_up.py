"""What own steps may make up for: a clipping in the loop of one side and in the optimizer of the other, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.context import Clipping
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Divergence, Finding, Pair, Point, Record, StageResult
from paralign.stages.backward.made_up import excuse, may_be

GRADIENTS = [np.array([3.0, 0.0]), np.array([[0.0, 4.0]])]  # of norm 5 together
CLIPS = {
    "global": (1.0, [g / 5 for g in GRADIENTS]),
    "tensor": (1.0, [np.array([1.0, 0.0]), np.array([[0.0, 1.0]])]),
    "group": (3.0, [np.array([3.0, 0.0]), np.array([[0.0, 3.0]])]),  # two groups, of norms 3 and 4
    "value": (2.0, [np.array([2.0, 0.0]), np.array([[0.0, 2.0]])]),
}


def named(reaching, before=GRADIENTS):
    """Gradients that reach the update, by name."""
    return {str(number): both for number, both in enumerate(zip(reaching, before, strict=True))}


def pair(role, step=2, verdict=DIVERGED):
    """A pair of a training in eval mode."""
    name = "loss" if role == "scalar" else "fc.weight"
    record = Record(0, name, "backward", role, "float64", (2,), run="float64:eval", step=step)
    return Pair(f"{role}_{step}", record, record, verdict=verdict)


def case(kind="global", threshold=1.0, *, alone=True, pairs=(), divergences=(), batches=None):
    """A stage that diverges as optimizers do of which one clips, the check, and own steps that agree."""
    finding = Finding("update/clip", "gradient clipping", "clip alike", proven=True)
    moved = Pair("moved fc.weight", None, None, verdict=DIVERGED)
    result = StageResult(
        "backward", DIVERGED, pairs=[moved, pair("scalar", 1, ALIGNED), *pairs], findings=[finding], divergences=list(divergences)
    )
    settings = SimpleNamespace(pace=SimpleNamespace(batches=batches, accumulate=1))
    context = SimpleNamespace(settings=settings, clipping=Clipping(1, kind, threshold, alone, finding, [moved], groups={"0": 0, "1": 1}))
    return context, result, StageResult("backward", ALIGNED, pairs=[pair("parameter", verdict=ALIGNED)])


@pytest.mark.parametrize("kind", CLIPS)
def test_steps_that_clip_alike_make_up_for_it(kind):
    threshold, clipped = CLIPS[kind]
    context, result, own = case(kind, threshold, pairs=[pair("scalar"), pair("gradient"), pair("parameter")])
    excuse(context, result, own, named(clipped))
    assert (result.verdict, result.findings, result.divergence) == (ALIGNED, [], None)
    assert "comes to the same" in result.notes[0]


@pytest.mark.parametrize(
    "reaching",
    [GRADIENTS, [g / 4 for g in GRADIENTS], [g + 0.05 for g in GRADIENTS]],
    ids=["as they are", "clipped to another norm", "with a decay added"],
)
def test_steps_whose_gradients_are_not_so_clipped_do_not(reaching):
    context, result, own = case()
    excuse(context, result, own, named(reaching))
    assert result.verdict == DIVERGED


def test_a_clipping_that_nothing_reaches_is_neither_right_nor_wrong():
    context, result, own = case(threshold=100.0)
    excuse(context, result, own, named(GRADIENTS))
    assert (result.verdict, result.findings) == (UNDERPOWERED, [])
    assert "never reach it" in result.warnings[0]


@pytest.mark.parametrize(
    "more",
    [
        {"alone": False},
        {"kind": "group"},
        {"batches": 4},
        {"pairs": [pair("buffer", 0)]},
        {"pairs": [pair("gradient", 0)]},
        {"pairs": [pair("scalar", 0)]},
        {"pairs": [Pair("resumed updates of the candidate", None, None, verdict=DIVERGED)]},
        {"divergences": [Divergence(None, Point("dropout", ""), None)]},
    ],
    ids=[
        "another difference",
        "by groups",
        "batches that the own steps do not see",
        "a buffer",
        "a first gradient",
        "a first loss",
        "a state that is lost",
        "a line that was confirmed",
    ],
)
def test_what_else_differs_is_never_made_up_for(more):
    context, result, own = case(**more)
    clipped = CLIPS["global"][1]
    excuse(context, result, own, named(clipped))
    assert result.verdict == DIVERGED
    assert result.findings


def test_own_steps_that_differ_or_were_not_compared_make_up_for_nothing():
    for own in (StageResult("backward", DIVERGED, pairs=[pair("parameter")]), StageResult("backward", ALIGNED)):
        context, result, _ = case()
        assert may_be(context, result)
        excuse(context, result, own, named(CLIPS["global"][1]))
        assert result.verdict == DIVERGED


@pytest.mark.parametrize("kind", CLIPS)
def test_a_fault_before_a_clipping_is_no_difference_of_optimizers(kind):
    """The other side's gradients are others, and come clipped to the same threshold: nothing is shown of the optimizers."""
    threshold, clipped = CLIPS[kind]
    context, result, _ = case(kind, threshold)
    others = [np.array([1.0, 3.0]), np.array([[4.0, 1.0]])]
    excuse(context, result, StageResult("backward", DIVERGED, pairs=[pair("gradient", 0)]), named(clipped, others))
    assert (result.verdict, result.findings, result.divergence) == (UNDERPOWERED, [], None)
    assert "the stage backward says where they part" in result.warnings[0]


@pytest.mark.parametrize("share", [0.5, 0.999, 1.001, 2.0])
def test_gradients_that_are_not_at_the_threshold_excuse_no_clipping(share):
    context, result, _ = case("value", 2.0)
    others = [np.array([1.0, 3.0]), np.array([[4.0, 1.0]])]
    reaching = [g * share for g in CLIPS["value"][1]]
    excuse(context, result, StageResult("backward", DIVERGED, pairs=[pair("gradient", 0)]), named(reaching, others))
    assert result.verdict == DIVERGED
    assert result.findings


@pytest.mark.parametrize("kind", ["tensor", "group"])
@pytest.mark.parametrize(("small", "verdict"), [(1e-3, DIVERGED), (0.5, UNDERPOWERED)])
def test_a_norm_of_all_that_one_gradient_is_nearly_all_of_excuses_no_clipping_by_parts(kind, small, verdict):
    """Gradients whose largest part lies at the threshold: with a tiny one beside it, the norm of all lies there too."""
    context, result, _ = case(kind, 1.0)
    reaching, others = [np.array([1.0, 0.0]), np.array([[0.0, small]])], [np.array([1.0, 3.0]), np.array([[4.0, 1.0]])]
    excuse(context, result, StageResult("backward", DIVERGED, pairs=[pair("gradient", 0)]), named(reaching, others))
    assert result.verdict == verdict
    assert not any("loop clips" in warning for warning in result.warnings)
