"""Adapters are found by name, those of installed packages too, and nothing is imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.errors import EnvironmentUnavailable, UsageError

ADAPTER = """
from paralign.adapters.numpy import create as plain

def create():
    print("created")
    adapter = plain()
    adapter.name = "tinygrad"
    return adapter
"""


def install(folder, name="tinygrad", value="tiny_adapter:create"):
    """An installed package as pip leaves it: a module and its metadata."""
    (folder / "tiny_adapter.py").write_text(ADAPTER)
    about = folder / "tiny_adapter-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-adapter\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[paralign.adapters]\n{name} = {value}\n")


def answer(folder, code):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_package_adds_a_framework_by_an_entry_point(tmp_path):
    install(tmp_path)
    load = "from paralign.adapters import finding; a = finding.load('tinygrad'); print(a.name, 'tinygrad' in finding.frameworks())"
    assert answer(tmp_path, load) == ["created", "tinygrad", "True"]


def test_no_adapter_is_imported_before_it_is_used(tmp_path):
    install(tmp_path)
    code = "from paralign.adapters import finding; finding.known(); finding.load('numpy'); print('tiny_adapter' in sys.modules)"
    assert answer(tmp_path, code) == ["False"]


def test_a_package_cannot_replace_an_adapter_of_ours(tmp_path):
    install(tmp_path, name="numpy")
    assert answer(tmp_path, "from paralign.adapters import finding; print(finding.load('numpy').name)") == ["numpy"]


def test_an_unknown_framework_is_refused_with_the_choices():
    with pytest.raises(UsageError, match="no adapter for framework 'caffe'") as caught:
        finding.load("caffe")
    assert "numpy, onnxruntime, paddle, torch" in str(caught.value)


def test_an_adapter_whose_framework_is_missing_names_the_interpreter(monkeypatch):
    monkeypatch.setitem(finding._OWN, "absent", "paralign_absent_adapter:create")
    with pytest.raises(EnvironmentUnavailable, match="'absent' cannot be imported") as caught:
        finding.load("absent")
    assert sys.executable in str(caught.value)


def test_plain_functions_belong_to_no_framework():
    assert finding.detect(np.tanh) is None
    assert finding.PLAIN not in finding.frameworks()
