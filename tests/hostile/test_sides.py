"""Sides that misbehave: each is an error of that side with a report, or simply works; never a fault of paralign."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.cli import main
from paralign.errors import ForkedChild
from paralign.model import Manifest
from paralign.run.functions import project
from paralign.worker.sides.side import load

PLAIN = """
import json, os, signal
import numpy as np
weight = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
def build_model():
    return lambda x: np.tanh(x @ weight.astype(x.dtype))
def metric(outputs, labels):
    return (outputs * outputs).mean()
"""

#: writes a line into every descriptor that it has not opened
WRITE = """
def write(line):
    for number in range(3, 12):
        try:
            os.write(number, line)
        except OSError:
            pass
"""

SETTINGS = """
timeout = 8
stages = ["forward", "metric"]
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "{module}"
framework = "numpy"
[inputs]
shape = [3, 6]
[labels]
shape = [3]
dtype = "int64"
"""


def write_project(folder, candidate, module="candidate.py"):
    folder.mkdir()
    (folder / "reference.py").write_text(PLAIN)
    (folder / module).write_text(candidate)
    (folder / "paralign.toml").write_text(SETTINGS.format(module=module))
    return folder


@pytest.fixture
def restored():
    """Puts back the modules and their path."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("paralign_side") or name == "mine":
            del sys.modules[name]


def check(folder):
    """The exit code of the command, run in this process."""
    return main(["check", str(folder), "--fresh"])


def check_beside(folder):
    """The command in a process of its own, what it printed as bytes."""
    return subprocess.run([sys.executable, "-m", "paralign", "check", str(folder), "--fresh"], capture_output=True, timeout=60, check=False)


#: what the candidate does besides -> types of its failure, one of which is expected
HOSTILE = {
    "garbage on import": (WRITE + "write(b'garbage\\n')", {"foreign answer"}),
    "no text on import": (WRITE + "write(bytes([255, 254, 10]))", {"foreign answer"}),
    "a deep list": (WRITE + "write(b'[' * 100_000 + b'\\n')", {"foreign answer"}),
    "a forged answer": (
        WRITE + 'inner = metric\ndef metric(o, l):\n    write(b\'{"event": "done", "answer": {}}\\n\')\n    return inner(o, l)',
        {"foreign answer"},
    ),
    "an answer that is no dict": (WRITE + "write(b'[1]\\n')", {"foreign answer"}),
    "json replaced": ("json.dumps = lambda *a, **k: '{}'\njson.loads = lambda *a, **k: None", {"foreign answer"}),
    "only json.dumps replaced": ("json.dumps = lambda *a, **k: '{}'", {"foreign answer"}),
    "a fork that comes back from build_model": ("inner = build_model\ndef build_model():\n    os.fork()\n    return inner()", {"forked"}),
    "a fork that comes back from the model": (
        "def build_model():\n    def model(x):\n        os.fork()\n        return np.tanh(x @ weight.astype(x.dtype))\n    return model",
        {"forked"},
    ),
    "a fork that comes back from the import": ("os.fork()", {"forked"}),
    "a fork that comes back and raises": ("def build_model():\n    os.fork()\n    raise ValueError", {"forked", "ValueError"}),
    "a real-time signal": ("def metric(o, l):\n    os.kill(os.getpid(), 40)", {"killed"}),
    "a surrogate in an exception": (r'def metric(o, l):\n    raise ValueError("\ud800 \0 \x1b[2J")'.replace(r"\n", "\n"), {"ValueError"}),
    "an exception that cannot be read": (
        "class Odd(Exception):\n    def __str__(self):\n        raise OSError\ndef metric(o, l):\n    raise Odd",
        {"Odd"},
    ),
    "captures removed": (
        "import shutil\ninner = metric\ndef metric(o, l):\n    shutil.rmtree('result/captures/candidate')\n    return inner(o, l)",
        {"WriteFailed", "UsageError", "CaptureFormatError"},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_side_is_an_error_of_that_side(tmp_path, capfd, name):
    more, types = HOSTILE[name]
    folder = write_project(tmp_path / "project", PLAIN + more)
    code = check(folder)
    said = "".join(capfd.readouterr())
    assert code == 3, said
    assert "Traceback" not in said
    assert "the candidate failed" in said
    assert "\x1b" not in said
    report = json.loads((folder / "result" / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"] == "error"
    failures = [stage["failure"] for stage in report["stages"] if stage["failure"]]
    assert {f["side"] for f in failures} == {"candidate"}
    assert failures[0]["type"] in types


@pytest.mark.parametrize("module", ["types.py", "json.py", "calendar.py"])
def test_a_check_of_a_module_called_like_one_of_pythons(tmp_path, module):
    assert check(write_project(tmp_path / "project", PLAIN, module)) == 0


@pytest.mark.parametrize(
    "module", ["types.py", "json.py", "operator.py", "queue.py", "wave.py", "sys.py", "numpy.py", "numpy.random.py", "mine.py"]
)
def test_a_module_called_like_another_is_loaded_by_its_path(tmp_path, restored, module):
    (tmp_path / module).write_text("def build_model():\n    return 'mine'\n")
    assert load(str(tmp_path / module), str(tmp_path))["build_model"]() == "mine"
    import queue
    import wave

    assert hasattr(queue, "Queue")
    assert hasattr(wave, "open")


def test_a_function_of_a_module_called_like_one_of_pythons_builds_the_model(tmp_path, restored):
    (tmp_path / "types.py").write_text("def build():\n    return 'mine'\n")
    named = project([f"{tmp_path / 'types.py'}:build"] * 2, tmp_path)
    assert load(str(named.candidate.module), str(named.candidate.root))["build_model"]() == "mine"


def test_a_link_in_place_of_a_log_or_a_job_is_not_written_through(tmp_path):
    folder = write_project(tmp_path / "project", PLAIN + "print('printed', flush=True)")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "result" / "workers").mkdir(parents=True)
    for name in ("candidate.log", "candidate-job.json", "candidate-side.json", "reference.log"):
        (folder / "result" / "workers" / name).symlink_to(precious)
    assert check(folder) == 0
    assert precious.read_text() == "mine"
    assert "printed" in (folder / "result" / "workers" / "candidate.log").read_text()


@pytest.mark.parametrize("name", ["two\nlines", "-caf\u00e9 [red]\u6a21 \"b'c\\d"])
def test_any_name_of_the_projects_folder_works(tmp_path, name):
    assert check(write_project(tmp_path / name, PLAIN)) == 0


def test_a_child_that_comes_back_writes_nothing(tmp_path):
    writer = CaptureWriter(tmp_path / "capture", Manifest(side="candidate", stage="forward"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with writer:
                writer.add("x", 1.0, role="output")
        except ForkedChild:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    writer.add("y", 2.0, role="output")
    writer.close()
    assert [r.name for r in Capture.open(tmp_path / "capture").records] == ["y"]


def test_a_time_limit_ends_a_side_that_floods_its_pipe(tmp_path):
    flood = "import threading\ndef metric(o, l):\n    for n in range(3, 12):\n        threading.Thread(target=spill, args=(n,), daemon=True).start()\n    time.sleep(60)\n"
    spill = "import time\ndef spill(n):\n    while True:\n        try:\n            os.write(n, b'x' * 65536)\n        except OSError:\n            return\n"
    folder = write_project(tmp_path / "project", PLAIN + spill + flood)
    began = time.monotonic()
    assert check(folder) == 3
    assert time.monotonic() - began < 30
