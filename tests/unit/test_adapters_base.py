"""Loading an adapter: a framework that is not there, or too old, is said before anything of it is used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from paralign.adapters.finding import OLDEST, load
from paralign.errors import EnvironmentUnavailable


def fake(monkeypatch, name, version):
    """A framework of which nothing is there but its version; its adapter cannot be imported with it."""
    framework = ModuleType(name)
    if version is not None:
        framework.__version__ = version
    monkeypatch.setitem(sys.modules, name, framework)
    monkeypatch.delitem(sys.modules, f"paralign.adapters.{name}", raising=False)


@pytest.mark.parametrize(
    ("name", "version", "least"),
    [("paddle", "2.6.2", "3.0"), ("paddle", "2.0.0-rc1", "3.0"), ("torch", "1.13.1+cu117", "2.0"), ("torch", "1.8.0a0+git1", "2.0")],
)
def test_a_framework_that_is_too_old_is_refused_with_both_versions(monkeypatch, name, version, least):
    fake(monkeypatch, name, version)
    with pytest.raises(EnvironmentUnavailable) as refusal:
        load(name)
    assert f"{name} {version} is too old: paralign needs {name} {least} or newer" in str(refusal.value)
    assert sys.executable in str(refusal.value)


@pytest.mark.parametrize("version", ["3.0.0", "10.1", "0.0.0", "of my own", None])
def test_a_version_that_is_new_or_cannot_be_read_is_tried(monkeypatch, version):
    fake(monkeypatch, "paddle", version)
    with pytest.raises(EnvironmentUnavailable) as refusal:  # the fake has nothing that the adapter imports
        load("paddle")
    assert "cannot be imported" in str(refusal.value)


def test_every_framework_with_an_adapter_of_its_own_has_an_oldest_version():
    assert sorted(OLDEST) == ["paddle", "torch"]
