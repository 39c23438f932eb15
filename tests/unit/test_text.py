"""Results on the terminal: figures, and what of a stage is shown when. Whole texts stand in tests/golden."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from paralign.model import (
    ALIGNED,
    DIVERGED,
    ERROR,
    NOT_TESTED,
    UNDERPOWERED,
    CheckResult,
    Divergence,
    Noise,
    Pair,
    Point,
    StageResult,
    Stats,
)
from paralign.report.text import FRAMES, LONGEST, MOST, STYLE, details, figure, from_folder, pairs, relative, render, shortened, table


def shown(renderable, width=200):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def told(stage):
    return [line for part in details(stage) for line in shown(part)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0.0, "0"),
        (-0.0, "-0"),
        (1, "1"),
        (0.001, "0.001"),
        (0.000999, "1.0e-03"),
        (9999, "1e+04"),
        (12345.0, "1.2e+04"),
        (-0.5, "-0.5"),
        (1 / 3, "0.333"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (5e-324, "4.9e-324"),
    ],
)
def test_figures(value, expected):
    assert figure(value) == expected


def test_every_verdict_has_a_style():
    assert set(STYLE) == {ALIGNED, DIVERGED, ERROR, UNDERPOWERED, NOT_TESTED}


def pair(key="output", verdict=DIVERGED, error=0.5, *, counted=True, noise=0.1, **more):
    stats = None if error is None else Stats(count=4, mismatched=3, max_abs=2.0, rel_l2=error, **more)
    return Pair(key, None, None, stats=stats, noise=None if noise is None else Noise(noise, "x"), verdict=verdict, judged=counted)


def test_one_line_a_stage_with_its_worst_judged_pair():
    result = CheckResult(
        [StageResult("forward", DIVERGED, "float64", [pair("a", ALIGNED, 0.01), pair("b"), pair("c", error=9.0, counted=False)])]
    )
    lines = shown(table(result))
    assert lines[0].split() == ["stage", "verdict", "error", "noise", "error", "÷", "noise", "worst", "tensor", "judged", "by"]
    assert lines[1].split() == ["forward", "diverged", "0.5", "0.1", "5", "b", "float64"]


def test_a_stage_without_pairs_has_dashes():
    assert shown(table(CheckResult([StageResult("loss")])))[1].split() == ["loss", "not", "tested", "-", "-", "-"]


def test_an_aligned_stage_without_words_is_its_line_alone():
    assert told(StageResult("forward", ALIGNED, pairs=[pair(verdict=ALIGNED)])) == []


def test_only_judged_pairs_that_are_not_aligned_are_listed():
    stage = StageResult(
        "forward", DIVERGED, pairs=[pair("a", ALIGNED), pair("b", NOT_TESTED), pair("c", counted=False), pair("d"), pair("e", UNDERPOWERED)]
    )
    listed = [line.split(":")[0].strip() for line in told(stage)[1:]]
    assert listed == ["d", "e"]


@pytest.mark.parametrize(
    ("count", "more"), [(MOST, None), (MOST + 1, "… and 1 more in report.json"), (MOST + 30, "… and 30 more in report.json")]
)
def test_long_lists_are_cut_and_say_so(count, more):
    lines = told(StageResult("forward", DIVERGED, pairs=[pair(f"p{n}") for n in range(count)]))
    assert len([line for line in lines if line.startswith("  p")]) == MOST
    assert (lines[-1].strip() == more) is (more is not None)


def test_what_is_said_of_a_pair():
    found = pair(max_abs_at=(1, 2))
    found.notes = ["dtype float32 against float64", "shape () against (1,)"]
    assert told(StageResult("forward", DIVERGED, pairs=[found]))[1:] == [
        "  output: error 0.5, noise 0.1, error ÷ noise 5; 3 of 4 differ, most by 2 at [1, 2]",
        "    dtype float32 against float64",
        "    shape () against (1,)",
    ]
    assert told(StageResult("forward", DIVERGED, pairs=[pair(error=None, noise=None)]))[1] == "  output: error -"


def test_where_it_starts_is_a_pair_of_the_stage():
    found = pair("gradient_0 fc.weight")
    where = Divergence(Point("fc.weight", "Linear"), Point("fc.weight", "Linear"), found, last_agreeing="lr_0")
    assert told(StageResult("backward", DIVERGED, pairs=[found], divergence=where))[1:6] == [
        "  where it starts:",
        "    at: gradient_0 fc.weight",
        "    last that agrees: lr_0",
        "    reference: fc.weight  Linear",
        "    candidate: fc.weight  Linear",
    ]


def test_where_it_starts_was_found_among_the_modules():
    located = pair("fc")
    located.notes = ["its inputs agree"]
    where = Divergence(Point("", "Net", "net.py:3", "return self.fc(x)"), None, located)
    assert told(StageResult("forward", DIVERGED, divergence=where))[1:] == [
        "  where it starts:",
        "    reference: the model itself  Net  net.py:3",
        "               return self.fc(x)",
        "    candidate: no counterpart found",
        "    its inputs agree",
    ]


def test_paths_below_the_project_and_beside_it_are_shown_from_there(tmp_path):
    root = tmp_path / "port"
    point = Point("fc", "Linear", f"{root}/net.py:3", "self.fc(x)")
    other = Point("fc", "Linear", f"{root}x/net.py:3", "self.fc(x)")
    where = Divergence(
        point, other, last_agreeing=f"in  relu  {root}/net.py:2", notes=[f"by {root}/a.py:1, /else{root}/b.py:2, /usr/c.py:3"]
    )
    lines = [line for part in details(StageResult("forward", DIVERGED, divergence=where), root) for line in shown(part)]
    assert lines[2:8] == [
        "    last that agrees: in  relu  net.py:2",
        "    reference: fc  Linear  net.py:3",
        "               self.fc(x)",
        "    candidate: fc  Linear  ../portx/net.py:3",
        "               self.fc(x)",
        f"    by a.py:1, /else{root}/b.py:2, /usr/c.py:3",
    ]


@pytest.mark.parametrize("root", [Path("/port"), Path("/"), None])
def test_a_project_that_lies_in_no_folder_has_nothing_beside_it(root):
    assert relative(Text("/usr/net.py:3"), root).plain == "/usr/net.py:3"
    assert from_folder("/usr/net.py", root) == "/usr/net.py"


def test_a_text_is_not_shortened_by_less_than_it_takes_to_say_so():
    assert shortened("x" * 210, 200) == "x" * 210
    told = shortened("x" * 400, 200)
    assert "(200 characters left out: report.json has them)" in told
    assert len(told) < 300


def test_arguments_that_agree_are_left_out():
    one = Point("fc", "conv", arguments={"padding": [1, 1], "stride": 2, "groups": 1, "only": True, "kernel_size": [3, 5]})
    two = Point("fc", "conv", arguments={"padding": 1, "stride": [2, 2], "groups": 2, "kernel_size": [3, 3]})
    lines = [line.strip() for line in told(StageResult("forward", DIVERGED, divergence=Divergence(one, two)))]
    assert "reference's arguments: groups=1, only=True, kernel_size=[3, 5]" in lines
    assert "candidate's arguments: groups=2, kernel_size=[3, 3]" in lines
    same = Divergence(Point("fc", "conv", arguments={"groups": 1}), Point("fc", "conv", arguments={"groups": 1}))
    assert not [line for line in told(StageResult("forward", DIVERGED, divergence=same)) if "arguments" in line]


@pytest.mark.parametrize(("kind", "own"), [("different", {"kernel_size": 3}), ("region", {"approximate": "tanh"})])
def test_arguments_of_operations_unlike_each_other_are_left_out(kind, own):
    unlike = Divergence(Point("a", "gelu", arguments={"approximate": "none"}), Point("b", "conv", arguments=own), what=kind)
    assert not [line for line in told(StageResult("forward", DIVERGED, divergence=unlike)) if "arguments" in line]
    alike = Divergence(
        Point("a", "gelu", arguments={"approximate": "none", "dim": 1}),
        Point("b", "gelu", arguments={"approximate": "tanh", "axis": 1}),
        what="different",
    )
    assert [line for line in told(StageResult("forward", DIVERGED, divergence=alike)) if "arguments" in line]


def test_an_error_within_the_noise_is_not_said_to_be_a_share_of_it():
    within = Divergence(Point("fc"), Point("fc"), what="order", error=1e-9, noise=1e-7, error_before=0.0, confirmed=True)
    assert "error 1.0e-09; of its inputs 0" in [line.strip() for line in told(StageResult("forward", DIVERGED, divergence=within))]


def test_long_texts_of_others_are_cut_in_the_middle():
    names = "missing keys: " + ", ".join(f"class_{n}" for n in range(1000)) + ". That is all"
    failure = {"side": "candidate", "type": "KeyError", "message": names, "frames": [], "log": None}
    stages = [
        StageResult("infer", ERROR, failure=failure),
        StageResult("forward", ALIGNED, notes=[names], warnings=[names]),
    ]
    for stage in stages:
        text = " ".join(told(stage))
        assert "missing keys: class_0, class_1," in text
        assert "That is all" in text
        assert "characters left out: report.json has them" in text
        assert len(text) < 2 * (LONGEST + 200)


def test_that_the_weights_are_wrong_is_said_first_and_once():
    stages = [
        StageResult("forward", DIVERGED, pairs=[pair()], notes=["a note"], follows=["weights"]),
        StageResult("backward", DIVERGED, pairs=[pair()], notes=["a note"], follows=["weights", "forward"]),
    ]
    lines = [line.strip() for line in shown(render(CheckResult(stages)))]
    at = [n for n, line in enumerate(lines) if line.startswith("the weights are wrong")]
    assert [lines[n - 1] for n in at] == ["forward diverged"]
    assert lines[lines.index("backward diverged") + 1] == "may only follow from forward: look there first"


FAILURE = {
    "side": "reference",
    "type": "E",
    "message": "m",
    "traceback": "Traceback",
    "frames": [f"a.py:{n} in f: x" for n in range(9)],
    "log": "a.log",
}


def test_a_failure_shows_the_last_frames_of_the_users_code_and_its_log():
    lines = told(StageResult("weights", ERROR, failure=FAILURE))
    assert lines[1] == "  the reference failed: E: m"
    assert lines[2:-1] == [f"    a.py:{n} in f: x" for n in range(9 - FRAMES, 9)]
    assert lines[-1] == "  log: a.log"
    assert len(told(StageResult("weights", ERROR, failure={**FAILURE, "frames": [], "log": None}))) == 2


def test_the_same_failure_of_several_stages_is_shown_once():
    stages = [StageResult(name, ERROR, failure=dict(FAILURE)) for name in ("weights", "forward")]
    lines = shown(render(CheckResult(stages)))
    assert len([line for line in lines if "the reference failed" in line]) == 1
    assert lines[-2:] == ["forward error: the same failure", "verdict: error"]


def test_warnings_and_notes_come_last():
    stage = StageResult("forward", DIVERGED, pairs=[pair()], warnings=["w"], notes=["n"])
    assert told(stage)[-2:] == ["  warning: w", "  note: n"]


MARKUP = "[bold]x[/nowhere] [red]y"


def test_nothing_of_a_sides_words_is_read_as_markup():
    found = pair(MARKUP)
    found.notes = [MARKUP]
    failure = {"side": "candidate", "type": MARKUP, "message": MARKUP, "traceback": MARKUP, "frames": [MARKUP], "log": MARKUP}
    where = Divergence(Point(MARKUP, MARKUP, MARKUP, MARKUP), None, found, last_agreeing=MARKUP)
    stage = StageResult("forward", DIVERGED, MARKUP, [found], where, notes=[MARKUP], warnings=[MARKUP], failure=failure)
    result = CheckResult([stage], [MARKUP])
    text = "\n".join(shown(render(result), 400) + shown(pairs(result), 400))
    assert text.count(MARKUP) == 19


def test_the_name_of_a_stage_is_not_read_as_markup_either():
    assert any("data[old]" in line for line in shown(table(CheckResult([StageResult("data[old]")]))))


def test_the_verdict_is_the_last_line():
    result = CheckResult([StageResult("forward", ALIGNED), StageResult("loss", UNDERPOWERED)], ["reference: x"])
    lines = shown(render(result))
    assert lines[0] == "reference: x"
    assert lines[-1] == "verdict: underpowered"
    assert shown(render(CheckResult()))[-1] == "verdict: not tested"


def test_the_list_of_pairs_has_a_line_each():
    stage = StageResult("x", DIVERGED, pairs=[pair("a", mean_abs=0.25), pair("b", NOT_TESTED, None)])
    lines = shown(pairs(CheckResult([stage])))
    assert lines[1].split() == ["a", "diverged", "0.25", "2", "0.5", "3/4"]
    assert lines[2].split() == ["b", "not", "tested", "-", "-", "-", "-"]
