"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import paralign

#: modules whose examples need a framework are run by the tests of that framework
FRAMEWORK = ("paralign.adapters.", "paralign.init")

NAMES = [
    m.name
    for m in pkgutil.walk_packages([str(Path(paralign.__file__).parent)], "paralign.")
    if not m.name.startswith(FRAMEWORK) and "__main__" not in m.name
]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_some_examples_are_there():
    found = [example for name in NAMES for test in doctest.DocTestFinder().find(importlib.import_module(name)) for example in test.examples]
    assert len(found) > 20
