"""The first wrong term of a loss that is handed out with several, whatever the order in which these are."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import pytest

from paralign.locate.formula.repaired import _first_wrong


class Value(SimpleNamespace):
    """A value as far as it is asked: nothing made it, and these use it."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


def values(*orders):
    return [Value(maker=None, users=[], order=order) for order in orders]


def feeds(value, *made):
    value.users.append(SimpleNamespace(outputs=list(made)))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_terms_that_hang_on_the_first_are_explained_by_it(order):
    term, part, loss = values(1, 2, 3)
    feeds(term, part, loss)
    due = values(11, 12, 13)
    outputs = list(zip(due, (term, part, loss), strict=True))
    judgement = SimpleNamespace(wrong_outputs=lambda: [outputs[place] for place in order], candidate=SimpleNamespace(loss=loss))
    assert _first_wrong(judgement) == (term, due[0])


def test_a_wrong_term_that_does_not_hang_on_the_first_is_another_fault():
    term, other, loss = values(1, 2, 3)
    feeds(term, loss)
    outputs = list(zip(values(11, 12, 13), (term, other, loss), strict=True))
    judgement = SimpleNamespace(wrong_outputs=lambda: outputs, candidate=SimpleNamespace(loss=loss))
    assert _first_wrong(judgement) is None
