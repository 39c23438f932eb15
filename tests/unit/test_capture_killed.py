"""A writer that is killed at any moment leaves a capture that opens, says so, and whose records can all be read."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import paralign
from paralign.capture import Capture, discard

WRITER = """
import sys
import numpy as np
from paralign.capture import CaptureWriter
from paralign.model import Manifest
with CaptureWriter(sys.argv[1], Manifest(stage="forward"), shard_bytes=4096) as writer:
    print("started", flush=True)
    for number in range(10**7):
        writer.add("layer", np.full(number % 700, number, np.float64), role="output", step=number)
        writer.add("note", str(number), role="sample")
"""


def killed(path, delay):
    """Run the writer and kill it so many seconds after it made its capture."""
    environment = {**os.environ, "PYTHONPATH": str(Path(paralign.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"started\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("attempt", range(8))
def test_a_killed_writer_leaves_a_readable_prefix(tmp_path, attempt):
    path = tmp_path / "c"
    killed(path, random.Random(attempt).uniform(0.0, 0.25) if attempt else 0.0)
    capture = Capture.open(path)
    assert not capture.complete
    assert [r.id for r in capture.records] == list(range(len(capture.records)))
    for record in capture.records:
        if record.role == "sample":
            assert record.text == str(record.id // 2)
        else:
            np.testing.assert_array_equal(capture.array(record), np.full(record.step % 700, record.step))
    assert attempt == 0 or len(capture.records) > 100
    discard(path)
    assert not path.exists()
