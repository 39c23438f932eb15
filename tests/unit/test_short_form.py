"""A check that diverges on the terminal: twelve lines at most, causes before consequences, and nothing lost that ``-v`` does not show."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from paralign.checking import GUESSED, UNCARRIED, say_follows
from paralign.context import Context
from paralign.model import (
    ALIGNED,
    DIVERGED,
    ERROR,
    NOT_TESTED,
    UNDERPOWERED,
    CheckResult,
    Divergence,
    Finding,
    Listing,
    Noise,
    Pair,
    Point,
    StageResult,
    Stats,
    TracedValue,
)
from paralign.report.findings import edited_place
from paralign.report.language import speaking
from paralign.report.short_form import LINES, SENTENCES, render
from paralign.stages.data.stage import merged

PATCH = "--- a/net.py\n+++ b/net.py\n@@ -1,3 +1,3 @@\n x = 1\n-y = x * 0.1\n+y = x * 0.2\n z = y\n"


def pair(key="output", verdict=DIVERGED, error=0.5):
    return Pair(key, None, None, stats=Stats(count=4, mismatched=3, max_abs=2.0, rel_l2=error), noise=Noise(0.1, "x"), verdict=verdict)


def fault(what="different", op="aten.native_batch_norm.default (BatchNorm2d)", **more):
    return Divergence(
        Point("bn", op, "net.py:5", "self.bn = nn.BatchNorm2d(8, eps=1e-3)", arguments={"eps": 1e-3, "training": False}),
        Point("bn", "batch_norm (BatchNorm2D)", "port.py:7", "self.bn = nn.BatchNorm2D(8)", ["port.py:9", "port.py:11"], {"epsilon": 1e-5}),
        what=what, error_before=0.0, error=0.5, noise=1e-7, error_after=0.0, chain=["conv  conv2d", "act  relu"],
        **{"confirmed": True, "notes": ["right inputs, another result"], "repeats": 3, **more},
    )  # fmt: skip


def diverged(name="forward", found=None, **more):
    found = found or fault()
    return StageResult(name, DIVERGED, "float64", [pair()], found, [found], **more)


def shown(*stages, width=200, **how):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(render(CheckResult(list(stages)), **how))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def below(*stages, **how):
    """The lines between the table and the verdict."""
    return shown(*stages, **how)[len(stages) + 1 : -1]


def test_sentence_both_lines_evidence_further_lines():
    assert below(diverged()) == [
        "forward diverged: bn (BatchNorm2D): right inputs, another result; epsilon=1e-05 here, 0.001 in the reference",
        "  reference: net.py:5  self.bn = nn.BatchNorm2d(8, eps=1e-3)",
        "  candidate: port.py:7  self.bn = nn.BatchNorm2D(8)",
        "  error 0.5, 5.0e+06 times its noise; of its inputs 0; of the outputs with the reference's value put here 0",
        "  further lines: port.py:9, port.py:11 · the same at 3 more places",
        "-v shows 1 value that differs, and arguments; report.json has all",
    ]


def test_a_patch_stands_in_the_place_of_the_candidates_line():
    found = Finding("repair/value", "the candidate has `0.1`, the reference `0.2`", "write `0.2`", True, 0.5, 1e-16, PATCH, [], ["data"])
    lines = below(diverged(findings=[found]))
    assert lines[:7] == [
        "forward diverged: the candidate has `0.1`, the reference `0.2`",
        "  reference: net.py:5  self.bn = nn.BatchNorm2d(8, eps=1e-3)",
        "  candidate: net.py:2",
        "    -y = x * 0.1",
        "    +y = x * 0.2",
        "  proven: with this changed the error goes from 0.5 to 1.0e-16",
        "  further lines: port.py:9, port.py:11 · the same at 3 more places",
    ]
    assert "  not gone: data" in lines


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        (PATCH, "net.py:2"),
        ("--- a/a b/net.py\n+++ b/a b/net.py\n@@ -7 +7,2 @@\n+x = 1\n y = 2\n", "a b/net.py:7"),
        ("--- a/net.py\n+++ b/net.py\n", ""),
        ("--- a/net.py\n+++ b/net.py\n@@ what\n-x\n", ""),
        ("no diff", ""),
        ("", ""),
    ],
)
def test_the_place_of_a_patch_is_the_first_line_that_it_changes(patch, place):
    assert edited_place(patch) == place


def test_a_patch_of_a_file_outside_of_the_project_is_shown_with_its_whole_path():
    outside = PATCH.replace("/net.py", "/data/code/net.py")
    found = Finding("repair/value", "the candidate has `0.1`, the reference `0.2`", "write `0.2`", True, 0.5, 1e-16, outside)
    point = replace(fault(), candidate=Point("0", "add", "/data/code/net.py:7", "y = x * 0.1"))
    assert "  candidate: /data/code/net.py:2" in below(diverged(found=point, findings=[found]))
    elsewhere = replace(fault(), candidate=Point("0", "add", "/data/code/other.py:7", "y = x * 0.1"))
    assert "  candidate: data/code/net.py:2" in below(diverged(found=elsewhere, findings=[found]))


def test_no_line_is_named_twice():
    first = replace(fault(), candidate=replace(fault().candidate, lines=["port.py:9", "port.py:7", "port.py:9"]))
    others = [replace(fault(), candidate=Point("x", "add", f"port.py:{line}", "x")) for line in (7, 9, 30)]
    stage = diverged(found=first)
    stage.divergences += others
    (line,) = [each for each in below(stage) if "further lines" in each]
    assert line.startswith("  further lines: port.py:9 · the same at 3 more places · other points, perhaps of the same fault: port.py:30")
    stage.divergences = [first, *others[:2]]
    assert not [each for each in below(stage) if "other points" in each]


@pytest.mark.parametrize(("line", "told"), [(10, True), (11, False)])
def test_a_line_that_an_earlier_stage_has_named_is_not_told_again(line, told):
    point = replace(fault(what=""), candidate=Point("rate", "", "net.py:10", "rate = 1"))
    other = replace(point, candidate=replace(point.candidate, source=f"net.py:{line}"))
    said = below(diverged("optimizer", found=point), diverged("backward", found=other))
    assert ("backward diverged: the same cause as in optimizer" in said) == told


@pytest.mark.parametrize("rule", ["repair/value", "provenance"])
def test_a_patch_is_always_shown_with_its_place(rule):
    found = Finding("repair/value", "the candidate has `0.1`, the reference `0.2`", "write `0.2`", True, 0.5, 1e-16, PATCH)
    assert "  candidate: net.py:2" in below(diverged(found=fault(rule=rule), findings=[found]))


@pytest.mark.parametrize(("proven", "patch", "told"), [(True, PATCH, False), (False, PATCH, True), (True, "", True)])
def test_other_points_are_named_unless_a_proven_patch_makes_the_stage_aligned(proven, patch, told):
    cause = Finding("repair/value", "the candidate has `0.1`", "write `0.2`", proven, 0.5, 1e-16, patch)
    stage = diverged(findings=[cause])
    stage.divergences.append(replace(fault("extra"), candidate=Point("x", "add", "port.py:30", "x")))
    assert any("other points, perhaps of the same fault" in line for line in below(stage)) is told


@pytest.mark.parametrize(("before", "told"), [(None, "the error is 0"), (0.5, "the error goes from 0.5 to 0")])
def test_an_error_that_was_not_measured_before_is_not_told_as_a_stroke(before, told):
    cause = Finding("repair/value", "the candidate has `0.1`", "write `0.2`", True, before, 0.0, PATCH)
    assert f"  proven: with this changed {told}" in below(diverged(findings=[cause]))


@pytest.mark.parametrize(("rule", "patch", "shown"), [("repair/value", PATCH, False), ("repair/value", "", True), ("setting", "", True)])
def test_a_reference_without_a_line_is_left_out_beside_a_patch_alone(rule, patch, shown):
    found = fault(rule=rule)
    found.reference = None
    cause = Finding("repair/value", "the candidate has `0.1`", "write `0.2`", True, 0.5, 0.0, patch)
    assert any("no counterpart found" in line for line in below(diverged(found=found, findings=[cause]))) is shown


@pytest.mark.parametrize(
    ("count", "noise", "told"),
    [
        (4, 0.1, "output: error 0.5, noise 0.1, error ÷ noise 5; 3 of 4 differ, most by 2 at [1, 2]"),
        (1, None, "output: error 0.5; it differs by 2"),
    ],
)
def test_a_single_number_has_no_place_and_what_was_not_measured_is_left_out(count, noise, told):
    wrong = pair()
    wrong.stats = Stats(count=count, mismatched=min(3, count), max_abs=2.0, rel_l2=0.5, max_abs_at=(1, 2))
    wrong.noise = None if noise is None else Noise(noise, "x")
    assert f"  {told}" in below(StageResult("data", DIVERGED, pairs=[wrong]))


def test_one_further_place_is_told_in_the_singular():
    assert "the same at 1 more place" in below(diverged(found=fault(repeats=1)))[4].split(" · ")


def test_a_value_that_was_followed_is_told_with_the_references():
    value = TracedValue(1e-05, 0.001, "net.py:5")
    assert below(diverged(found=fault(value=value)))[:2] == [
        "forward diverged: bn (BatchNorm2D): right inputs, another result; 1e-05 here, 0.001 in the reference",
        "  reference: net.py:5  0.001",
    ]


@pytest.mark.parametrize("what", SENTENCES)
def test_every_kind_names_the_operation_and_no_framework(what):
    first = below(diverged(found=fault(what)))[0]
    assert "aten" not in first
    assert ".default" not in first
    assert "BatchNorm2" in first or what == "region"


def test_the_step_that_is_missing_is_named():
    missing = fault(
        "missing", "aten.tanh.default", notes=["the reference does something first that is missing here: head  aten.tanh.default"]
    )
    assert below(diverged(found=missing))[0] == "forward diverged: the reference does bn (tanh) first, which is missing here"


def test_what_no_run_confirmed_is_said_to_be_so():
    assert below(diverged(found=fault(confirmed=False)))[0].endswith(
        "another result; epsilon=1e-05 here, 0.001 in the reference (not confirmed)"
    )
    suspected = Finding("x", "padding counts", "exclusive=False")
    assert below(diverged(findings=[suspected]))[0].endswith("0.001 in the reference; suspected cause: padding counts")


def test_consequences_are_one_line_after_the_cause():
    weak = [
        StageResult("weights", UNDERPOWERED, pairs=[pair(f"w{n}", UNDERPOWERED) for n in range(10)], warnings=["two layers alike"] * 10)
    ]
    behind = [diverged(name, follows=["forward", "loss"]) for name in ("loss", "backward", "infer")]
    lines = below(*weak, diverged(), *behind)
    assert lines[0].startswith("forward diverged: ")
    assert lines[-3:-1] == [
        "loss, backward, infer diverged: may only follow from forward: look there first",
        "weights underpowered: two layers alike",
    ]


def test_a_later_stage_with_a_proven_cause_of_its_own_is_no_consequence():
    cause = Finding("weight-decay", "weight decay: 0.1 in the reference, none in the candidate", "set weight_decay", proven=True)
    lines = below(diverged(), diverged("backward", findings=[cause], follows=["forward"]))
    assert any(line.startswith("backward diverged: weight decay: 0.1") for line in lines)
    assert any("fix: set weight_decay" in line for line in lines)


def test_a_training_whose_cause_an_earlier_stage_judges_is_a_consequence():
    found = Finding(
        "train/model", "model: what is left is the network", "look at the network", proven=True, error_before=0.1, error_after=0.0
    )
    lines = shown(diverged(), diverged("train", findings=[found], follows=["forward"]))
    assert "train diverged: may only follow from forward: look there first" in lines
    alone = shown(diverged("data"), diverged("train", findings=[found], follows=["data"]))
    assert any(line.startswith("train diverged: model: what is left is the network") for line in alone)


def test_clipping_that_only_one_side_shows_is_no_cause_while_the_forward_pass_differs():
    found = Finding("update/clip", "gradient clipping: none in the reference", "clip alike", proven=True, error_before=0.1, error_after=0.0)
    lines = shown(diverged(), diverged("backward", findings=[found], follows=["forward"]))
    assert "backward diverged: may only follow from forward: look there first" in lines
    alone = shown(diverged("backward", findings=[found]))
    assert any(line.startswith("backward diverged: gradient clipping") for line in alone)


def test_a_cause_that_an_earlier_stage_has_told_is_not_told_again():
    found = Finding("update/second", "decay of the mean of squares: 0.95 against 0.999", "set beta2", proven=True)
    lines = shown(diverged("optimizer", findings=[found]), diverged("backward", findings=[found]))
    assert "backward diverged: the same cause as in optimizer" in lines
    assert len([line for line in lines if "decay of the mean of squares" in line]) == 1
    other = Finding("update/second", "decay of the mean of squares: 0.95 against 0.99", "set beta2", proven=True)
    assert not any(
        "the same cause" in line for line in shown(diverged("optimizer", findings=[found]), diverged("backward", findings=[other]))
    )


def test_sides_whose_line_is_not_known_are_not_listed_where_they_are_called_alike():
    def lines(first, second):
        divergence = Divergence(Point(first), Point(second), pair())
        return shown(StageResult("train", DIVERGED, "x", [pair()], divergence))

    assert not any("the line is not known" in line for line in lines("train(log)", "train(log)"))
    assert "  reference: eager, the line is not known" in lines("eager", "exported")


def test_a_note_of_what_was_done_is_no_remark_on_a_line_that_is_known():
    line = Divergence(None, Point("fc.bias", "Linear", "port.py:7", "self.fc = nn.Linear(3, 4)"), pair())
    stage = StageResult("weights", DIVERGED, "exact", [pair()], line, notes=["9 assignments were tried"])
    assert "  9 assignments were tried" not in shown(stage)
    line.candidate.source = None
    assert "  9 assignments were tried" in shown(stage)


def test_what_is_gone_with_a_patch_is_one_line():
    found = Finding("repair/value", "c", "f", True, 0.5, 1e-16, PATCH, ["loss", "backward"])
    lines = below(diverged(findings=[found]), diverged("loss"), diverged("backward"))
    assert "loss, backward diverged: gone with the patch of forward" in lines


@pytest.mark.parametrize("count", [1, 2, 5, 11, 12, 13, 40])
def test_never_more_than_twelve_lines_and_every_fault_has_a_line_or_is_counted(count):
    faults = [replace(fault(), candidate=replace(fault().candidate, source=f"port.py:{n}")) for n in range(count)]
    lines = below(*(diverged(f"stage{n}", found=each, notes=["n"], warnings=["w"] * 9) for n, each in enumerate(faults)))
    assert len(lines) <= LINES
    heads = [line for line in lines if line.startswith("stage")]
    assert lines[0].startswith("stage0 diverged")
    assert len(heads) == count or f"… and {count - len(heads)} more in report.json" in lines


def test_what_is_left_out_is_counted():
    stage = diverged(warnings=["w"], notes=["n", "m"], tables=[Listing("t", ["a"], [["1"]])], findings=[Finding("a", "b", "c")] * 3)
    assert below(stage)[-1] == "-v shows 1 warning, 2 notes, 1 table, 2 causes, 1 value that differs, and arguments; report.json has all"


def test_verbose_shows_everything():
    text = "\n".join(shown(diverged(warnings=["a warning"], notes=["a note"]), verbose=True))
    for each in (
        "where it starts:",
        "aten.native_batch_norm.default",
        "reference's arguments: eps=0.001",
        "before that",
        "a warning",
        "a note",
    ):
        assert each in text
        assert each not in "\n".join(shown(diverged(warnings=["a warning"], notes=["a note"])))


@pytest.mark.parametrize("verdict", [UNDERPOWERED, NOT_TESTED, ERROR])
def test_what_could_not_be_judged_is_shown_whole(verdict):
    failure = {"side": "candidate", "type": "ValueError", "message": "no such file", "frames": []} if verdict == ERROR else None
    stage = StageResult("forward", verdict, warnings=["a warning"], notes=["a note"], failure=failure)
    assert shown(stage) == shown(stage, verbose=True)


def test_many_notes_and_tables_of_aligned_stages_are_folded_and_counted():
    notes = [f"note {number}" for number in range(9)]
    aligned = StageResult("forward", ALIGNED, warnings=["a warning"], notes=notes, tables=[Listing("rates", ["a"], [["1"]])])
    aligned.excuse("inherent: a difference")
    assert below(aligned) == [
        "forward aligned",
        "  warning: a warning",
        "  note: inherent: a difference",
        "-v shows 9 notes, 1 table of aligned stages",
    ]
    whole = "\n".join(shown(aligned, verbose=True))
    assert all(each in whole for each in ("a warning", *notes, "inherent", "rates"))


def test_a_few_notes_of_aligned_stages_are_shown():
    aligned = StageResult("forward", ALIGNED, notes=["a note"], tables=[Listing("rates", ["a"], [["1"]])])
    assert shown(aligned) == shown(aligned, verbose=True)


def test_the_first_value_that_differs_is_told_from_the_one_that_differs_most():
    first, second = pair("a", error=0.1), pair("b", error=0.9)
    lines = below(StageResult("data", DIVERGED, pairs=[first, second]))
    assert lines[0] == "data diverged: a differs, and 1 more value (most: b)"
    assert below(StageResult("data", DIVERGED, pairs=[second, first]))[0] == "data diverged: b differs, and 1 more value"


def test_both_values_of_a_fault_that_is_no_operations_are_told():
    found = Divergence(Point("batch_0"), Point("batch_0", "", "port.py:7", "mean(x)"), value=TracedValue(1.00244149773, 1.31088503550))
    stage = StageResult("metric", DIVERGED, pairs=[pair("batch_0.calibration")], divergence=found, divergences=[found])
    assert below(stage)[0] == "metric diverged: batch_0.calibration differs; 1.00244 here, 1.31089 in the reference"


def test_values_are_told_with_the_digits_that_part_them():
    assert below(diverged(found=fault(value=TracedValue(0.1234567891, 0.1234567892))))[0].endswith(
        "0.1234567891 here, 0.1234567892 in the reference"
    )


@pytest.mark.parametrize(("proven", "word"), [(True, "proven: "), (False, "tried on what differs first: ")])
def test_a_suspected_cause_is_not_called_proven(proven, word):
    cause = Finding("data/extra", "c", "f", proven, 0.9, 0.0)
    lines = below(diverged("data", findings=[cause]))
    assert [line for line in lines if "the error goes from" in line] == [f"  {word}with this changed the error goes from 0.9 to 0"]


def test_the_steps_of_a_region_are_named():
    found = fault("region", region=["layers.py:67", "layers.py:68", "layers.py:70"])
    assert below(diverged(found=found))[0] == (
        "forward diverged: right inputs, another result, by other steps than the reference's; steps: layers.py:67-68, 70"
    )


def test_a_side_that_fails_beside_what_diverges_keeps_its_message_and_its_log():
    failure = {
        "side": "candidate", "type": "ValueError", "message": "no such file", "frames": [f"a.py:{n} in f" for n in range(9)],
        "log": "a.log", "remedy": {"fix": "write it"},
    }  # fmt: skip
    lines = below(diverged(), *(StageResult(name, ERROR, failure=failure) for name in ("infer", "train")))
    assert [line for line in lines if line.startswith("infer error: the candidate failed: ValueError: no such file")]
    assert [line.strip() for line in lines if "a.py" in line] == ["a.py:7 in f", "a.py:8 in f"]
    assert "  fix: write it" in lines
    assert "  log: a.log" in lines


def test_a_stage_without_a_point_names_its_first_value():
    first, *_ = below(StageResult("metric", DIVERGED, pairs=[pair("acc"), pair("top5")]))
    assert first == "metric diverged: acc differs, and 1 more value"
    assert below(StageResult("metric", DIVERGED))[0] == "metric diverged: it differs"


def test_long_and_hostile_texts_stay_in_their_lines():
    hostile = "[bold]x[/nowhere]\n\x1b[2Jy" + "z" * 5000
    bad = fault(notes=[hostile], what="gradient")
    bad.candidate.code = bad.reference.code = hostile
    bad.candidate.lines = [hostile] * 30
    stage = diverged(found=bad, warnings=[hostile], findings=[Finding(hostile, hostile, hostile)])
    lines = below(stage, width=100)
    assert len(lines) <= LINES + 6  # a sentence and a fix may take several rows of a terminal, code takes one
    assert not any("\x1b" in line for line in lines)
    assert "[bold]x[/nowhere]" in "".join(lines)


def test_in_chinese():
    with speaking("zh"):
        lines = below(diverged(), diverged("loss", follows=["forward"]))
    assert lines[0] == "forward 前向 不一致: bn (BatchNorm2D)：输入相同，结果不同；这里 epsilon=1e-05，参考为 0.001"
    assert lines[1].startswith("  参考：net.py:5")
    assert lines[-2] == "loss 损失 不一致: 可能只是由 forward 前向 引起：请先看那里"


def test_where_no_cause_is_known_the_next_remark_is_shown():
    hint = "PyTorch's average counts the padding"
    confirmed = fault(notes=["right inputs, another result", hint], repeats=0)
    assert f"  {hint}" in below(diverged(found=confirmed))
    assert f"  {hint}" not in below(diverged(found=fault(notes=confirmed.notes, repeats=0, confirmed=False)))
    stage = StageResult("forward", DIVERGED, pairs=[pair()], notes=["a tuple of 2 in the reference, a tensor in the candidate"])
    assert "  a tuple of 2 in the reference, a tensor in the candidate" in below(stage)


def test_stages_that_are_weak_for_other_reasons_have_a_line_each():
    weak = [
        StageResult("weights", UNDERPOWERED, warnings=["two layers alike"]),
        StageResult("loss", UNDERPOWERED, warnings=["all labels equal"]),
        StageResult("infer", UNDERPOWERED, warnings=["two layers alike"]),
    ]
    lines = below(diverged(), *weak)
    assert lines[-3:-1] == ["weights, infer underpowered: two layers alike", "loss underpowered: all labels equal"]


def test_what_is_to_be_defined_is_said_on_one_line():
    untested = [
        StageResult("metric", NOT_TESTED, notes=["neither side has metric(outputs, labels)"], lacks=["metric(outputs, labels)"]),
        StageResult("loss", NOT_TESTED, notes=["no labels: …"], lacks=["labels() in the reference"]),
        StageResult("backward", NOT_TESTED, notes=["no labels: …"], lacks=["labels() in the reference"]),
        StageResult("infer", NOT_TESTED, notes=["the candidate's framework has no gradients"]),
    ]
    line = "metric, loss, backward not tested: define metric(outputs, labels), labels() in the reference"
    assert below(diverged(), *untested)[-2] == line
    assert len(below(*(diverged(f"stage{n}") for n in range(40)), *untested)) <= LINES
    with speaking("zh"):
        assert "请定义 metric(outputs, labels)" in "".join(below(diverged(), *untested))


@pytest.mark.parametrize("count", [1, 5, 40])
def test_what_all_rests_on_is_shown_whatever_else_is_there(count):
    stages = [diverged(f"stage{n}", warnings=["w"] * 9, notes=["n"]) for n in range(count)]
    stages[-1].doubt("the reference is not deterministic")
    stages[-1].doubt("not all weights could be carried over")
    stages[0].doubt("not all weights could be carried over")
    lines = below(*stages)
    assert len(lines) <= LINES
    for doubt in ("the reference is not deterministic", "not all weights could be carried over"):
        assert sum(doubt in line for line in lines) == 1


def test_a_doubt_that_makes_a_stage_weak_is_said_once():
    weak = StageResult("weights", UNDERPOWERED)
    weak.doubt("places are guessed " + "z" * 500)
    lines = below(diverged(), weak)
    assert sum("places are guessed" in line for line in lines) == 1


def carried(verdict):
    return StageResult("weights", verdict)


@pytest.mark.parametrize(
    ("names", "guessed", "weights", "doubts"),
    [
        (("forward",), (3, 8), ALIGNED, [GUESSED.format(3, 8)]),
        (("weights", "forward"), (3, 8), ALIGNED, []),  # the stage `weights` has told it
        (("forward",), (0, 0), DIVERGED, [UNCARRIED]),
        (("weights", "forward"), (0, 0), DIVERGED, []),
        (("forward",), (0, 0), ALIGNED, []),
    ],
)
def test_what_a_check_rests_on_is_a_doubt_of_it(names, guessed, weights, doubts):
    proven = [Finding("x", "cause", "fix", proven=True)]
    result = CheckResult([carried(weights) if name == "weights" else diverged(name, findings=proven) for name in names])
    say_follows(result, carried(weights), guessed=guessed)
    assert result.stages[-1].doubts == doubts
    lines = below(*result.stages)
    assert [line for line in lines if line.startswith("warning: ")] == [f"warning: {doubt}" for doubt in doubts]


def test_what_was_not_carried_over_is_told_of_a_check_that_follows_it_by_chance_only():
    result = CheckResult([StageResult("forward", ALIGNED), diverged("loss")])
    for number in (1, 2):
        say_follows(CheckResult(result.stages[:number]), carried(DIVERGED))
    assert result.stages[0].doubts == result.stages[0].warnings == [UNCARRIED]
    assert sum(UNCARRIED in line for line in below(*result.stages)) == 1


def test_a_stage_names_the_functions_that_it_needs_and_the_side_that_lacks_them():
    about = {"reference": ["build_model"], "candidate": []}
    context = SimpleNamespace(about=about, has=lambda side, name: name in about[side], _misspelt=lambda *_: "")
    missing = Context.lacking(context, "metric", "metric", "build_model")
    assert missing.lacks == ["metric(outputs, labels)", "build_model() in the candidate"]
    splits = [("train", StageResult("data", lacks=["build_dataset(split)"])), ("val", StageResult("data", lacks=["build_dataset(split)"]))]
    assert merged(splits).lacks == ["build_dataset(split)"]


@pytest.mark.parametrize(
    ("kind", "message", "lines"),
    [
        (
            "UsageError",
            "a path to predict from is not there\n  where: p.png\n  fix:   set [infer] paths",
            [
                "infer error: the reference failed: UsageError: a path to predict from is not there",
                "  where: p.png",
                "  fix:   set [infer] paths",
            ],
        ),
        (
            "RuntimeError",
            "sizes differ:\n\tw: [3] and [4]",
            ["infer error: the reference failed: RuntimeError: sizes differ: w: [3] and [4]"],
        ),
    ],
)
def test_a_failure_of_several_lines_is_read_as_it_was_written(kind, message, lines):
    failure = {"side": "reference", "type": kind, "message": message, "frames": []}
    shown_lines = below(diverged(), StageResult("infer", ERROR, failure=failure))
    assert [line for line in shown_lines if line in lines] == lines


def test_the_sentence_names_what_differs_before_what_shows_too_little():
    weak = Pair("loss", None, None, stats=Stats(count=1), verdict=UNDERPOWERED, notes=["NaN at the same 1 place of both"])
    lines = shown(StageResult("loss", DIVERGED, "float64", [weak, pair("gradient (native)")]))
    assert any(line.startswith("loss diverged: gradient (native) differs") for line in lines)
    assert not any("NaN at the same" in line for line in lines)
