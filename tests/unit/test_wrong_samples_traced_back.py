"""What a proven cause of a wrong sample leaves open: where the constants that are wrong there were made."""

from __future__ import annotations

import pytest

from paralign.model import DIVERGED, Divergence, Finding, Pair, Point, StageResult
from paralign.stages.data import first_wrong_sample


def traced(monkeypatch, rule, line="data.py:3", *, found=True):
    """A result with a proven cause after it was traced back to a line, and how often that was asked."""
    asked = []

    def follow(_, divergence, *asked_for):
        asked.append(asked_for)
        if found:
            divergence.candidate.source = line
        return found

    monkeypatch.setattr(first_wrong_sample.provenance, "follow", follow)
    divergence = Divergence(Point("sample_0"), Point("sample_0", "", "data.py:9", ""), Pair("sample_0", None, None, verdict=DIVERGED))
    divergence.confirmed = True
    findings = [Finding(rule, "the constants differ", "", proven=True), Finding("data/missing", "a guess", "", proven=False)]
    result = StageResult("data", DIVERGED, divergence=divergence, findings=findings)
    first_wrong_sample._trace_back(None, result, "dataset", 0)
    return result, len(asked)


def test_the_line_is_followed_on_and_no_longer_called_confirmed(monkeypatch):
    result, asked = traced(monkeypatch, "data/normalise")
    assert asked == 1
    assert (result.divergence.candidate.source, result.divergence.confirmed) == ("data.py:3", False)
    assert [f.rule for f in result.findings] == ["data/normalise"], "what was proven stays, guesses of the line before do not"


def test_a_line_that_stays_where_it_was_tried_stays_confirmed(monkeypatch):
    for given in ({"line": "data.py:9"}, {"found": False}):
        result, _ = traced(monkeypatch, "data/normalise", **given)
        assert (result.divergence.candidate.source, result.divergence.confirmed) == ("data.py:9", True)


@pytest.mark.parametrize("rule", ["data/order", "data/random", "data/batch-size"])
def test_orders_and_draws_have_no_such_line(monkeypatch, rule):
    result, asked = traced(monkeypatch, rule)
    assert (asked, len(result.findings), result.divergence.confirmed) == (0, 2, True)
