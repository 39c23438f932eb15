"""Of two regions with a line in common, the line that explains both is named for both."""

from __future__ import annotations

import pytest

from paralign.locate.shared_lines import SHARED, prefer_shared
from paralign.model import Divergence, LineProposal, Point


def told(line, rule="region-odd"):
    return Divergence(
        None, Point("", "mul", line, "", ["outer.py:1"]), None, what="region", rule=rule, proposals=[LineProposal(rule, line)]
    )


HELPER, CALL, OTHER = "helper.py:41", "net.py:106", "net.py:107"


def test_the_line_of_a_later_region_is_named_for_the_first(monkeypatch):
    found = [told(CALL), told(HELPER)]
    prefer_shared(found, [{CALL, HELPER, "helper.py:42"}, {HELPER, OTHER}])
    first = found[0]
    assert (first.candidate.source, first.rule) == (HELPER, SHARED)
    assert first.candidate.lines == [CALL, "outer.py:1"]
    assert [p.rule for p in first.proposals] == [SHARED, "region-odd"]
    monkeypatch.setenv("PARALIGN_ABLATE", SHARED)
    left = [told(CALL), told(HELPER)]
    prefer_shared(left, [{CALL, HELPER}, {HELPER}])
    assert left[0].candidate.source == CALL


@pytest.mark.parametrize(
    ("found", "regions"),
    [
        ([told(CALL), told(HELPER)], [{CALL}, {HELPER}]),
        ([told(CALL), told(HELPER)], [{CALL, HELPER}, {HELPER, CALL}]),
        ([told(CALL, "formula-repair"), told(HELPER)], [{CALL, HELPER}, {HELPER}]),
        ([told(CALL), told(HELPER, "provenance")], [{CALL, HELPER}, {HELPER}]),
        ([told(CALL), told(HELPER), told(OTHER)], [{CALL, HELPER, OTHER}, {HELPER}, {OTHER}]),
        ([told(CALL), Divergence(None, None, None, what="missing")], [{CALL}, set()]),
        ([told(CALL)], [{CALL, HELPER}]),
    ],
    ids=["apart", "both in both", "a proven change", "traced", "several", "no line", "alone"],
)
def test_nothing_else_moves_a_line(found, regions):
    before = found[0].candidate.source
    prefer_shared(found, regions)
    assert found[0].candidate.source == before
