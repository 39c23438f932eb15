"""Functions that draw are recorded wherever the user's modules hold them."""

from __future__ import annotations

import random
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.worker.draws.tape import Tape


@pytest.fixture
def tape():
    adapter = SimpleNamespace(name="numpy", is_tensor=lambda _value: False)
    return Tape(SimpleNamespace(adapter=adapter))


@pytest.fixture
def users(tmp_path, monkeypatch):
    """A module of the user's that has bound functions by their names, and another value by such a name."""
    module = types.ModuleType("users_draws")
    module.__file__ = str(tmp_path / "users_draws.py")
    module.gauss, module.randn, module.uniform = random.gauss, np.random.randn, max
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_what_a_module_has_bound_by_name_is_recorded_and_bound_again(tape, users):
    random_of_modules, normal_of_modules = random.gauss, np.random.randn
    with tape.running():
        users.gauss(1.0, 2.0)
        users.randn(3)
        random.random()
        assert users.uniform is max
    assert [draw.said for draw in tape.draws] == ["random.gauss", "numpy.random.randn", "random.random"]
    assert [draw.values.size for draw in tape.draws] == [1, 3, 1]
    assert (users.gauss, users.randn) == (random_of_modules, normal_of_modules)
    assert (random.gauss, np.random.randn) == (random_of_modules, normal_of_modules)


def test_draws_take_the_place_of_those_of_a_module_that_has_bound_the_function(tape, users):
    with tape.running():
        first = users.gauss(1.0, 2.0)
    tape.start(tape.draws)
    with tape.running():
        again = users.gauss(5.0, 4.0)
    assert not tape.apart
    assert again == pytest.approx((first - 1.0) / 2.0 * 4.0 + 5.0)


def test_what_is_bound_under_another_name_or_in_an_installed_package_is_not_recorded(tape, users):
    users.other = random.gauss
    users.__file__ = "/somewhere/site-packages/users_draws.py"
    with tape.running():
        users.gauss(1.0, 2.0)
        users.other(1.0, 2.0)
    assert tape.draws == []


def test_names_are_bound_again_where_the_users_code_fails(tape, users):
    before = users.gauss
    with pytest.raises(KeyError), tape.running():
        raise KeyError
    assert users.gauss is before
    assert random.gauss is before
