"""Parts of training programs, converted and executed on both sides: equal numbers, or an explanation that raises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

#: file -> functions with equal numbers, told under a condition, left by hand, refused when run, raising otherwise
EXPECTED = {
    "schedules": (35, 0, 0, 4, 0),
    "groups": (11, 0, 1, 5, 2),
    "loaders": (25, 0, 1, 0, 0),
    "functions": (12, 0, 0, 0, 0),
    "states": (8, 1, 0, 0, 0),
    "images": (21, 0, 2, 3, 1),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_functions_of_training_programs_give_equal_numbers(name):
    command = [sys.executable, str(ROOT / "benchmarks/convert_training.py"), "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *counts, wrong = (int(cell) for cell in done.stdout.strip().splitlines()[-1].split("|")[2:-1])
    assert wrong == 0
    assert tuple(counts) == EXPECTED[name], done.stdout
