"""A quick look at edits: what can mend a stage passes, what changes none of its wrong values does not."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.model import Record
from paralign.repair import sieve, trial_room
from paralign.run.project import read

CODE = """import numpy as np

LEVEL = 1.6449


def build_model():
    return Model()


class Model:
    def __init__(self):
        self.weight = np.arange(1.0, 7.0).reshape(3, 2) / 7.0

    def __call__(self, x):
        return {"out": x @ self.weight, "kind": "plain"}


def rescaled(numbers, shift=0.375):
    return numbers / np.abs(numbers).max() - shift


def metric(outputs, labels):
    return {"above": float(np.mean(np.asarray(outputs["out"]) - LEVEL)), "most": 1.0}


def predict(path):
    numbers = np.array([float(word) for word in open(path).read().split()])
    return {"score": rescaled(numbers) * LEVEL, "sorted": "upwards"}
"""

SETTINGS = """out = "result"
stages = ["metric", "infer"]

[reference]
module = "reference.py"
framework = "numpy"

[candidate]
module = "candidate.py"
framework = "numpy"

[inputs]
shape = [4, 3]

[labels]
shape = [4]

[infer]
paths = ["first.txt", "second.txt"]
"""


@pytest.fixture
def opened(tmp_path):
    """Open a room for a candidate that differs from the reference by one change."""
    rooms = []

    def open_room(right, wrong):
        assert CODE.count(right) == 1
        (tmp_path / "reference.py").write_text(CODE)
        (tmp_path / "candidate.py").write_text(CODE.replace(right, wrong))
        (tmp_path / "paralign.toml").write_text(SETTINGS)
        (tmp_path / "first.txt").write_text("3 5 8")
        (tmp_path / "second.txt").write_text("1 9 2 7")
        project = read(tmp_path)
        rooms.append(trial_room.opened(project, tmp_path / "result", 120.0, "numpy"))
        room = rooms[-1].__enter__()
        path = (tmp_path / "candidate.py").resolve()
        room.keep(path, path.read_bytes())

        def look(stage, before="", after=""):
            """What the sieve says of an edit of the candidate as it is; of the reference's code without one."""
            found = sieve.made(room, {}, stage)
            assert found is not None
            code = path.read_text()
            assert code.count(before) == 1 or not before
            return found.passes(room, {path: (code.replace(before, after) if before else CODE).encode()})

        return room, look

    yield open_room
    for room in rooms:
        room.__exit__(None, None, None)


@pytest.mark.parametrize(("right", "wrong"), [("shift=0.375", "shift=0.625"), ("1.6449", "1.2816"), ('"upwards"', '"downwards"')])
def test_the_right_edit_passes(opened, right, wrong):
    _, look = opened(right, wrong)
    assert look("infer")


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        ("arange(1.0, 7.0)", "arange(2.0, 8.0)", False),
        ("shift=0.625", "shift=0.7", False),
        ("shift=0.625", "shift=0.38", True),
        ("shift=0.625", "shift=missing", True),
        ('"score": ', '"scores": ', True),
    ],
)
def test_an_edit_passes_that_brings_a_value_nearer_or_of_which_nothing_can_be_said(opened, before, after, passes):
    _, look = opened("shift=0.375", "shift=0.625")
    assert look("infer", before, after) is passes


def test_one_stage_is_looked_at_by_itself_and_trials_are_counted(opened):
    room, look = opened("np.asarray(outputs", "2.0 * np.asarray(outputs")
    before = room.trials
    assert look("metric")
    assert not look("metric", "shift=0.375", "shift=0.5")
    assert room.trials > before


def test_there_is_no_sieve_where_nothing_differs_and_none_of_laws(opened):
    room, _ = opened("shift=0.375", "shift = 0.375")
    assert sieve.made(room, {}, "infer") is None
    assert sieve.made(room, {}, "init") is None


def test_the_users_file_is_as_it_was(opened, tmp_path):
    _, look = opened("shift=0.375", "shift=0.625")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    look("infer")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_what_the_jobs_take_is_kept_although_later_runs_write_in_the_same_place(opened, tmp_path):
    room, _ = opened("np.asarray(outputs", "2.0 * np.asarray(outputs")
    found = sieve.made(room, {}, "metric")
    path = (tmp_path / "candidate.py").resolve()
    assert found is not None
    room.run({path: path.read_text().replace("/ 7.0", "/ 9.0").encode()}, ["metric"])
    assert found.passes(room, {path: CODE.encode()})
    assert not found.passes(room, {})


def test_a_program_that_counts_its_runs_has_no_sieve_that_says_no_to_all(opened, tmp_path):
    room, _ = opened('return {"score": rescaled(numbers)', 'return {"score": rescaled(numbers, 0.375 + next(COUNT))')
    path = (tmp_path / "candidate.py").resolve()
    begun = f"import itertools, math, time\nCOUNT = itertools.count(math.exp(8 * (time.time() - {time.time()!r})))\n"  # each run far from the last
    counting = path.read_text().replace("LEVEL =", f"{begun}LEVEL =", 1)
    room.keep(path, counting.encode())
    assert sieve.made(room, {path: counting.encode()}, "infer") is None


def test_an_edit_within_what_the_noise_grants_passes():
    record = Record(0, "y", "forward", "output", "float64", (2,))
    place = sieve.Place("forward", record, np.array([1.0, 2.0]), 1.1e-5, 3e-6)
    near, far = (Held(record, np.array([1.0, 2.0]) * (1 + shift)) for shift in (2e-6, 5e-6))
    assert sieve._is_nearer(place, near)
    assert not sieve._is_nearer(place, far)


class Held:
    """A capture of one value."""

    def __init__(self, record, value):
        self.records, self._value = [dataclasses.replace(record, location=("shard", "0"))], value

    def value(self, record):
        return Typed(self._value, record.dtype)
