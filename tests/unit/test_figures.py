"""What the page draws of tensors, operations and curves: right numbers, whatever the values are."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import cli
from paralign.capture import Capture, CaptureWriter
from paralign.capture.merged import Merged
from paralign.capture.released import release
from paralign.errors import CaptureFormatError
from paralign.model import ALIGNED, DIVERGED, CheckResult, Manifest, Pair, StageResult, Stats
from paralign.report import figures
from paralign.stages.offline import operation_table
from paralign.worker.protocol import Printed, RankTold, Share

#: what a rank tells of a run without losses
UNTOLD = asdict(RankTold("Net", {}, {}, [], {}, [], [], [], Share("index", [], True, 0), None, None, None, {}, {}, Printed(0, [])))

VALUES = np.arange(24, dtype=np.float64).reshape(2, 3, 4)


def captures(tmp_path, sides, names=("output",), **more):
    found = []
    for side, values in zip(("reference", "candidate"), sides, strict=True):
        with CaptureWriter(tmp_path / side, Manifest(side=side, stage="forward")) as writer:
            for name in names:
                for step, value in enumerate(values):
                    writer.add(name, value, step=step, **{"role": "output", **more})
        found.append(Capture.open(tmp_path / side))
    return found[0], found[1]


def drawn(tmp_path, reference, candidate, transform=None, stage="forward", role="output"):
    both = captures(tmp_path, [[reference], [candidate]], role=role)
    stats = Stats(count=1, rel_l2=0.5)
    pair = Pair("output", both[0].records[0], both[1].records[0], transform=transform, stats=stats, verdict=DIVERGED)
    result = CheckResult([StageResult(stage, DIVERGED, pairs=[pair])])
    found = figures.of(result, {"forward": both}, tmp_path, tmp_path)
    figures.write(tmp_path, found)
    assert figures.read(tmp_path) == json.loads(json.dumps(found))
    return found["stages"][stage]["tensors"][0]


def test_the_greatest_error_and_its_axes(tmp_path):
    wrong = VALUES.copy()
    wrong[1, 2, 3] += 0.5
    wrong[:, 1] += 0.25
    told = drawn(tmp_path, VALUES, wrong)
    assert (told["most"], told["at"]) == (0.5, [1, 2, 3])
    assert [axis["name"] for axis in told["axes"]] == ["batch", "token", "feature"]
    assert told["axes"][1]["values"] == pytest.approx([0, 0.25, 0.0625])
    assert told["map"]["cells"][1] == [0.25] * 4
    assert [sum(counts) for counts in told["counts"]] == [24, 24]


def test_a_transposed_weight_is_held_against_the_references_layout(tmp_path):
    told = drawn(tmp_path, VALUES[0], VALUES[0].T.copy() + 1, "transpose(1, 0)")
    assert told["most"] == 1
    assert told["map"]["shape"] == [3, 4]


@pytest.mark.parametrize(
    "values",
    [np.full((2, 2), np.nan), np.array([1e308, -1e308, np.inf]), np.full(5, 1.0), np.array([1.0, 1.0 + 2e-16]), np.array([True, False])],
)
def test_values_that_no_histogram_likes(tmp_path, values):
    told = drawn(tmp_path, values, np.zeros(values.shape, values.dtype))
    assert told["missing"][0] == int((~np.isfinite(values)).sum())
    assert sum(told["counts"][0]) == int(np.isfinite(values).sum())


@pytest.mark.parametrize(("since", "gone", "there"), [("", False, True), ("9999", False, False), ("", True, False)])
def test_operations_of_an_earlier_check_and_released_ones_are_not_drawn(tmp_path, monkeypatch, since, gone, there):
    for side in ("reference", "candidate"):
        with CaptureWriter(tmp_path / "captures" / side / "operations", Manifest(side=side, stage="operations")) as writer:
            writer.add("x", VALUES, role="output")
    if gone:
        release(tmp_path / "captures" / "candidate" / "operations")
    judged = []
    monkeypatch.setattr(operation_table, "Recorded", lambda *_: _Judged(judged))
    operation_table.of_folder(tmp_path, since)
    assert bool(judged) is there


class _Judged:
    """Notes that it was asked; a side without operations is not drawn."""

    def __init__(self, asked):
        asked.append(self)

    def judgement(self):
        side = SimpleNamespace(operations=[])
        return SimpleNamespace(reference=side, candidate=side)


def test_errors_whose_sum_no_number_holds_are_drawn(tmp_path):
    least = np.full((4, 8, 8), np.finfo(np.float64).min)
    told = drawn(tmp_path, least, np.full(least.shape, -1e9))
    assert told["most"] == np.finfo(np.float64).max
    assert told["axes"][0]["values"] == [1.79e308] * 4
    assert told["map"]["cells"][0][0] == 1.79e308


@pytest.mark.parametrize(
    ("shape", "role", "names"),
    [
        ((2, 3, 4), "output", ["batch", "token", "feature"]),
        ((2, 3, 4), "parameter", ["axis 0", "axis 1", "axis 2"]),
        ((3, 9, 8), "sample", ["channel", "height", "width"]),
        ((9, 8, 3), "sample", ["height", "width", "channel"]),
        ((9, 8, 5), "sample", ["axis 0", "axis 1", "axis 2"]),
        ((9, 8), "sample", ["axis 0", "axis 1"]),
        ((2, 9, 8, 3, 2), "output", ["axis 0", "axis 1", "axis 2", "axis 3", "axis 4"]),
    ],
)
def test_axes_are_named_where_something_tells_what_they_are(tmp_path, shape, role, names):
    values = np.random.default_rng(0).random(shape)
    told = drawn(tmp_path, values, values + 1, stage="data" if role == "sample" else "forward", role=role)
    assert [axis["name"] for axis in told["axes"]] == names


def test_starting_values_are_spread_side_by_side(tmp_path):
    random = np.random.default_rng(0)
    both = captures(tmp_path, [[random.normal(size=(3, 40))], [random.uniform(size=(3, 40))]], ["weight"], role="parameter", leaf="sample")
    other = Pair("init bias", both[0].records[0], None, verdict=ALIGNED)
    pair = Pair("init weight", both[0].records[0], both[1].records[0], verdict=DIVERGED)
    found = figures.of(CheckResult([StageResult("init", DIVERGED, pairs=[other, pair])]), {"init": both}, tmp_path, tmp_path)
    (told,) = found["stages"]["init"]["tensors"]
    assert told["key"] == "init weight"
    assert [sum(counts) for counts in told["counts"]] == [120, 120]
    assert told["from"] < 0 < told["to"]


def test_losses_are_drawn_over_the_ranks(tmp_path):
    sides = []
    for side, losses in (("reference", [[1.0, 0.5], [2.0, 1.5]]), ("candidate", [[1.0, None], [3.0, 2.5]])):
        places = [tmp_path / f"{side}-{rank}" for rank in range(2)]
        for place, each in zip(places, losses, strict=True):
            with CaptureWriter(place, Manifest(side=side, stage="rank")) as writer:
                writer.manifest.settings["answer"] = {**UNTOLD, "losses": each}
        sides.append(Merged.of(places))
    found = figures.of(CheckResult([StageResult("distributed", DIVERGED)]), {"ranks": tuple(sides)}, tmp_path, tmp_path)
    first, second = found["stages"]["distributed"]["curves"]
    assert (first["name"], first["reference"], first["candidate"]) == ("loss of step 1, by rank", [[0, 1], [1, 2]], [[0, 1], [1, 3]])
    assert second["candidate"] == [[1, 2.5]], "a rank that told no loss"


def test_samples_are_pictures_of_both_sides(tmp_path):
    picture = np.random.default_rng(0).random((3, 200, 100))
    told = drawn(tmp_path, picture, picture * 2, stage="data")
    assert [(each["width"], each["height"]) for each in told["samples"]] == [(34, 67)] * 2
    assert drawn(tmp_path / "other", VALUES, VALUES + 1, stage="data")["samples"] == [None, None]


def test_numbers_of_every_step_are_curves(tmp_path):
    both = captures(
        tmp_path, [[np.array(1.0 / (n + 1)) for n in range(5)], [np.array(2.0 / (n + 1)) for n in range(5)]], ["loss"], role="scalar"
    )
    found = figures.of(CheckResult([StageResult("backward", ALIGNED)]), {"backward": both}, tmp_path, tmp_path)
    curve = found["stages"]["backward"]["curves"][0]
    assert (curve["name"], curve["reference"][1], curve["candidate"][4]) == ("loss", [1.0, 0.5], [4.0, 0.4])


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"operations": [1]}', '{"operations": {"reference": [[]], "candidate": []}}', '{"stages": 3}']
)
def test_damaged_figures_are_refused_in_one_line(tmp_path, capsys, text):
    (tmp_path / figures.FILE).write_text(text)
    with pytest.raises(CaptureFormatError, match="the figures are"):
        figures.read(tmp_path)
    (tmp_path / "report.json").write_text(CheckResult([StageResult("forward", ALIGNED)]).to_json())
    assert cli.main(["report", str(tmp_path)]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_figures_with_half_a_character_are_shown(tmp_path):
    (tmp_path / figures.FILE).write_text('{"stages": {"forward": {"tensors": [], "curves": [], "\\ud800": 1}}}')
    (tmp_path / "report.json").write_text(CheckResult([StageResult("forward", ALIGNED)]).to_json())
    assert cli.main(["report", str(tmp_path)]) == 0


def test_figures_of_another_form_are_left_out(tmp_path):
    (tmp_path / figures.FILE).write_text('["no figures"]')
    assert figures.read(tmp_path) == {}
