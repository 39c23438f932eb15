"""Adapters are found by name, those of installed packages too, and nothing is imported before it is used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paralign.adapters import finding, packages
from paralign.adapters.packages import Place
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
    monkeypatch.setitem(finding._OWN, "absent", Place("paralign_absent_adapter:create"))
    with pytest.raises(EnvironmentUnavailable, match="'absent' cannot be imported") as caught:
        finding.load("absent")
    assert sys.executable in str(caught.value)


def test_plain_functions_belong_to_no_framework():
    assert finding.detect(np.tanh) is None
    assert finding.PLAIN not in finding.frameworks()


def told(table, monkeypatch):
    monkeypatch.setenv(packages.VARIABLE, table if isinstance(table, str) else json.dumps(table))
    packages.take_over()
    assert packages.VARIABLE not in os.environ


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Says what a worker is told: a table, or the text itself; what is imported of it is forgotten afterwards."""
    install(tmp_path)
    yield lambda table: told(table, monkeypatch)
    packages._told = ""  # not by monkeypatch: it would put back what was told
    packages.places.cache_clear()
    sys.modules.pop("tiny_adapter", None)
    finding.load("numpy").name = "numpy"  # the package gives it its own


def test_a_worker_loads_what_it_was_told_of_and_puts_no_folder_on_its_path(worker, tmp_path, capsys):
    worker({"tinygrad": [str(tmp_path / "tiny_adapter.py"), "tiny_adapter:create", False]})
    before = list(sys.path)
    assert finding.load("tinygrad").name == "tinygrad"
    assert capsys.readouterr().out == "created\n"
    assert sys.path == before
    assert "tinygrad" in finding.frameworks()


def test_a_package_is_loaded_from_its_folder(worker, tmp_path):
    home = tmp_path / "tiny_package"
    home.mkdir()
    (home / "__init__.py").write_text("")
    (home / "inner.py").write_text("from tiny_package import other\ncreate = other.create\n")
    (home / "other.py").write_text("def create():\n    return 'the adapter'\n")
    worker({"tinygrad": [str(home / "__init__.py"), "tiny_package.inner:create", False]})
    assert finding.load("tinygrad") == "the adapter"
    assert packages.homes() == [str(home)]
    for name in [name for name in sys.modules if name.startswith("tiny_package")]:
        del sys.modules[name]


def test_a_file_that_is_gone_is_told_with_the_interpreter(worker, tmp_path):
    worker({"tinygrad": [str(tmp_path / "gone" / "tiny_adapter.py"), "tiny_adapter:create", False]})
    with pytest.raises(EnvironmentUnavailable, match="tiny_adapter is not in") as caught:
        finding.load("tinygrad")
    assert caught.value.where == sys.executable


def test_a_package_that_fails_on_import_is_not_left_half_imported(worker, tmp_path):
    (tmp_path / "tiny_adapter.py").write_text("raise ImportError('no tinygrad here')\n")
    worker({"tinygrad": [str(tmp_path / "tiny_adapter.py"), "tiny_adapter:create", False]})
    with pytest.raises(EnvironmentUnavailable, match="no tinygrad here"):
        finding.load("tinygrad")
    assert "tiny_adapter" not in sys.modules


@pytest.mark.parametrize(
    "table",
    [
        "nonsense",
        "[]",
        "7",
        {"tinygrad": "tiny_adapter:create"},
        {"tinygrad": ["/a/tiny_adapter.py", "tiny_adapter:create"]},
        {"tinygrad": ["/a/tiny_adapter.py", "tiny_adapter:create", "yes"]},
        {"tinygrad": ["tiny_adapter.py", "tiny_adapter:create", False]},
        {"tinygrad": ["/a/other.py", "tiny_adapter:create", False]},
        {"tinygrad": ["/a/other/__init__.py", "tiny_adapter.inner:create", False]},
        {"tinygrad": ["/a/tiny_adapter.py", "tiny_adapter:create()", False]},
        {"tinygrad": ["/a/.py", ":create", False]},
    ],
)
def test_what_tells_of_no_adapters_is_refused(table, worker):
    worker(table)
    with pytest.raises(UsageError, match="PARALIGN_ADAPTERS holds no adapters"):
        finding.load("tinygrad")
    assert finding.load("numpy").name == "numpy"


def test_what_came_with_paralign_goes_before_the_interpreters_own(worker, tmp_path, monkeypatch):
    own = {"tinygrad": packages.Place("elsewhere:create"), "other": packages.Place("another:create")}
    monkeypatch.setattr(packages, "_installed", lambda: own)
    file = str(tmp_path / "tiny_adapter.py")
    worker({name: [file, "tiny_adapter:create", name == "tinygrad"] for name in ("tinygrad", "other", "third")})
    assert {name: place.value for name, place in packages.places().items()} == {
        "tinygrad": "tiny_adapter:create",
        "other": "another:create",
        "third": "tiny_adapter:create",
    }


def test_workers_are_told_of_packages_but_not_of_the_framework_itself(tmp_path):
    install(tmp_path)
    code = "from paralign.adapters import packages; print(packages.told_to_workers())"
    table = json.loads(" ".join(answer(tmp_path, code)))
    assert table["tinygrad"] == [str(tmp_path / "tiny_adapter.py"), "tiny_adapter:create", False]
    (tmp_path / "tiny_adapter-1.0.dist-info" / "entry_points.txt").write_text("[paralign.adapters]\ntiny_adapter = tiny_adapter:create\n")
    assert "tiny_adapter" not in json.loads(" ".join(answer(tmp_path, code)))


def test_the_packages_that_came_with_paralign_are_handed_over_and_cannot_be_replaced(tmp_path):
    code = "from paralign.adapters import packages; print(packages.told_to_workers())"
    install(tmp_path, name="onnxruntime")
    table = json.loads(" ".join(answer(tmp_path, code)))
    source = Path(packages.__file__).parents[2]
    for name in ("jax", "onnxruntime"):
        assert table[name] == [str(source / f"paralign_{name}" / "__init__.py"), f"paralign_{name}.adapter:create", True]


def test_captures_are_of_the_code_of_adapters_too(tmp_path):
    assert {path.parent.name for path in packages.sources()} == {"paralign_jax", "paralign_onnxruntime"}
    install(tmp_path)
    code = "from paralign.adapters import packages; print(*packages.sources(), sep='\\n')"
    assert str(tmp_path / "tiny_adapter.py") in answer(tmp_path, code)


def test_what_is_installed_has_the_entry_points_of_the_sources():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    block = text.partition('entry-points."paralign.adapters"]\n')[2].partition("\n\n")[0]
    wanted = dict(re.findall(r'^(\w+) = "(.*)"$', block, re.MULTILINE))
    installed = {name: place.value for name, place in packages.places().items() if place.ours}
    assert installed == wanted != {}, "the installation is older than pyproject.toml: pip install --no-deps --no-build-isolation -e ."
