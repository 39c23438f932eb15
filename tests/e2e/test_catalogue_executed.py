"""Every entry of the catalogue holds with the installed frameworks: the naive port differs as stated, the fixed one is equal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.slow]

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "catalogue.py"


def run(*arguments):
    return subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False, timeout=240)


def test_every_entry_holds():
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    done = run()
    assert done.returncode == 0, done.stdout[-3000:]
    assert "; 0 do not hold" in done.stdout


PLANTED = """
from paralign.catalogue import entries, read_all
import catalogue, dataclasses, sys
one = next(e for e in read_all() if e.id == "grid-sample-align")
torch, paddle = catalogue.Torch(), catalogue.Paddle()
wrong = dataclasses.replace(one, fix=dataclasses.replace(one.fix, set={"align_corners": "True"}))
other = dataclasses.replace(one, measured=entries.Measured(7.0, 0.0))
equal = dataclasses.replace(one, outcome=entries.Outcome.EQUAL)
print(catalogue.execute(wrong, torch, paddle).wrong)
print(catalogue.stated(catalogue.execute(other, torch, paddle)))
print(catalogue.execute(equal, torch, paddle).wrong)
print(catalogue.execute(one, torch, paddle).wrong == "")
"""


def test_an_entry_that_does_not_hold_is_seen():
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    done = subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, text=True, check=True, cwd=PROGRAM.parent)
    said = done.stdout.splitlines()
    assert said[0].startswith("the fix leaves ")
    assert said[1].startswith("the entry states 7.0, measured ")
    assert said[2].startswith("stated equal, found silent")
    assert said[3] == "True"
