"""Workers and commands that tests fork from a process with imports (``tests/nursery.py``) are like those that are started."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from paralign.capture import Capture
from paralign.errors import WorkerFailed
from paralign.run import process
from paralign.run.launching import launch
from paralign.run.process import Process
from paralign.run.project import SideSettings
from paralign.run.recorder import interpreter
from paralign.worker.protocol import Job

#: tells of its process, in a file
SIDE = """
import json, os, sys

def build_model():
    main = sys.modules["__main__"]
    open("told.json", "w").write(json.dumps({
        "main": [main.__name__, main.__file__, main.__spec__ is None], "folder": os.getcwd(), "leads": os.getpgrp() == os.getpid(),
        "path": sys.path, "variables": sorted(os.environ.items()), "reads": sys.stdin.read(), "argv": len(sys.argv),
        "files": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }))
    print("said")
    BODY
"""


class Runs:
    """Runs one side in a worker of its own."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count()

    def __call__(self, body="return len", **env):
        (self.folder / "side.py").write_text(SIDE.replace("BODY", body))
        settings = SideSettings(self.folder / "side.py", self.folder, "numpy", env=env)
        worker = Process("reference", settings, self.folder, self.folder, seed=1, timeout=60.0, ignore=[])
        try:
            worker.request(Job("weights", str(self.folder / f"capture{next(self.numbers)}")))
        finally:
            worker.close()
        return type(worker._process).__name__, json.loads((self.folder / "told.json").read_text())


@pytest.fixture(scope="module")
def nurseries(nursery):
    for framework in ("torch", "paddle"):  # importing them sets variables, with which a nursery has to start
        with suppress(ImportError):
            importlib.import_module(framework)
    with tempfile.TemporaryDirectory(prefix="nurseries-") as folder:
        found = nursery.Nurseries(Path(folder))
        yield found
        found.close()


@pytest.fixture
def runs(tmp_path, monkeypatch, nursery, nurseries):
    monkeypatch.setattr(process, "launch", nursery.Asking(nurseries.place, launch))
    return Runs(tmp_path)


def test_a_forked_worker_has_all_that_a_started_one_has(runs, monkeypatch):
    kind, forked = runs()
    monkeypatch.setattr(process, "launch", launch)
    other_kind, started = runs()
    assert (kind, other_kind) == ("Forked", "Popen")
    assert forked == started


def test_a_forked_worker_depends_on_the_files_that_a_started_one_depends_on(runs, monkeypatch, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 1\n")
    (tmp_path / "read.txt").write_text("1")
    files = []
    for number in range(2):
        runs('import beside; open("read.txt").read(); return len')
        found = Capture.open(tmp_path / f"capture{number}").manifest.files
        files.append({path: told for path, told in found.items() if not Path(path).name.startswith(("capture", "reference-"))})  # its own
        monkeypatch.setattr(process, "launch", launch)
    assert files[0] == files[1]
    assert {"side.py", "beside.py", "read.txt"} <= {Path(path).name for path in files[0]}


def test_variables_that_imports_may_read_have_a_worker_started(runs, monkeypatch):
    assert runs(OMP_NUM_THREADS="2")[0] == "Popen"
    monkeypatch.setenv("LC_ALL", "C")
    assert runs()[0] == "Popen"


@pytest.mark.parametrize(
    ("body", "failure"), [("os._exit(3)", "exited"), ("os.abort()", "crashed"), ("os.kill(os.getpid(), 9)", "killed"), ("sys.exit()", "SystemExit")]
)  # fmt: skip
def test_the_end_of_a_forked_worker_is_told(runs, body, failure):
    with pytest.raises(WorkerFailed) as failed:
        runs(body)
    assert failed.value.type == failure


def test_a_forked_command_is_like_a_started_one(nurseries, tmp_path):
    forked = nurseries.run(["check", "nowhere"], tmp_path, 60)
    nurseries.asleep = True
    started = nurseries.run(["check", "nowhere"], tmp_path, 60)
    nurseries.asleep = False
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.returncode == 2
    assert "nowhere" in forked.stderr


def test_an_interpreter_is_asked_once_what_is_installed_and_told_as_it_tells_itself(nursery, monkeypatch, tmp_path):
    asked = []

    def ask(python, env):
        asked.append(python)
        return interpreter(python, env)

    monkeypatch.setenv("PARALIGN_SAID", "first")
    places = [tmp_path]
    answered = nursery.Answered(lambda: places[0], ask)
    settings = SideSettings(tmp_path / "side.py", tmp_path, python=sys.executable)
    answered(sys.executable, process.environment(settings))
    monkeypatch.setenv("PARALIGN_SAID", "second")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    env = process.environment(settings)
    assert answered(sys.executable, env) == interpreter(sys.executable, env)
    assert asked == [sys.executable]
    for more in ({"PYTHONPATH": str(tmp_path)}, {"ANY_OTHER": "1"}):
        assert answered(sys.executable, env | more) == interpreter(sys.executable, env | more)
    places[0] = None
    answered(sys.executable, env)
    assert answered(str(tmp_path / "nowhere"), env).installed == {}
    assert asked == [*[sys.executable] * 4, str(tmp_path / "nowhere")]


def test_a_package_laid_aside_is_imported_once_and_not_there_before(nursery, tmp_path, monkeypatch):
    (tmp_path / "around" / "aside").mkdir(parents=True)
    (tmp_path / "around" / "__init__.py").write_text("runs = []\n")
    (tmp_path / "around" / "aside" / "__init__.py").write_text(
        "import around\nfrom around.aside import inner\naround.runs.append(inner.VALUE)\n"
    )
    (tmp_path / "around" / "aside" / "inner.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [nursery.Aside("around.aside"), *sys.meta_path])
    around = sys.modules["around"]
    assert not [name for name in sys.modules if name.startswith("around.")]
    assert not hasattr(around, "aside")

    inner = importlib.import_module("around.aside.inner")
    assert inner.VALUE == 3
    assert around.aside is sys.modules["around.aside"]
    assert around.aside.inner is inner is sys.modules["around.aside.inner"]
    assert around.runs == [3]
    assert around.aside.__spec__.origin == around.aside.__file__
    assert not [finder for finder in sys.meta_path if isinstance(finder, nursery.Aside)]
    for name in [each for each in sys.modules if each == "around" or each.startswith("around.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def programs(nurseries):
    """``subprocess.run`` as tests of programs have it, and the commands that it started."""
    commands, run = [], subprocess.run
    return nurseries.running(lambda command, **options: commands.append(command) or run(command, **options)), commands


#: tells of its process on standard output, and ends with a number
PROGRAM = """
import os, sys
import {framework}
import beside

class Own:
    pass

print(__name__, __file__, os.path.basename(sys.argv[0]), sys.argv[1:], sys.path[0], os.getcwd(), beside.VALUE, Own.__module__, sys.stdin.read())
print("torch._dynamo" in sys.modules, "paddle" in sys.modules, "paralign" in sys.modules, sys.modules["__main__"].Own is Own)
print("said", file=sys.stderr)
import atexit
atexit.register(print, "at the end")
sys.exit(3)
"""


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_a_forked_program_is_like_a_started_one(programs, tmp_path, framework):
    pytest.importorskip(framework)
    run, commands = programs
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    (tmp_path / "program.py").write_text(PROGRAM.format(framework=framework))
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    for command in ([sys.executable, "program.py", "--one", "2"], [sys.executable, tmp_path / "program.py"]):
        forked = run(command, **options)
        started = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **options)
        assert (forked.args, forked.returncode, forked.stdout) == (started.args, 3, started.stdout)
        assert forked.stdout.endswith("at the end\n")
        assert forked.stderr == "said\n", "what the import of a framework warns of is not told again"
    assert run([sys.executable, "-c", f"import {framework}, sys; print(sys.argv, sys.path[0])", "a"], **options).stdout == "['-c', 'a'] \n"
    with pytest.raises(subprocess.CalledProcessError):
        run([sys.executable, "program.py"], **{**options, "check": True})
    assert not commands


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["-B", "program.py"], {}),
        (["-m", "program"], {}),
        (["plain.py"], {}),
        (["-c", "print('torch')"], {}),
        (["program.py"], {"env": {}}),
        (["program.py"], {"input": ""}),
    ],
)
def test_what_a_nursery_cannot_run_alike_is_started(programs, tmp_path, words, more):
    run, commands = programs
    (tmp_path / "program.py").write_text("try:\n    import torch\nfinally:\n    raise SystemExit(0)\n")
    (tmp_path / "plain.py").write_text("print('import torch')\n")
    assert run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False, **more).returncode == 0
    assert len(commands) == 1


@pytest.mark.torch
def test_the_error_of_a_forked_program_is_told_with_its_line(programs, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text("import torch\n\n\ndef fail():\n    raise ValueError(torch.ones(2).tolist())\n\n\nfail()\n")
    done = programs[0]([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'program.py", line 5, in fail\n    raise ValueError' in done.stderr
    assert done.stderr.endswith("ValueError: [1.0, 1.0]\n")


def test_what_frameworks_set_when_they_are_imported_keeps_no_program_from_being_forked(nurseries, nursery, monkeypatch):
    assert nurseries._serves()
    for name in ("CUSTOM_DEVICE_ROOT", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, "elsewhere")
    assert nurseries._serves()
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    assert not nurseries._serves()
