"""Loading an adapter: a framework that is not there, or too old, is said before anything of it is used."""

from __future__ import annotations

import sys
from types import ModuleType
from unittest.mock import patch

import pytest

from paralign import adapters
from paralign.adapters.finding import OLDEST, load
from paralign.errors import EnvironmentUnavailable


@pytest.fixture(autouse=True)
def modules():
    """What is imported is afterwards as it was before: other tests may have the framework itself, or need it later."""
    own = vars(adapters).copy()
    with patch.dict(sys.modules):
        yield
    vars(adapters).clear()
    vars(adapters).update(own)


def fake(name, version):
    """A framework of which nothing is there but its version; its adapter cannot be imported with it."""
    for known in [m for m in sys.modules if m.startswith((f"{name}.", "paralign.adapters."))]:
        del sys.modules[known]
        parent, _, leaf = known.rpartition(".")
        if parent == adapters.__name__:
            vars(adapters).pop(leaf, None)
    sys.modules[name] = ModuleType(name)
    if version is not None:
        sys.modules[name].__version__ = version


@pytest.mark.parametrize(
    ("name", "version", "least"),
    [("paddle", "2.6.2", "3.0"), ("paddle", "2.0.0-rc1", "3.0"), ("torch", "1.13.1+cu117", "2.0"), ("torch", "1.8.0a0+git1", "2.0")],
)
def test_a_framework_that_is_too_old_is_refused_with_both_versions(name, version, least):
    fake(name, version)
    with pytest.raises(EnvironmentUnavailable) as refusal:
        load(name)
    assert f"{name} {version} is too old: paralign needs {name} {least} or newer" in str(refusal.value)
    assert sys.executable in str(refusal.value)


@pytest.mark.parametrize("version", ["3.0.0", "10.1", "0.0.0", "of my own", None])
def test_a_version_that_is_new_or_cannot_be_read_is_tried(version):
    fake("paddle", version)
    with pytest.raises(EnvironmentUnavailable) as refusal:  # the fake has nothing that the adapter imports
        load("paddle")
    assert "cannot be imported" in str(refusal.value)


def test_every_framework_with_an_adapter_of_its_own_has_an_oldest_version():
    assert sorted(OLDEST) == ["paddle", "torch"]
