"""Ends of paralign itself: no worker outlives it, nor what a worker has started, and no child of a side is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PLAIN = """
import numpy as np
def build_model():
    return lambda x: np.tanh(x)
"""

#: builds its model for ever, and has started a child
BUSY = """
import itertools, os, subprocess
def build_model():
    child = subprocess.Popen(["sleep", "300"])
    with open("started.tmp", "w") as file:
        file.write("%d %d" % (os.getpid(), child.pid))
    os.rename("started.tmp", "started")
    {forever}
"""

SETTINGS = """
timeout = 200
stages = ["forward"]
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "candidate.py"
framework = "numpy"
[inputs]
shape = [3, 6]
"""

#: seconds after which nothing may be left
LIMIT = 3.0


@pytest.fixture
def project(tmp_path):
    """Writes a project of two numpy sides."""

    def write(candidate, reference=PLAIN, folder="project"):
        path = tmp_path / folder
        path.mkdir()
        for name, text in (("reference.py", reference), ("candidate.py", candidate), ("paralign.toml", SETTINGS)):
            (path / name).write_text(text)
        return path

    return write


def heeds_signals():
    """In the child: what a job in the background or under nohup ignores is heeded again."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(folder):
    command = [sys.executable, "-m", "paralign", "check", str(folder), "--fresh"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_signals)  # noqa: PLW1509 - no threads here


def wait_for(path, seconds=30.0):
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


def running(pid):
    stat = Path("/proc") / str(pid) / "stat"
    try:
        return ") Z " not in stat.read_text()
    except OSError:
        return False


def workers_of(folder):
    """Processes whose command line names a folder: both workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and running(entry.name):
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command and b"__main__.py" in command:
                found.append(int(entry.name))
    return found


def all_gone(folder, pids):
    """Seconds until neither the workers nor the processes are left; None where some still are after the limit."""
    began = time.monotonic()
    while time.monotonic() < began + LIMIT:
        if not workers_of(folder) and not any(running(pid) for pid in pids):
            return time.monotonic() - began
        time.sleep(0.05)
    return None


@pytest.mark.parametrize(
    ("number", "forever"),
    [
        (signal.SIGKILL, "while True: pass"),
        (signal.SIGKILL, "sum(itertools.repeat(0))"),  # never lets another thread run
        (signal.SIGTERM, "sum(itertools.repeat(0))"),
        (signal.SIGHUP, "while True: pass"),
        (signal.SIGINT, "sum(itertools.repeat(0))"),
    ],
)
def test_a_busy_worker_and_its_child_end_with_paralign(project, number, forever):
    folder = project(BUSY.format(forever=forever))
    process = start(folder)
    wait_for(folder / "started")
    pids = [int(p) for p in (folder / "started").read_text().split()]
    assert all(running(pid) for pid in pids)
    began = time.monotonic()
    process.send_signal(number)
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert time.monotonic() - began < 2.0
    assert all_gone(folder, pids) is not None, (workers_of(folder), [pid for pid in pids if running(pid)])
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert "Traceback" not in output + errors


@pytest.mark.parametrize("leave", ["os.setsid()", "pass"])
def test_a_child_that_keeps_the_pipes_open_is_not_waited_for(project, leave):
    folder = project(
        PLAIN + f"\nimport os, time\npid = os.fork()\nif pid == 0:\n    {leave}\n    time.sleep(40)\n    os._exit(0)\n"
        "open('child', 'w').write(str(pid))\n"
    )
    began = time.monotonic()
    done = start(folder)
    output, errors = done.communicate(timeout=30)
    try:
        assert time.monotonic() - began < 20
        assert done.returncode == 0, output + errors
    finally:
        for pid in [int((folder / "child").read_text())]:
            if running(pid):
                os.kill(pid, signal.SIGKILL)
