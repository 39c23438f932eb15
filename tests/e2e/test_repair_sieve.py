"""A quick look at edits: what can mend a stage passes, what changes none of its wrong values does not."""

from __future__ import annotations

import pytest

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
