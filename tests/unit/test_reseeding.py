"""A program that seeds itself, under other seeds."""

# ruff: noqa: NPY002 - the generators that programs seed
from __future__ import annotations

import random

import numpy as np
import pytest

from paralign.worker.draws.reseeding import moved


def drawn():
    np.random.seed(3)
    random.seed(4)
    return np.random.rand(), random.random()


def test_a_seed_is_another_and_the_functions_are_given_back():
    before = np.random.seed, random.seed
    own = drawn()
    with moved(0) as called:
        assert drawn() == own
    assert called == ["numpy.random.seed", "random.seed"]
    with moved(1):
        other = drawn()
        assert other == drawn()
    assert not {*other} & {*own}
    np.random.seed(4)
    assert other[0] == np.random.rand()
    assert drawn() == own
    assert before == (np.random.seed, random.seed)


def test_a_seed_given_by_its_name_is_another_too():
    np.random.seed(5)
    expected = np.random.rand()
    with moved(2) as called:
        np.random.seed(seed=3)
        assert np.random.rand() == expected
    assert called == ["numpy.random.seed"]


def test_what_is_no_whole_number_is_passed_on():
    with moved(7) as called:
        random.seed("name")
        first = random.random()
        np.random.seed(None)
        np.random.seed([1, 2])
        with pytest.raises(TypeError):
            np.random.seed("name")
    assert called == []
    random.seed("name")
    assert first == random.random()


def test_the_functions_are_given_back_after_an_error():
    before = np.random.seed
    with pytest.raises(ValueError, match="-1"), moved(0):
        raise ValueError(-1)
    assert np.random.seed is before
