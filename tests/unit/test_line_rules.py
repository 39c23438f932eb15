"""Rules that choose a line: the strongest that answers wins, its id is said, and each can be left out."""

from __future__ import annotations

import re

from paralign.locate.lines import choose, kinds, number_lines
from paralign.locate.lines.rule import ABLATE, Rule, proposals, strongest

RULES = (
    Rule("silent", "says nothing", lambda _: None),
    Rule("first", "says one", lambda asked: f"{asked}:1"),
    Rule("second", "says two", lambda asked: f"{asked}:2"),
)

REGISTERED = [
    *kinds.REGION_RULES,
    *choose.REPAIR_RULES,
    *choose.MISSING_AT_END_RULES,
    *choose.MISSING_RULES,
    *choose.WIRED_RULES,
    *choose.REGION_LINE_RULES,
    *choose.OPERATION_RULES,
    *number_lines.NUMBER_RULES,
]


def test_the_strongest_rule_that_answers_wins_and_is_named():
    won = strongest(RULES, "a.py")
    assert won is not None
    assert (won.rule, won.answer) == ("first", "a.py:1")


def test_a_rule_that_is_left_out_is_not_asked(monkeypatch):
    monkeypatch.setenv(ABLATE, "first,unknown")
    won = strongest(RULES, "a.py")
    assert won is not None
    assert won.rule == "second"


def test_all_rules_that_answer_are_told_the_strongest_first(monkeypatch):
    assert [(p.rule, p.answer) for p in proposals(RULES, "a.py")] == [("first", "a.py:1"), ("second", "a.py:2")]
    monkeypatch.setenv(ABLATE, "first")
    assert [p.rule for p in proposals(RULES, "a.py")] == ["second"]


def test_no_answer_is_none(monkeypatch):
    monkeypatch.setenv(ABLATE, "first,second")
    assert strongest(RULES, "a.py") is None


def test_every_rule_has_an_id_of_its_own_and_says_what_it_knows():
    ids = [rule.id for rule in REGISTERED]
    assert len(set(ids)) == len(ids)
    for rule in REGISTERED:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert 0 < len(rule.about) <= 88
