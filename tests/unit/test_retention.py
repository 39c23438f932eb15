"""What a check leaves on disk: values that are read later, one file for equal ones, and a reference that is reused rightly."""

from __future__ import annotations

import os

import numpy as np
import pytest

from paralign import cli
from paralign.api import check_project, compare
from paralign.capture import Capture, CaptureWriter, discard
from paralign.capture.released import release, shards_of, share, values_size
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, CheckResult, Manifest, StageResult
from paralign.run import retention

KEEPS_ALL = '[output] keep = "all"'


def recorded(path, stage="backward", *values, complete=True):
    writer = CaptureWriter(path, Manifest(stage=stage))
    for number, value in enumerate(values or (np.arange(100.0),)):
        writer.add(f"x{number}", value, role="output", digest="d")
        writer.flush()
    writer.__exit__(None if complete else KeyboardInterrupt, None, None)
    return path


def result(**verdicts):
    return CheckResult(stages=[StageResult(name, verdict) for name, verdict in verdicts.items()])


def released(path):
    return Capture.open(path).manifest.released


@pytest.fixture
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(retention, "SMALL", 0)
    monkeypatch.setattr(retention, "LEAST", 0)
    monkeypatch.setattr(retention, "TIMES", 0)


# -- one capture -------------------------------------------------------------------------------------------------------------


def test_a_released_capture_keeps_its_records_and_says_which_setting_keeps_values(tmp_path):
    path = recorded(tmp_path / "c")
    assert release(path) > 800
    assert values_size(path) == 0
    capture = Capture.open(path)
    assert [(r.name, r.digest, r.shape, r.location) for r in capture.records] == [("x0", "d", (100,), None)]
    with pytest.raises(UsageError, match="were released when its check had ended") as caught:
        capture.array(capture.records[0])
    assert KEEPS_ALL in caught.value.hint
    assert release(path) == 0
    discard(path)
    assert not path.exists()


def test_a_capture_that_was_cut_short_is_left_as_it_is(tmp_path):
    path = recorded(tmp_path / "c", complete=False)
    assert release(path) == 0
    assert Capture.open(path).array(Capture.open(path).records[0]).size == 100


def test_a_release_that_is_cut_short_leaves_a_capture_that_opens(tmp_path, monkeypatch):
    path = recorded(tmp_path / "c", "backward", np.zeros(9), np.ones(9))
    gone = shards_of(path)[1]
    delete = type(gone).unlink

    def cut_short(self, **options):
        if self == gone:
            raise KeyboardInterrupt
        delete(self, **options)

    monkeypatch.setattr(type(gone), "unlink", cut_short)
    with pytest.raises(KeyboardInterrupt):
        release(path)
    monkeypatch.undo()
    assert released(path)
    assert len(Capture.open(path).records) == 2
    assert release(path) > 0
    assert shards_of(path) == []


def test_links_and_files_of_others_are_not_deleted(tmp_path):
    path = recorded(tmp_path / "c")
    (tmp_path / "mine").write_bytes(b"x" * 50)
    (path / "shards" / "00007.safetensors").symlink_to(tmp_path / "mine")
    (path / "shards" / "notes.txt").write_text("mine")
    release(path)
    assert (tmp_path / "mine").exists()
    assert (path / "shards" / "notes.txt").exists()


def test_equal_values_become_one_file_and_each_capture_stays_whole(tmp_path):
    big, other = np.arange(3000.0), np.arange(3000.0) + 1e-12
    paths = [
        recorded(tmp_path / "a", "batch", big, np.ones(3)),
        recorded(tmp_path / "b", "forward", np.ones(5), big),
        recorded(tmp_path / "c", "forward", other),
    ]
    assert share(paths) > big.nbytes
    assert shards_of(paths[0])[0].samefile(shards_of(paths[1])[1])
    assert not shards_of(paths[2])[0].samefile(shards_of(paths[0])[0])
    assert share(paths) == 0
    assert [p.name for p in (paths[1] / "shards").iterdir() if p.suffix == ".tmp"] == []
    discard(paths[0])
    capture = Capture.open(paths[1])
    assert np.array_equal(capture.array(capture.records[1]), big)


def test_a_disk_without_links_keeps_them_apart(tmp_path, monkeypatch):
    paths = [recorded(tmp_path / name, "forward", np.arange(3000.0)) for name in "ab"]

    def refuse(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    assert share(paths) == 0
    assert np.array_equal(Capture.open(paths[1]).array(Capture.open(paths[1]).records[0]), np.arange(3000.0))


# -- which ones --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stage", "verdicts", "goes"),
    [
        ("backward", "backward", {"backward": ALIGNED}, True),
        ("backward", "backward", {"backward": DIVERGED}, False),
        ("backward", "backward", {"forward": ALIGNED}, False),
        ("forward", "forward", {"forward": ALIGNED}, False),
        ("proof", "forward", {"weights": ALIGNED, "forward": ALIGNED}, True),
        ("given", "weights", {"weights": ALIGNED, "forward": DIVERGED}, False),
        ("operations", "operations", {"forward": DIVERGED}, False),
        ("operations", "operations", {"backward": ALIGNED}, False),
        ("operations", "operations", {"forward": ALIGNED}, True),
        ("operations-values", "operations", {"forward": DIVERGED}, True),
        ("gradients-eval", "operations", {"forward": ALIGNED}, False),
        ("gradients-eval", "operations", {"backward": ALIGNED}, True),
    ],
)
def test_what_a_person_may_look_at_stays(tmp_path, nothing_is_small, name, stage, verdicts, goes):
    path = recorded(tmp_path / "candidate" / name, stage)
    retention.settle(tmp_path, result(**verdicts), set())
    assert released(path) is goes


@pytest.mark.parametrize("whole", [False, True])
def test_what_a_link_leads_to_is_another_s(tmp_path, nothing_is_small, whole):
    mine = recorded(tmp_path / "mine" / "backward")
    twin = recorded(tmp_path / "result" / "same", "batch", np.arange(3000.0))
    apart = recorded(tmp_path / "mine" / "twin", "batch", np.arange(3000.0))
    inner = tmp_path / "result" / "candidate"
    if whole:
        inner.symlink_to(tmp_path / "mine")
    else:
        inner.mkdir()
        (inner / "backward").symlink_to(mine)
        (inner / "twin").symlink_to(apart)
    retention.settle(tmp_path / "result", result(backward=ALIGNED), set())
    assert not released(mine)
    assert not shards_of(apart)[0].samefile(shards_of(twin)[0])


@pytest.mark.parametrize("manifest", ["{", '{"format": "paralign-capture", "schema": 99}', ""])
def test_a_capture_that_cannot_be_read_is_left_and_ends_no_check(tmp_path, nothing_is_small, manifest):
    path = recorded(tmp_path / "candidate" / "earlier")
    (path / "manifest.json").write_text(manifest)
    retention.settle(tmp_path, result(backward=ALIGNED), set())
    assert shards_of(path)


def test_small_values_are_left(tmp_path):
    path = recorded(tmp_path / "candidate" / "backward")
    retention.settle(tmp_path, result(backward=ALIGNED), set())
    assert not released(path)


def test_the_largest_of_the_references_go_until_the_others_are_in_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "LEAST", 0)
    sizes = {"weights": 1000, "backward": 9000, "operations": 900, "forward": 500, "elsewhere": 9500}
    paths = {name: recorded(tmp_path / "reference" / name, name, np.arange(float(size))) for name, size in sizes.items()}
    asked = sizes.keys() - {"elsewhere"}
    retention.settle(tmp_path, result(backward=DIVERGED), asked)
    assert not any(released(path) for path in paths.values())  # the port is mended and checked again
    retention.settle(tmp_path, result(backward=ALIGNED), asked)
    assert [name for name, path in paths.items() if released(path)] == ["backward", "operations"]


ASKED = frozenset({"weights", "forward", "operations", "operations-values", "backward"})


def differing(tmp_path, monkeypatch, times, asked=ASKED):
    """What a check that differs leaves: sizes in values of float64, in bounds of so many times the reference's weights."""
    monkeypatch.setattr(retention, "LEAST_DIFFERING", 0)
    monkeypatch.setattr(retention, "TIMES_DIFFERING", times)
    sizes = {
        "reference": {"weights": 10, "forward": 5, "operations": 8, "operations-values": 7, "backward": 90, "train": 80},
        "candidate": {"weights": 12, "forward": 5, "operations": 8, "backward": 70},
    }
    paths = {
        f"{side}/{name}": recorded(
            tmp_path / side / name, name, np.random.default_rng((size, side == "candidate")).standard_normal(size * 1000)
        )
        for side, found in sizes.items()
        for name, size in found.items()
    }
    retention.settle(tmp_path, result(forward=DIVERGED, backward=DIVERGED), asked)
    return {name for name, path in paths.items() if released(path)}


@pytest.mark.parametrize(
    ("times", "gone"),
    [
        (30, set()),
        (29, {"reference/operations-values"}),
        (28, {"reference/operations-values", "candidate/backward"}),
        (20, {"reference/operations-values", "candidate/backward", "reference/train"}),
        (10, {"reference/operations-values", "candidate/backward", "reference/train", "reference/backward"}),
    ],
)
def test_a_check_that_differs_keeps_within_bounds_what_is_read_later(tmp_path, monkeypatch, times, gone):
    """First values of experiments, then the candidate's, then what the next check does not take; weights and outputs always stay."""
    assert differing(tmp_path, monkeypatch, times) == gone


@pytest.mark.parametrize("asked", [ASKED, {"backward"}, set()])
def test_weights_and_outputs_stay_whatever_the_bounds(tmp_path, monkeypatch, asked):
    left = {f"{side}/forward" for side in ("reference", "candidate")} | {"reference/weights"}
    assert not differing(tmp_path, monkeypatch, 0, asked) & left


# -- whole checks ------------------------------------------------------------------------------------------------------------


def captured(project, side, name):
    return project.folder / "result" / "captures" / side / name


def reused(found):
    """What a check says to have reused."""
    return " ".join(line for line in found.preflight if "reused" in line)


def test_a_released_reference_is_run_again_and_never_reused(project, nothing_is_small):
    first, _ = check_project(project.folder, ["weights", "forward"])
    assert released(captured(project, "reference", "forward"))
    assert not released(captured(project, "reference", "weights"))
    project.edit("candidate", 'return x @ self.parameters["weight"]', 'return x @ self.parameters["weight"] * 1.001')
    again, _ = check_project(project.folder, ["weights", "forward"])
    assert (first.verdict, again.verdict) == (ALIGNED, DIVERGED)
    assert not released(captured(project, "reference", "forward"))
    assert "weights" in reused(again)
    assert "forward" not in reused(again)
    third, _ = check_project(project.folder, ["weights", "forward"])
    assert third.verdict == DIVERGED
    assert "forward" in reused(third)


def test_all_is_kept_where_that_is_wanted(project, nothing_is_small):
    project.write(more='[output]\nkeep = "all"\n')
    check_project(project.folder, ["weights", "forward"])
    check_project(project.folder, ["weights", "forward"])
    for side, name in (("reference", "forward"), ("candidate", "loaded"), ("candidate", "weights")):
        assert not released(captured(project, side, name))
    project.write(more='[output]\nkeep = "most"\n')
    with pytest.raises(UsageError, match=r"\[output\] keep"):
        check_project(project.folder)


def test_commands_that_want_released_values_say_which_setting_keeps_them(project, nothing_is_small, capsys):
    check_project(project.folder, ["weights", "forward"])
    loaded, weights = captured(project, "candidate", "loaded"), captured(project, "reference", "weights")
    with pytest.raises(UsageError, match="were released"):
        compare(weights, loaded)
    assert cli.main(["compare", str(weights), str(loaded)]) == 2
    said = capsys.readouterr().err
    assert KEEPS_ALL in said
    assert "Traceback" not in said
    assert cli.main(["plot", str(project.folder), "--tensor", "output"]) == 2
    assert KEEPS_ALL in capsys.readouterr().err


def test_what_is_documented_for_later_commands_still_works(project, monkeypatch, capsys):
    monkeypatch.setattr(retention, "SMALL", 0)
    check_project(project.folder, ["weights", "forward"])
    assert released(captured(project, "candidate", "loaded"))
    assert compare(captured(project, "reference", "forward"), captured(project, "candidate", "forward")).verdict == ALIGNED
    assert cli.main(["plot", str(project.folder), "--tensor", "output"]) == 0
    assert cli.main(["report", str(project.folder / "result")]) == 0
    assert cli.main(["status", str(project.folder)]) in (0, 1, 4)
    assert "Traceback" not in capsys.readouterr().err
