"""Ends of paralign while processes of a launcher compute: none is left, whatever session it is in and whoever started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import ranked

from paralign.run import marked

#: seconds after which nothing may be left
LIMIT = 4.0

#: a step that never lets another thread run, in each rank, beside a child in a session of its own
BUSY = """
def train_step(model, optimizer, batch):
    import itertools, subprocess
    if SIZE > 1:
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        with open("started-%d.tmp" % RANK, "w") as file:
            file.write(str(child.pid))
        os.rename("started-%d.tmp" % RANK, "started-%d" % RANK)
        sum(itertools.repeat(0))
"""


def mark_of(process):
    """The mark of the launch that a process belongs to."""
    given = (Path("/proc") / process / "environ").read_bytes().split(b"\0")
    return next(v.decode().partition("=")[2] for v in given if v.startswith(f"{marked.VARIABLE}=".encode()))


def wait_for(path, seconds=60.0):
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_and_their_children_end_with_paralign(tmp_path, number):
    folder = ranked.write(tmp_path, candidate=ranked.SIDE + BUSY)
    process = subprocess.Popen(
        [sys.executable, "-m", "paralign", "check", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here; a job in the background ignores it
    )
    for rank in (0, 1):
        wait_for(folder / f"started-{rank}")
    children = [(folder / f"started-{rank}").read_text() for rank in (0, 1)]
    mark = mark_of(children[0])
    until = time.monotonic() + 20
    while len(marked.bearers(mark)) < 7:  # the launcher; of each rank the watching process, the job and its child
        assert time.monotonic() < until, marked.bearers(mark)
        time.sleep(0.05)
    process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in errors
    until = time.monotonic() + LIMIT
    while marked.bearers(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert marked.bearers(mark) == []
