"""Programs of PyTorch and what the converter makes of them, run and held against each other."""

from __future__ import annotations

import subprocess
import sys

from paralign.port.drafts.converted import convert_code


def run(path):
    """A program's run, whatever its end."""
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)


def printed(folder, name):
    """The lines that a program of a folder prints; it must not fail."""
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def check_that_it_prints_the_same(folder, source):
    """Nothing is left by hand, both end well, and both print the same."""
    (folder / "in.py").write_text(source, encoding="utf-8")
    assert not convert_code(folder / "in.py", folder / "out.py").left
    original, port = run(folder / "in.py"), run(folder / "out.py")
    assert (original.returncode, port.returncode) == (0, 0), port.stderr
    assert original.stdout == port.stdout


def check_that_it_is_right_or_refused(folder, source, *, asking, always):
    """A line ``name asks …`` for each function is the original's.

    It is ``name asks refused`` for the functions ``always``, and for ``asking`` where a gradient is asked for.
    """
    (folder / "source.py").write_text(source, encoding="utf-8")
    assert not convert_code(folder / "source.py", folder / "port.py").left
    expected = []
    for line in printed(folder, "source.py"):
        name, asks, _ = line.split(" ", 2)
        refused = name in always or (name in asking and asks == "True")
        expected.append(f"{name} {asks} refused" if refused else line)
    assert printed(folder, "port.py") == expected
