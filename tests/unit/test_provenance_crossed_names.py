"""A helper that is given another of its caller's parameters than the one of that name."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import blamed, line_of, record

__all__ = ["record"]

REFERENCE = """
    def bound(cin, cout, k=3):
        return (6.0 / (cout * k * k)) ** 0.5
    def layer(cin, cout):
        return {"": bound(cin, cout)}
    def run():
        return layer(5, 11)
"""

HELPER = """
    def bound(cout, k=3):
        return (6.0 / (cout * k * k)) ** 0.5  # USE
    def layer(cin, cout):
        return {"": bound(cin)}  # HERE
    def run():
        return layer(5, 11)
"""


def test_the_call_is_named_where_the_namesake_gives_the_references_number(record):
    found = blamed(record, REFERENCE, HELPER, own=True)
    assert found.expression.line == line_of(HELPER)
    assert found.placed


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("bound(cin)", "bound(cout)", "USE"),  # nothing is crossed: the helper's formula is wrong
        ("bound(cin)", "bound(7)", "HERE"),  # a number in its place is no parameter of another name
    ],
)
def test_what_is_not_crossed_is_left_as_it_was(record, old, new, line):
    wrong = HELPER.replace(old, new)
    wrong = wrong.replace("6.0 / (cout", "7.0 / (cout") if line == "USE" else wrong
    found = blamed(record, REFERENCE, wrong, own=True)
    assert found is None or not found.placed


def test_a_namesake_that_does_not_explain_the_number_is_not_blamed(record):
    wrong = HELPER.replace("6.0 / (cout", "7.0 / (cout")  # crossed, as in a second layer of equal widths, and not at fault alone
    found = blamed(record, REFERENCE, wrong, own=True)
    assert not found.placed
