"""Where the time of a check goes: said in numbers that add up, on each side, in a table and in the report."""

import json
import subprocess
import sys
import threading
import time

import pytest

from paralign.cli import main
from paralign.context import Context
from paralign.model import SideTime
from paralign.run import profiling
from paralign.run.profiling import ELSE, LOCATION, PARTS, PASSES, START, Watch, part_of
from paralign.run.recorder import note_job
from paralign.worker.process import files

PROJECT = '[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n[inputs]\nshape = [2, 3]\n'
SIDE = "import time\n\ndef build_model():\n    def model(x):\n        time.sleep(0.15)\n        return x * {factor}\n    return model\n"


@pytest.fixture
def port(tmp_path):
    (tmp_path / "paralign.toml").write_text(PROJECT)
    (tmp_path / "reference.py").write_text(SIDE.format(factor=2))
    (tmp_path / "candidate.py").write_text(SIDE.format(factor=3))
    return tmp_path


def test_a_check_says_where_its_time_went(port, capsys):
    assert main(["check", str(port), "forward", "--profile"]) == 1
    told = capsys.readouterr().out
    assert "where the time went" in told
    assert "search for places" in told
    profile = json.loads((port / "result" / "report.json").read_text())["profile"]
    parts = profile["parts"]
    assert list(parts) == list(PARTS)
    assert sum(part["seconds"] for part in parts.values()) == pytest.approx(profile["seconds"], rel=0.1)
    assert all(0 <= part["waiting"] <= part["seconds"] for part in parts.values())
    assert parts[START]["seconds"] > 0
    for side in profile["sides"].values():
        assert side["starts"] == 1
        assert side["imports"] > 0
        assert side["jobs"]["forward"]["seconds"] > 0.3  # two passes that sleep
        assert side["jobs"]["forward"]["busy"] < side["jobs"]["forward"]["seconds"]
    assert parts[PASSES]["waiting"] > 0.3
    assert profile["confirmed"] is None  # numpy sides are not watched operation by operation


MODEL = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        x = x.exp()
        return torch.relu(x - {constant}).sum(-1)

def build_model():
    return Model()
"""


@pytest.mark.torch
def test_it_says_when_the_first_line_was_confirmed(tmp_path, capsys):
    (tmp_path / "paralign.toml").write_text(PROJECT.replace("numpy", "torch"))
    (tmp_path / "reference.py").write_text(MODEL.format(constant=0.5))
    (tmp_path / "candidate.py").write_text(MODEL.format(constant=0.25))
    assert main(["check", str(tmp_path), "weights", "forward", "--profile"]) == 1
    assert "the first faulty line was confirmed after" in capsys.readouterr().out
    profile = json.loads((tmp_path / "result" / "report.json").read_text())["profile"]
    assert profile["parts"][START]["seconds"] < profile["confirmed"] < profile["seconds"]


def test_the_first_moment_counts():
    context = Context(None, None, None)  # no recorder is asked
    context.note_confirmed([])
    assert context.confirmed_at is None
    context.note_confirmed([5.0, 3.0])
    context.note_confirmed([4.0])
    context.note_confirmed([])
    assert context.confirmed_at == 3.0


def test_without_the_option_nothing_is_said(port, capsys):
    assert main(["check", str(port), "weights"]) in (0, 1, 4)
    assert "where the time went" not in capsys.readouterr().out
    assert "profile" not in json.loads((port / "result" / "report.json").read_text())


def test_reused_captures_are_counted(port):
    main(["check", str(port), "forward", "--quiet"])
    main(["check", str(port), "forward", "--quiet", "--profile"])
    sides = json.loads((port / "result" / "report.json").read_text())["profile"]["sides"]
    assert sides["reference"]["reused"] > 0
    assert "forward" not in sides["reference"]["jobs"]
    assert sides["candidate"]["reused"] == 0


def test_a_wait_belongs_to_what_waits(monkeypatch):
    """Functions are known by their file: here, a file of the laboratory that calls one that waits for a side."""
    package = profiling._PACKAGE
    scope = {}
    exec(compile("def record(act):\n    return act()\n", f"{package}run/recorder.py", "exec"), scope)
    exec(compile("def trial(act):\n    return record(act)\n", f"{package}locate/laboratory/watched.py", "exec"), scope)
    assert scope["trial"](lambda: part_of(sys._getframe())) == (LOCATION, True)
    assert scope["record"](lambda: part_of(sys._getframe())) == (PASSES, True)
    assert part_of(sys._getframe()) == (ELSE, False)


def test_the_watch_ends_with_what_it_looks_at():
    before = threading.active_count()
    with Watch():
        assert threading.active_count() == before + 1
    with pytest.raises(ZeroDivisionError), Watch():
        _ = 1 // 0
    assert threading.active_count() == before


def test_what_passes_around_a_job_is_start_or_exchange():
    spent = SideTime()
    note_job(spent, "describe", 5.0, {"seconds": 1.0, "busy_seconds": 0.5, "prepared_seconds": 3.0}, started=True)
    note_job(spent, "forward", 2.5, {"seconds": 2.0, "busy_seconds": 2.0}, started=False)
    note_job(spent, "forward", 2.0, {"seconds": 2.0, "busy_seconds": 1.0}, started=False)
    assert (spent.start, spent.imports, spent.exchange) == (1.0, 3.0, 0.5)
    assert (spent.jobs["forward"].count, spent.jobs["forward"].seconds, spent.jobs["forward"].busy) == (2, 4.0, 3.0)


def test_files_of_libraries_are_looked_up_once_and_the_users_every_time(tmp_path, monkeypatch):
    own = tmp_path / "data.txt"
    own.write_text("one")
    monkeypatch.setattr(files, "_foreign", set())
    monkeypatch.setattr(files, "_opened", {str(own), threading.__file__})
    first = files.depended_on()
    assert str(own) in first
    assert threading.__file__ not in first
    asked = []
    real = files.os.path.realpath
    monkeypatch.setattr(files.os.path, "realpath", lambda path: asked.append(path) or real(path))
    time.sleep(0.01)
    own.write_text("two, and longer")
    assert files.depended_on()[str(own)] != first[str(own)]
    assert str(own) in asked
    assert threading.__file__ not in asked


@pytest.mark.torch
def test_watching_operations_imports_no_compiler_unless_it_is_there():
    pytest.importorskip("torch")
    code = """
import sys, torch
from paralign.adapters import _torch_operations as operations
mode = operations._mode()
class Idle:
    idle = True
with mode(Idle()):
    torch.ones(3) + 1
print("torch._dynamo" in sys.modules)
import torch._dynamo
print(operations._mode() is mode, issubclass(operations._mode(), mode), operations._mode() is operations._mode())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == ["False", "False", "True", "True"]
