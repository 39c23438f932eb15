"""Masks of numbers alone: told by the places that they choose, and the other way round."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.values.seen_masks import SeenMasks, is_mask

__all__ = ["record"]

REFERENCE = """
    import numpy as np
    def run():
        scores, window = np.random.RandomState(0).randn(9, 9), 4
        back = np.arange(scores.shape[0])[:, None] - np.arange(scores.shape[0])
        hidden = (back < 0) | (back >= window)
        return np.where(hidden, -1e9, scores)
"""

CANDIDATE = """
    import numpy as np
    def run():
        scores, window = np.random.RandomState(0).randn(9, 9), 4
        steps = scores.shape[0]
        back = np.arange(steps)[:, None] - np.arange(steps)
        seen = ((back >= 0) & (back < window)).astype(scores.dtype)  # HERE
        return np.exp(scores) * seen
"""


def named(record, candidate):
    sides = tracing_back.Sides(record(REFERENCE), record(candidate))
    found = tracing_back.of_lines(sides, [e.source for e in sides.candidate.expressions if e.label == "Mult"])
    return None if found is None else found.expression.line


@pytest.mark.parametrize(
    ("old", "new"), [("back < window", "back <= window"), ("back >= 0", "back > 0"), ("< window)", "< window) & (back != 1)")]
)
def test_a_mask_of_other_places_is_named_where_it_is_made(record, old, new):
    assert named(record, CANDIDATE.replace(old, new)) == line_of(CANDIDATE)


def test_the_same_places_the_other_way_round_are_right(record):
    assert named(record, CANDIDATE) is None
    assert named(record, CANDIDATE.replace("(back >= 0) & (back < window)", "~((back < 0) | (back >= 4))")) is None


def test_a_mask_of_a_size_that_was_not_seen_is_judged_as_other_values(record):
    graph = record("import numpy as np\ndef run():\n    return np.arange(20) < 7, np.arange(24) < 7, np.arange(6) < 3\n")
    first, second = (each for each in graph.expressions if is_mask(each))
    assert (first.size, second.size) == (20, 24)
    seen = SeenMasks([first])
    assert seen.has(first)
    assert seen.has(second), "zero and one were seen"
    other = record("import numpy as np\ndef run():\n    return np.arange(20) < 8, np.arange(20) >= 7\n")
    assert [seen.has(each) for each in other.expressions if is_mask(each)] == [False, True]


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_masks_of_all_shares_are_turned_exactly(record, share):
    given = [0, 1, *(np.random.default_rng(0).random(40) < share).astype(int).tolist()]
    graph = record(f"import numpy as np\ndef run():\n    mask = np.array({given}) > 0\n    return mask, ~mask\n")
    mask, turned = (each for each in graph.expressions if is_mask(each) and each.kind == "operation")
    assert SeenMasks([mask]).has(turned)
