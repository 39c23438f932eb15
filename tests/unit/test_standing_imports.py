"""What a process that serves trials imports beforehand: installed packages that the candidate imports, never the user's own code."""

from __future__ import annotations

import sys

import pytest

from paralign.repair.fault_sites import packages
from paralign.worker.process import standing

MODULE = """import json
import xml.dom.minidom as dom
from collections import abc
from . import beside
from tools import helper
import types

SETTINGS = json.loads("{}")
import wave

def later():
    import wave
"""


def test_modules_that_are_imported_as_files_are_loaded_are_named_but_for_their_own(tmp_path):
    (tmp_path / "port.py").write_text(MODULE)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "helper.py").write_text("import csv\n")
    found = packages(tmp_path, tmp_path / "port.py", frozenset({"port", "tools", "helper", "types"}))
    assert found == ["json", "xml.dom.minidom", "collections", "csv"]


def test_a_file_that_cannot_be_read_names_nothing(tmp_path):
    (tmp_path / "port.py").write_text("import (")
    assert packages(tmp_path, tmp_path / "port.py", frozenset()) == []


def test_only_what_is_installed_is_imported(tmp_path, monkeypatch):
    (tmp_path / "users_own_module.py").write_text("raise SystemExit('it must not run')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("users_own_module", "no_such_module", "no_such.module", "xml.sax.xmlreader"):
        sys.modules.pop(name, None)
        standing._import_installed(name)
    assert "users_own_module" not in sys.modules
    assert "xml.sax.xmlreader" in sys.modules


def test_a_package_that_fails_or_asks_to_end_is_left_to_the_program(tmp_path, monkeypatch):
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "ends_the_process.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(package)
    standing._import_installed("ends_the_process")
    assert "ends_the_process" not in sys.modules


@pytest.mark.parametrize("line", ['os.environ["KERAS_BACKEND"] = "torch"', 'os.putenv("X", "1")', "from dotenv import load_dotenv"])
def test_nothing_is_imported_beforehand_where_a_program_changes_variables(tmp_path, line):
    (tmp_path / "port.py").write_text(f"import json\nimport os\n{line}\nimport csv\n")
    assert packages(tmp_path, tmp_path / "port.py", frozenset({"port"})) == []


def test_a_package_that_holds_the_users_code_is_not_run_to_find_a_part_of_it(tmp_path, monkeypatch):
    (tmp_path / "users_own").mkdir()
    (tmp_path / "users_own" / "__init__.py").write_text("raise SystemExit('it must not run')")
    (tmp_path / "users_own" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    ran = []
    monkeypatch.setattr(standing.importlib, "import_module", ran.append)
    standing._import_installed("users_own.part")
    assert ran == []
    assert "users_own" not in sys.modules
