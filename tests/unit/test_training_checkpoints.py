"""``latest`` and ``model_N``: which is taken; and trainings that go on from them as uninterrupted ones, or do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage
from paralign.run.trainings import Trainings
from paralign.trainlog import Checkpoints, TrainLog

draw = np.random  # the global generator is what a check seeds
EPOCHS, BATCHES = 4, 4


KEPT = {}


def write(folder, epoch, parts=(".pdparams", ".pdopt")):
    kept = KEPT.setdefault(folder, Checkpoints(str(folder)))
    kept.write(epoch, lambda stem: [Path(stem + part).write_text(f"{part} of {epoch}") for part in parts])


def taken(folder):
    found = Checkpoints(str(folder)).taken()
    return (Path(found.stem).name, found.epoch, found.passed)


def test_latest_is_taken_and_files_bear_the_guides_names(tmp_path):
    write(tmp_path, 0)
    write(tmp_path, 1)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"model_0.pdparams", "model_0.pdopt", "model_1.pdparams", "model_1.pdopt", "latest.pdparams", "latest.pdopt"} < names
    assert not any(name.endswith(".writing") for name in names)
    assert (tmp_path / "latest.pdopt").read_text() == ".pdopt of 1"
    assert taken(tmp_path) == ("latest", 1, [])
    seen = []
    assert Checkpoints(str(tmp_path)).resume(seen.append) == 2
    assert seen == [str(tmp_path / "latest")]


def test_a_checkpoint_of_two_epochs_is_passed_over_and_said(tmp_path):
    write(tmp_path, 0)
    write(tmp_path, 1)
    (tmp_path / "latest.pdparams").write_text(".pdparams of 0")  # killed between two files
    assert taken(tmp_path) == ("model_1", 1, ["latest: latest.pdparams is not the file that was written with it"])
    (tmp_path / "model_1.pdopt").unlink()
    name, epoch, passed = taken(tmp_path)
    assert (name, epoch) == ("model_0", 0)
    assert "model_1: .pdopt is missing" in passed


def test_a_newer_model_is_taken_before_an_older_latest(tmp_path):
    write(tmp_path, 0)
    held = {path.name: path.read_bytes() for path in tmp_path.glob("latest*")}
    write(tmp_path, 1)
    for name, content in held.items():
        (tmp_path / name).write_bytes(content)
    assert taken(tmp_path) == ("model_1", 1, [])


@pytest.mark.parametrize("note", ["", "{", "[1]", '{"epoch": "x", "files": {}}', '{"epoch": 1, "files": 3}', "[" * 100_000])
def test_a_damaged_note_is_said(tmp_path, note):
    write(tmp_path, 0)
    (tmp_path / "latest.json").write_text(note)
    assert taken(tmp_path) == ("model_0", 0, ["latest: latest.json cannot be read"])


def test_folders_of_other_programs_are_read_by_their_names(tmp_path):
    for name in (
        "model_2.pdparams",
        "model_2.pdopt",
        "model_10.pdparams",
        "model_10.pdopt",
        "model_11.pdparams",
        "latest.pdparams",
        "x.pdopt",
    ):
        (tmp_path / name).write_text("x")
    name, epoch, passed = taken(tmp_path)
    assert (name, epoch) == ("model_10", 10), "as number, not as text"
    assert passed == ["latest: .pdopt is missing", "model_11: .pdopt is missing"]
    (tmp_path / "latest.pdopt").write_text("x")
    assert taken(tmp_path)[:2] == ("latest", None)
    with pytest.raises(UsageError, match="nothing tells which epoch follows"):
        Checkpoints(str(tmp_path)).resume(lambda _: None)
    assert Checkpoints(str(tmp_path)).resume(lambda _: 7) == 7


def test_nothing_to_resume_and_nothing_written_are_errors_and_other_ranks_write_nothing(tmp_path):
    with pytest.raises(UsageError, match="no complete checkpoint"):
        TrainLog(None, rank=0, folder=str(tmp_path), resume=True).resume(lambda _: None)
    assert TrainLog(None, rank=0, folder=str(tmp_path)).resume(lambda _: None) == 0
    with pytest.raises(UsageError, match=r"save\(\) wrote no file"):
        TrainLog(None, rank=0, folder=str(tmp_path)).checkpoint(0, lambda _: None)
    TrainLog(None, rank=1, folder=str(tmp_path / "other")).checkpoint(0, lambda stem: Path(stem).write_text("x"))
    assert not (tmp_path / "other").exists()


def test_a_log_writes_and_resumes(tmp_path):
    for first in (0, 2):
        with TrainLog(str(tmp_path / "train.log"), rank=0, show=False, folder=str(tmp_path), resume=bool(first)) as log:
            assert log.resume(lambda stem: json.loads(Path(stem + ".state").read_text())) == first
            log.checkpoint(1, lambda stem: Path(stem + ".state").write_text("{}"))


# -- the stage ---------------------------------------------------------------------------------------------------------------------------


class Net:
    def __init__(self):
        self.parameters = {"weight": draw.normal(0, 0.5, (6, 1)).astype("float32")}

    def __call__(self, x):
        return x @ self.parameters["weight"]


def loader():
    own = np.random.RandomState(5)
    x = own.normal(size=(64, 6)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    order = draw.permutation(64)
    return [(x[order[i : i + 16]], y[order[i : i + 16]]) for i in range(0, 64, 16)]


def training(keep=("weight", "velocity", "number"), back=None, ahead=0, resumes=True, saves=True):
    def train(log):
        model = log.model(Net())
        state = {"velocity": np.zeros((6, 1), "float32"), "number": np.zeros(1)}
        weight = model.parameters["weight"]

        def save(stem):
            np.savez(stem + ".npz", **{n: v for n, v in {**state, "weight": weight}.items() if n in keep})

        def load(stem):
            with np.load(stem + ".npz") as kept:
                for name in kept if back is None else back:
                    np.copyto(weight if name == "weight" else state[name], kept[name])

        first = (log.resume(load) + ahead * log.resuming) if resumes else 0
        for epoch in range(first, EPOCHS):
            for _, (x, y) in log.batches(loader(), epoch):
                error = model(x) - y
                state["number"] += 1
                state["velocity"][:] = 0.9 * state["velocity"] + x.T @ (2 * error / len(x))
                rate = np.float32(0.02 * 0.9 ** float(state["number"][0]))
                weight -= rate * state["velocity"]
                log.step(samples=len(x), loss=(error**2).mean())
            if saves:
                log.checkpoint(epoch, save)

    return Side(framework="numpy", functions={"build_model": Net, "train": train})


def checked(reference, candidate, **keys):
    return check(reference, candidate, stages=["train"], training=Trainings(**{"runs": 0, "cross": "never", **keys}))["train"]


def resumed(result):
    return [p for p in result.pairs if p.key.startswith("resumed training")]


def test_right_checkpoints_are_aligned_and_said():
    result = checked(training(), training())
    assert result.verdict == ALIGNED
    assert [p.verdict for p in resumed(result)] == [ALIGNED, ALIGNED]
    assert resumed(result)[0].notes == [f"interrupted after {BATCHES} steps, {BATCHES * (EPOCHS - 1)} steps follow"]


FAULTS = {
    "velocity not saved": ({"keep": ("weight", "number")}, 5),
    "velocity not loaded": ({"back": ("weight", "number")}, 5),
    "schedule not loaded": ({"back": ("weight", "velocity")}, 5),
    "weights not saved": ({"keep": ("velocity", "number")}, 4),
    "the epoch after the next": ({"ahead": 1}, 4),
    "the same epoch again": ({"ahead": -1}, 4),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_checkpoint_forgets_is_found_at_its_step(name):
    changed, step = FAULTS[name]
    result = checked(training(), training(**changed))
    assert result.verdict == DIVERGED
    pairs = resumed(result)
    assert [p.verdict for p in pairs] == [ALIGNED, DIVERGED]
    assert pairs[1].notes[0].startswith(f"interrupted after {BATCHES} steps, loss parts at step {step} ")
    assert "uninterrupted" in pairs[1].notes[0]
    assert [p.key for p in result.pairs if p.judged and p.verdict == DIVERGED] == ["resumed training of the candidate"]


def test_a_port_of_a_program_that_cannot_resume_need_not():
    wrong = training(keep=("weight",))
    result = checked(wrong, wrong)
    assert result.verdict == ALIGNED
    assert [p.judged for p in resumed(result)] == [False, False]
    assert any("does not go on from its checkpoint" in told for told in result.warnings)


def test_a_checkpoint_that_cannot_be_loaded_diverges():
    pairs = resumed(checked(training(), training(back=("weight", "nothing"))))
    assert pairs[1].verdict == DIVERGED
    assert pairs[1].notes[0].startswith("it cannot be saved and resumed: KeyError")


def test_what_was_not_looked_at_is_said():
    def told(candidate, **keys):
        result = checked(training(), candidate, **keys)
        return [p.key for p in resumed(result)], " ".join(result.notes)

    assert "writes no checkpoints" in told(training(saves=False))[1]
    keys, notes = told(training(resumes=False))
    assert keys == ["resumed training of the reference"]
    assert "does not begin with log.resume(load)" in notes
    assert "no checkpoint within the steps" in told(training(), exact_steps=3)[1]
    result = checked(training(), training(), exact_steps=5)
    assert [(p.verdict, p.judged) for p in resumed(result)] == [(UNDERPOWERED, False)] * 2
    assert Coverage("resumed trainings", 0, 2) in result.coverage
    assert "candidate: interrupted after 4 steps: fewer than 2 steps follow that can be compared" in result.notes
    assert "was not looked at: train(log) writes no checkpoints" in " ".join(checked(training(saves=False), training(saves=False)).notes)


def test_a_new_training_in_an_old_folder_does_not_go_on_from_the_old_one(tmp_path):
    def training(epochs):
        kept = Checkpoints(str(tmp_path))
        for epoch in epochs:
            kept.write(epoch, lambda stem, e=epoch: Path(stem + ".pth").write_text(f"weights of {e}"))
        return kept

    training(range(5))
    training(range(2))
    name, epoch, passed = taken(tmp_path)
    assert (name, epoch) == ("latest", 1)
    assert "model_4: of another training than `latest`" in passed


def test_a_resumed_training_is_the_same_training(tmp_path):
    write(tmp_path, 0)
    again = Checkpoints(str(tmp_path))
    seen = []
    assert again.resume(seen.append) == 1
    held = {path.name: path.read_bytes() for path in tmp_path.glob("latest*")}
    again.write(1, lambda stem: [Path(stem + part).write_text("1") for part in (".pdparams", ".pdopt")])
    for name, content in held.items():  # killed before `latest` was written
        (tmp_path / name).write_bytes(content)
    assert taken(tmp_path) == ("model_1", 1, [])


def test_a_kill_before_the_first_note_of_latest_leaves_the_model_to_go_on_from(tmp_path):
    write(tmp_path, 0)
    (tmp_path / "latest.json").unlink()
    assert taken(tmp_path)[:2] == ("model_0", 0)


def test_a_file_of_another_name_is_refused_before_anything_is_written(tmp_path):
    def save(stem):
        Path(stem + ".pth").write_text("weights")
        Path(stem).with_name("config.json").write_text("{}")

    with pytest.raises(UsageError, match=r"save\(\) wrote config.json, whose name does not begin with model_0"):
        Checkpoints(str(tmp_path)).write(0, save)
    assert not (tmp_path / "model_0.pth").exists()
