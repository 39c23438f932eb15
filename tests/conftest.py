"""What many tests share: projects of two sides in a temporary folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

os.environ.setdefault("PARALIGN_REPAIR_SECONDS", "0")  # tests that are about repairs say so

TOML = """
timeout = {timeout}
[reference]
framework = "{framework}"
{reference}
[candidate]
framework = "{framework}"
{candidate}
[inputs]
shape = [4, 6]
[labels]
shape = [4]
dtype = "int64"
high = 3
{more}
"""

#: a side that needs numpy alone and has every function that numpy can serve
SIDE = """
import numpy as np

class Model:
    def __init__(self):
        random = np.random.RandomState(0)
        self.parameters = {"weight": random.randn(6, 3).astype("float32"), "bias": random.randn(3).astype("float32")}

    def __call__(self, x):
        return x @ self.parameters["weight"] + self.parameters["bias"]

def build_model():
    return Model()

class Data:
    transform = None

    def __len__(self):
        return 7

    def __getitem__(self, index):
        if index >= 7:
            raise IndexError(index)
        image = np.arange(6, dtype="float32") + index
        return (self.transform(image) if self.transform else image), index % 3

def half(x):
    return x / 2

def transforms(split):
    return [half]

def build_dataset(split):
    data = Data()
    data.transform = half
    return data

def build_dataloader(split):
    data = build_dataset(split)
    for start in range(0, 7, 3):
        rows = [data[i] for i in range(start, min(start + 3, 7))]
        yield np.stack([x for x, _ in rows]), np.array([y for _, y in rows])

def metric(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).mean())}

def predict(path, model):
    return {"sum": float(np.loadtxt(path).sum()), "class_name": "few"}
"""


@pytest.fixture(autouse=True)
def _defaults_stay():
    """A test that leaves a framework's default type changed fails itself, in place of those after it."""
    yield
    left = {}
    for name in ("torch", "paddle"):
        framework = sys.modules.get(name)
        if hasattr(framework, "get_default_dtype") and str(framework.get_default_dtype()) not in ("torch.float32", "float32"):
            left[name] = framework.get_default_dtype()
            framework.set_default_dtype(framework.float32)
    assert not left, "the test left a framework's default type changed"


#: the nurseries of this process (``nursery.py``); None without ``--nurseries``
_nurseries = None


def pytest_addoption(parser):
    parser.addoption("--nurseries", action="store_true", help="fork workers and commands from processes with imports (tests/nursery.py)")


@pytest.fixture(scope="session")
def nursery():
    """The module beside this file."""
    spec = importlib.util.spec_from_file_location("nursery", Path(__file__).with_name("nursery.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def _workers_forked(request):
    """With ``--nurseries``, workers of a framework and commands are forked from processes that have it imported."""
    global _nurseries  # noqa: PLW0603 - `paralign` is a function, which tests import
    if not request.config.getoption("--nurseries"):
        yield
        return
    nursery = request.getfixturevalue("nursery")
    with tempfile.TemporaryDirectory(prefix="nurseries-") as folder:  # the path of a socket has to be short
        _nurseries = nursery.Nurseries(Path(folder))
        start_again = nursery.ask(_nurseries.place)
        yield
        start_again()
        _nurseries.close()


@pytest.fixture(autouse=True)
def _processes_started(request):
    """Tests of processes, and all that are hostile, have theirs started."""
    if _nurseries is not None:
        started = request.node.get_closest_marker("processes") is not None
        _nurseries.asleep = started or "hostile" in request.node.path.parts
    yield
    if _nurseries is not None:
        _nurseries.asleep = False


@pytest.fixture(scope="module", autouse=True)
def _programs_forked(request):
    """Programs that the tests of a module run are forked, where the module says so."""
    with pytest.MonkeyPatch.context() as patch:
        if _nurseries is not None and request.node.get_closest_marker("programs") is not None:
            patch.setattr(subprocess, "run", _nurseries.running(subprocess.run))
        yield


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str


def paralign(*arguments, cwd=None, timeout=240):
    """Run the command as a user would."""
    words = [str(each) for each in arguments]
    if _nurseries is None:
        command = [sys.executable, "-m", "paralign", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)
    else:
        done = _nurseries.run(words, cwd, timeout)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run():
    """The command ``paralign``."""
    return paralign


class Project:
    """A project in a folder; ``edit`` changes a side's code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = {"framework": "numpy", "timeout": 60, "reference": "", "candidate": "", "more": ""}
        for side in ("reference", "candidate"):
            (folder / f"{side}.py").write_text(SIDE)
        self.write()

    def write(self, **settings):
        self.settings.update(settings)
        (self.folder / "paralign.toml").write_text(TOML.format(**self.settings))
        return self

    def edit(self, side, old, new):
        path = self.folder / f"{side}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return self

    def append(self, side, text):
        path = self.folder / f"{side}.py"
        path.write_text(path.read_text() + text)
        return self

    def check(self, *arguments, **kwargs):
        return paralign("check", self.folder, *arguments, **kwargs)

    def report(self):
        import json

        return json.loads((self.folder / "result" / "report.json").read_text())

    def stage(self, name):
        return next(s for s in self.report()["stages"] if s["name"] == name)


@pytest.fixture
def project(tmp_path):
    """A project whose two sides are the same numpy program."""
    folder = tmp_path / "port"
    folder.mkdir()
    return Project(folder)


@pytest.fixture(scope="session")
def project_in():
    """Makes a project in a folder that is there, for fixtures that several tests share."""
    return Project


def pytest_terminal_summary(terminalreporter):
    """Say what the promise for old interpreters rests on, where it was not tried."""
    old = [r for r in terminalreporter.stats.get("skipped", ()) if "test_a_worker_runs_under_the_oldest_python" in r.nodeid]
    if old:
        terminalreporter.write_line(
            "NOT RUN: a worker under Python 3.8 (`make test` sets it up where there is such an interpreter)", red=True
        )
