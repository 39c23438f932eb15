"""Masks, ranks and counts that are wrong: their numbers stand everywhere, so their elements in order tell."""

from __future__ import annotations

from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back

__all__ = ["record"]

REFERENCE = """
    import numpy as np

    def run():
        scores = np.random.RandomState(0).randn(40, 6)
        target = np.arange(40) % 6
        mine = scores[np.arange(40), target]
        best = np.argsort(-scores, 1)[:, :3]
        rank = (scores > mine[:, None]).sum(1) + 1
        hit = best == target[:, None]
        return {"first": float(hit[:, 0].mean()), "mrr": float((1 / rank).mean())}
"""

CANDIDATE = """
    import numpy as np

    def run():
        scores = np.random.RandomState(0).randn(40, 6)
        target = np.arange(40) % 6
        mine = scores[np.arange(40), target]
        rank = 1 + (scores > mine[:, None]).sum(-1)
        first = rank == 1
        return {"first": float(first.mean()), "mrr": float((1 / rank).mean())}
"""


def blamed(record, candidate, root, right=()):
    """The line that is named for one wrong root, where others are right."""
    sides = tracing_back.Sides(record(REFERENCE), record(candidate))
    return tracing_back.of_value(sides, root, root, right).expression.line


def test_the_edge_of_a_comparison_is_named_and_not_where_its_counts_are_used(record):
    wrong = CANDIDATE.replace("(scores > mine[:, None]).sum(-1)", "(scores >= mine[:, None]).sum(-1)  # HERE")
    for root in ("first", "mrr"):
        assert blamed(record, wrong, root) == line_of(wrong), root


def test_a_right_mask_does_not_vouch_for_the_counts_that_were_compared(record):
    wrong = CANDIDATE.replace("(scores > mine[:, None]).sum(-1)", "(scores >= mine[:, None]).sum(-1)  # HERE")
    wrong = wrong.replace('"first": float(first.mean())', '"first": 0.0, "known": float((rank <= 7).mean())')
    assert blamed(record, wrong, "mrr", ["known"]) == line_of(wrong)


def test_right_counts_are_not_blamed_for_how_they_are_used(record):
    wrong = CANDIDATE.replace("first = rank == 1", "first = rank == 2").replace(".sum(-1)", ".sum(-1)  # HERE")
    assert blamed(record, wrong, "first") != line_of(wrong)


def test_another_number_before_counts_is_named(record):
    wrong = CANDIDATE.replace("rank = 1 + (scores > mine[:, None]).sum(-1)", "rank = 2 + (scores > mine[:, None]).sum(-1)  # HERE")
    assert blamed(record, wrong, "mrr") == line_of(wrong)
