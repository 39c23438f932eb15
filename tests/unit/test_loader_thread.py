"""A loader whose reading thread has failed: who waits for it is ended, and it is not watched any longer than it lives."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

#: a loader as Paddle's: a thread reads ahead, and the program waits for what it has read
PROGRAM = """
import gc, sys, threading, time
from paralign.worker.process import loader_thread

loader_thread.PAUSE = 0.05
loader_thread.watch()
source = '''
class Loader:
    def _thread_loop(self):
        raise ValueError("sample 3")
    def __next__(self):
        time.sleep(20)
'''
exec(compile(source, "/lib/" + loader_thread.FILE, "exec"))
loader = Loader()
reading = threading.Thread(target=loader._thread_loop)
reading.start()
reading.join()
del reading
"""


def run(text):
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(text)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_who_waits_for_the_loader_is_ended_with_the_error():
    done = run("loader.__next__()")
    assert done.returncode == 1
    assert "the data loader cannot go on: ValueError: sample 3" in done.stderr


@pytest.mark.parametrize(("kept", "threads"), [("del loader", 1), ("", 2)], ids=["gone", "held"])
def test_a_loader_is_watched_as_long_as_it_lives(kept, threads):
    done = run(f"{kept}\ngc.collect()\ntime.sleep(1)\nprint(threading.active_count())")
    assert (done.returncode, done.stdout.split()) == (0, [str(threads)]), done.stderr
