"""One output folder and several checks, checks that are cut short, and full disks: no verdict of another check, or of half a one."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.errors import UsageError, WriteFailed
from paralign.run.locking import LOCK, locked

MODEL = """
import numpy as np, os, time
def build_model():
    {wait}
    return lambda x: np.tanh(x) * {factor}
"""

#: waits until a file is there
WAITING = "open('ready', 'w').close()\n    while not os.path.exists('go'): time.sleep(0.02)"

SETTINGS = """
timeout = 100
stages = ["forward"]
[reference]
framework = "numpy"
[candidate]
framework = "numpy"
[inputs]
shape = [3, 6]
"""


class Project:
    """Two numpy sides, of which the candidate can be changed."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        (folder / "paralign.toml").write_text(SETTINGS)
        (folder / "reference.py").write_text(MODEL.format(wait="pass", factor=1))
        self.candidate()

    def candidate(self, factor=1, wait="pass"):
        (self.folder / "candidate.py").write_text(MODEL.format(wait=wait, factor=factor))

    def start(self, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "paralign", "check", str(self.folder)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip

    def run(self, **options):
        process = self.start(**options)
        out, err = process.communicate(timeout=100)
        return process.returncode, out, err

    def await_file(self, name):
        until = time.monotonic() + 30
        while not (self.folder / name).exists():
            assert time.monotonic() < until, f"{name} did not appear"
            time.sleep(0.02)

    @property
    def report(self):
        return self.folder / "result" / "report.json"

    def said(self):
        """What the report says, without what differs from run to run."""
        found = json.loads(self.report.read_text(encoding="utf-8"))
        for stage in found["stages"]:
            stage.pop("seconds", None)
            stage.pop("peak_bytes", None)
        found["preflight"] = [line for line in found["preflight"] if "reused" not in line]
        return found


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def test_a_second_check_says_who_holds_the_folder_and_leaves_the_first_alone(project):
    project.candidate(factor=2, wait=WAITING)
    first = project.start()
    project.await_file("ready")
    project.candidate()
    code, out, err = project.run()
    assert (code, out) == (2, "")
    assert f"the output folder is in use by another check: process {first.pid} on " in err
    assert len(err.splitlines()) == 3
    (project.folder / "go").touch()
    out, err = first.communicate(timeout=100)
    assert first.returncode == 1, out + err
    assert project.said()["verdict"] == "diverged"
    assert not [p.name for p in (project.folder / "result" / "workers").iterdir() if p.suffix == ".json"]


def test_the_lock_of_a_killed_check_is_taken_over_and_its_results_are_not(project):
    """A check that was aligned, a wrong candidate whose check is killed, then a right one: nothing of one is told of the other."""
    assert project.run()[0] == 0
    right = project.said()
    project.candidate(factor=2, wait=WAITING)
    killed = project.start()
    project.await_file("ready")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not project.report.exists()
    assert not list((project.folder / "result" / "log").iterdir())
    assert json.loads((project.folder / "result" / LOCK).read_bytes())["pid"] == killed.pid
    project.candidate()
    code, out, err = project.run()
    assert code == 0, out + err
    assert project.said() == right


def test_threads_of_one_process_do_not_share_a_folder(tmp_path):
    raised = []

    def other():
        try:
            check(Side(framework="numpy", model=np.tanh), Side(framework="numpy", model=np.tanh), inputs=np.ones(8), out=tmp_path)
        except UsageError as error:
            raised.append(str(error))

    with locked(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert f"in use by another check: process {os.getpid()}" in raised[0]
    other()
    assert len(raised) == 1
    assert (tmp_path / "report.json").exists()


def holding(path, mode, lock):
    """A process that holds a lock until its input ends."""
    code = f"import fcntl, sys; f = open({str(path)!r}, {mode!r}); {lock}; print(1, flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


@pytest.mark.parametrize("note", [b"", b"\xff\x00{", b'{"pid": {"a": "\\u001b[2J"}, "host": [], "since": null}', b"[" * 4096])
def test_what_the_lock_says_is_not_believed(tmp_path, note):
    (tmp_path / LOCK).write_bytes(note)
    holder = holding(tmp_path / LOCK, "r+b", "fcntl.lockf(f, fcntl.LOCK_EX)")
    with pytest.raises(UsageError, match="in use by another check") as caught, locked(tmp_path):
        pass
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    holder.communicate()
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_bytes())["pid"] == os.getpid()


def test_a_worker_that_outlives_its_check_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("paralign.run.locking.LEAVING", 0.3)
    (tmp_path / LOCK).touch()
    worker = holding(tmp_path / LOCK, "rb", "fcntl.flock(f, fcntl.LOCK_SH)")
    with pytest.raises(UsageError, match="a worker of a process that has left no name, which has not ended with it"), locked(tmp_path):
        pass
    monkeypatch.setattr("paralign.run.locking.LEAVING", 30.0)
    threading.Timer(0.2, worker.stdin.close).start()
    with locked(tmp_path):
        assert worker.wait() == 0
    worker.stdout.close()


def test_limits_of_file_sizes_are_one_message_and_leave_nothing_that_is_taken_for_whole(project):
    """Whether it ends at the lock, in a capture, or in the report of a check whose side could not write its own."""
    assert project.run()[0] == 0
    clean = project.said()
    for limit in (0, 2000):
        code, out, err = project.run(preexec_fn=lambda most=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
        assert (code, out) == (3, ""), (limit, out, err)
        lines = [line for line in err.splitlines() if not line.startswith("paralign: ") or not line.endswith("…")]
        assert "cannot be written: File too large" in lines[0]
        assert lines[1].startswith(f"  where: {project.folder}")
        assert len(lines) == 3, err
        assert not project.report.exists() or json.loads(project.report.read_text())["verdict"] == "error"
        assert not list(project.folder.rglob("*.tmp"))
    code, out, err = project.run()
    assert code == 0, out + err
    assert project.said() == clean


def test_standard_output_on_a_full_disk_is_one_message(tmp_path):
    np.save(tmp_path / "a.npy", np.array({"a": np.ones(3)}, dtype=object))
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "paralign", "compare", "a.npy", "a.npy"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "paralign: the file cannot be written: No space left on device")
    assert "Traceback" not in done.stderr


def test_an_output_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(WriteFailed, match="cannot be written: Permission denied"), locked(tmp_path):
        pass
