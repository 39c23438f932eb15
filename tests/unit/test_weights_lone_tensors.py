"""A weight or bias that only one side's layer has: which layer, and what to write."""

from __future__ import annotations

import pytest

from paralign.model import Record
from paralign.stages.weights.lone_tensors import findings
from paralign.weights import Plan
from paralign.weights.plan import Move


def record(name, kind, role="parameter"):
    return Record(0, name, "weights", role, "float32", (4,), attrs={"owner": name.rpartition(".")[0], "kind": kind})


def plan(lost, kinds=("Conv2d", "Conv2D"), extra=True, layers=("stem.0", "stem.1")):
    """Layers whose weights have a place, and whose further leaves have none on one side."""
    moves = [Move(record(f"{n}.weight", kinds[0]), record(f"port.{n}.weight", kinds[1]), None, "name") for n in layers]
    alone = [record(f"port.{n}.{lost}", kinds[1]) if extra else record(f"{n}.{lost}", kinds[0]) for n in layers]
    if extra:
        return Plan(moves, extra=[Move(None, each, None, "unmatched") for each in alone])
    return Plan(moves, missing=[Move(each, None, None, "unmatched") for each in alone])


@pytest.mark.parametrize(
    ("kinds", "framework", "extra", "cause", "fix"),
    [
        (("Conv2d", "Conv2D"), "paddle", True, "Conv2D has a bias in the candidate, Conv2d has none in the reference", "build Conv2D with bias_attr=False"),
        (("Conv2d", "Conv2D"), "paddle", False, "Conv2d has a bias in the reference, Conv2D has none in the candidate", "build Conv2D without bias_attr=False"),
        (("Conv2D", "Conv2d"), "torch", True, "Conv2d has a bias in the candidate, Conv2D has none in the reference", "build Conv2d with bias=False"),
        (("GroupNorm", "GroupNorm"), "torch", True, "GroupNorm has a bias in the candidate, GroupNorm has none in the reference", "build GroupNorm with affine=False"),
        (("LayerNorm", "LayerNorm"), "torch", False, "LayerNorm has a bias in the reference, LayerNorm has none in the candidate", "build LayerNorm without elementwise_affine=False"),
        (("Dense", "Dense"), "mine", True, "Dense has a bias in the candidate, Dense has none in the reference", "build Dense without a bias"),
    ],
)  # fmt: skip
def test_the_argument_of_the_candidates_framework_is_named(kinds, framework, extra, cause, fix):
    (found,) = findings(plan("bias", kinds, extra), framework)
    assert found.cause == f"port.stem.0, port.stem.1: {cause}"
    assert (found.fix, found.proven) == (fix, False)


def test_many_layers_are_counted():
    (found,) = findings(plan("bias", layers=("a", "b", "c", "d")), "paddle")
    assert found.cause.startswith("port.a, port.b and 2 more: ")


def test_a_layer_without_a_counterpart_and_a_leaf_of_the_users_own_are_left_to_the_notes():
    alone = Plan(extra=[Move(None, record("head.bias", "Linear"), None, "unmatched")])
    assert findings(alone, "paddle") == []
    assert findings(plan("scale"), "paddle") == []
    buffer = plan("bias")
    buffer.extra = [Move(None, record("port.stem.0.bias", "Conv2D", "buffer"), None, "unmatched")]
    assert findings(buffer, "paddle") == []
