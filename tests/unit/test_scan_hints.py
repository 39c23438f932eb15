"""A diverged stage is told what the catalogue knows of the two lines; nothing is said where both say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paralign.model import DIVERGED, CheckResult, Divergence, Finding, LineProposal, Point, StageResult
from paralign.model.divergences import OtherAxis
from paralign.port.scan import hints
from paralign.port.scan.inventory import Status
from paralign.stages.backward.where_it_starts import MOMENTUM

PAIRS = [
    ("nn.AvgPool2d(3, 2, padding=1)", "nn.AvgPool2D(3, 2, padding=1)", "catalogue/avg-pool2d-padding", "exclusive=False"),
    ("torch.gather(x, 1, i)", "paddle.gather(x, i, 1)", "catalogue/gather-column", "take_along_axis"),
    ("F.grid_sample(x, g)", "F.grid_sample(x, g)", "catalogue/grid-sample-align", "align_corners=False"),
    ("nn.utils.rnn.pack_padded_sequence(x, n)", "x + 0", "catalogue/torch.nn.utils.rnn.pack_padded_sequence", "sequence_length="),
    ("nn.BatchNorm2d(8, momentum=0.01)", "nn.BatchNorm2D(8, momentum=0.01)", "catalogue/batch-norm2d-momentum", "momentum=1 - m"),
    ("nn.AvgPool2d(3, 2, padding=1)", "nn.AvgPool2D(3, 2, padding=1, exclusive=False)", "", ""),
    ("nn.GELU()", "nn.GELU()", "", ""),
    ("nn.Linear(4, 4)", "nn.Linear(4, 4)", "", ""),
    ("x + 1", "x - 1", "", ""),
]


def divergence(tmp_path, reference, candidate):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\ny = {reference}\n")
    two.write_text(f"import paddle\nfrom paddle import nn\nimport paddle.nn.functional as F\ny = {candidate}\n")
    return Divergence(Point("y", source=f"{one}:4"), Point("y", source=f"{two}:4"))


@pytest.mark.parametrize(("reference", "candidate", "rule", "fix"), PAIRS)
def test_the_equivalent_is_named(tmp_path, reference, candidate, rule, fix):
    found = hints.hints(divergence(tmp_path, reference, candidate))
    assert [finding.rule for finding in found][:1] == ([rule] if rule else [])
    if rule:
        assert fix in found[0].fix
        assert not found[0].proven


def test_only_diverged_stages_get_one(tmp_path):
    found = divergence(tmp_path, *PAIRS[0][:2])
    wrong, right = StageResult("forward", DIVERGED, divergence=found), StageResult("loss", divergence=found)
    hints.add(CheckResult(stages=[wrong, right]))
    assert [len(stage.findings) for stage in (wrong, right)] == [1, 0]


@pytest.mark.parametrize("kind", ["suspected", "proven", "another axis"])
def test_findings_that_name_another_stage_come_last_in_every_stage(tmp_path, kind):
    fault = divergence(tmp_path, *PAIRS[0][:2])
    pointer, own = Finding("own_step/update", "…", "run the stage optimizer"), Finding("own", "…", "…", proven=kind == "proven")
    fault.axis = OtherAxis(0, 1, 2, "softmax") if kind == "another axis" else None
    stage = StageResult("backward", DIVERGED, divergence=fault, findings=[pointer, own])
    hints.add(CheckResult(stages=[stage]))
    rules = ["own", *([PAIRS[0][2]] if kind == "suspected" else []), "own_step/update"]
    assert [finding.rule for finding in stage.findings] == rules


@pytest.mark.parametrize("source", [None, "gone.py:3", "no line", "/:1"])
def test_lines_that_cannot_be_read_say_nothing(source):
    assert hints.hints(Divergence(Point("a", source=source), None)) == []


@pytest.mark.parametrize(
    ("folder", "rules"),
    [
        ("lib/site-packages/torch/optim", []),
        ("lib/site-packages/models", ["catalogue/torch.Tensor.addcdiv_"]),
        ("torch/optim", ["catalogue/torch.Tensor.addcdiv_"]),
    ],
)
def test_what_a_framework_does_inside_is_nothing_to_port(tmp_path, folder, rules):
    (tmp_path / folder).mkdir(parents=True)
    own = tmp_path / folder / "rmsprop.py"
    own.write_text("import torch\nbuffer = torch.zeros(3)\nbuffer.mul_(0.9).addcdiv_(buffer, buffer)\n")
    fault = divergence(tmp_path, "x", "x - 1")
    fault.reference.source = f"{own}:3"
    assert [finding.rule for finding in hints.hints(fault)] == rules


def schedules(tmp_path, reference, candidate, reference_class, candidate_class):
    """The hints of schedules that part, each on the third line of its file."""
    ends = []
    for name, code, kind in (("r.py", reference, reference_class), ("c.py", candidate, candidate_class)):
        path = tmp_path / name
        path.write_text(f"import paddle\nfrom torch.optim import lr_scheduler\n{code}\n")
        ends.append(Point("learning rate", kind, f"{path}:3", code))
    return hints.hints(Divergence(*ends))


TWO = "s = lr_scheduler.SequentialLR(o, [], []) if warm else lr_scheduler.StepLR(o, 2)"


def test_a_call_that_did_not_run_gives_no_hint(tmp_path):
    assert schedules(tmp_path, TWO, "s = paddle.optimizer.lr.StepDecay(0.1, 3)", "StepLR", "StepDecay") == []
    found = schedules(tmp_path, TWO, "s = paddle.optimizer.lr.StepDecay(0.1, 3)", "SequentialLR", "StepDecay")
    assert [finding.rule for finding in found] == ["catalogue/torch.optim.lr_scheduler.SequentialLR"]


def test_advice_that_is_followed_already_is_not_given(tmp_path):
    assert schedules(tmp_path, TWO, "s = paddle.optimizer.lr.LambdaDecay(0.1, f)", "SequentialLR", "LambdaDecay") == []


PACKED = """from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

lstm = nn.LSTM(4, 8, batch_first=True)
y = lstm(pack_padded_sequence(x, n, batch_first=True))
"""


@pytest.mark.parametrize(
    ("reference", "call", "layer", "rules"),
    [
        (PACKED, "lstm(x)", "LSTM", ["catalogue/torch.nn.utils.rnn.pack_padded_sequence"]),
        (PACKED, "lstm(x, sequence_length=n)", "LSTM", []),
        (PACKED, "lstm(x, **more)", "LSTM", []),
        (PACKED, "lstm(x, None, n)", "LSTM", []),
        (PACKED, "lstm(*given)", "LSTM", []),
        (PACKED, "lstm(x, None)", "LSTM", ["catalogue/torch.nn.utils.rnn.pack_padded_sequence"]),
        (PACKED, "lstm(x)", "Linear", []),
        (PACKED.replace("pack_padded_sequence(x, n, batch_first=True)", "x"), "lstm(x)", "LSTM", []),
        (
            PACKED.replace("pack_padded_sequence(x, n, batch_first=True)", "x").replace(", batch_first=True", ""),
            "lstm(x)",
            "LSTM",
            ["catalogue/lstm-layout"],
        ),
    ],
    ids=[
        "no lengths",
        "lengths",
        "unknown",
        "by position",
        "unpacked",
        "states alone",
        "another layer",
        "nothing packed",
        "other axis first",
    ],
)
def test_a_recurrent_layer_that_is_given_no_lengths_of_packed_sequences_is_told(tmp_path, reference, call, layer, rules):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(reference)
    two.write_text(f"from paddle import nn\n\nlstm = nn.LSTM(4, 8)\ny = {call}\n")
    ends = Point("lstm", "aten.stack.default (LSTM)", f"{one}:4"), Point("lstm", f"rnn ({layer})", f"{two}:3", lines=[f"{two}:4"])
    assert [finding.rule for finding in hints.hints(Divergence(*ends, what="given"))] == rules


def lacking_lengths(tmp_path, candidate):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(PACKED)
    two.write_bytes(candidate)
    ends = Point("lstm", "aten.stack.default (LSTM)", f"{one}:4"), Point("lstm", "rnn (LSTM)", f"{two}:1", lines=[f"{two}:1"])
    return [finding.rule for finding in hints.hints(Divergence(*ends, what="given"))]


def test_sources_that_cannot_be_read_tell_no_missing_lengths(tmp_path):
    packing = ["catalogue/torch.nn.utils.rnn.pack_padded_sequence"]
    assert lacking_lengths(tmp_path, b"y = lstm(x)\n# -*- coding: latin-1 -*- \xe9\n") == packing
    assert packing[0] not in lacking_lengths(tmp_path, b"y = lstm(x, name='\xe9')\n")
    assert packing[0] not in lacking_lengths(tmp_path, b"y = lstm(x) if\n")


def test_packing_without_advice_gives_no_hint(tmp_path, monkeypatch):
    scanned = hints._scanned
    monkeypatch.setattr(hints, "_scanned", lambda path: [replace(row, status=Status.SAME, notes=[]) for row in scanned(path)])
    assert lacking_lengths(tmp_path, b"y = lstm(x)\n") == []


def test_lengths_that_are_missing_are_told_at_the_calls_that_have_them_and_lack_them(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(PACKED)
    two.write_text("from paddle import nn\n\nlstm = nn.LSTM(4, 8)\ny = lstm(x)\n")
    ends = Point("lstm", "aten.stack.default (LSTM)", f"{one}:4"), Point("lstm", "rnn (LSTM)", f"{two}:3", lines=[f"{two}:4"])
    proposals = [LineProposal("construction-site", f"{two}:3"), LineProposal("call-site", f"{two}:4")]
    fault = Divergence(*ends, what="given", rule="construction-site", proposals=proposals)
    hints.add(CheckResult(stages=[StageResult("forward", DIVERGED, divergence=fault)]))
    assert [(point.source, point.code) for point in ends] == [
        (f"{one}:5", "y = lstm(pack_padded_sequence(x, n, batch_first=True))"),
        (f"{two}:4", "y = lstm(x)"),
    ]
    assert (ends[1].lines, fault.rule, fault.proposals[0].line) == ([f"{two}:3"], "call-site", f"{two}:4")


@pytest.mark.parametrize("written", [False, True])
def test_shared_memory_is_suspected_only_where_elements_are_written(tmp_path, written):
    ends = []
    for name, call in (("torch", "torch.from_numpy(a)"), ("paddle", "paddle.to_tensor(a)")):
        later = "a[0] = 5\n" if written else ""
        path = tmp_path / f"{name}_side.py"
        path.write_text(f"import {name}\nimport numpy as np\na = np.zeros(3)\ny = {call}\n{later}")
        ends.append(Point("y", source=f"{path}:4"))
    rules = [finding.rule for finding in hints.hints(Divergence(*ends))]
    assert rules == ["catalogue/from-numpy-shares"] * written


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([Finding(MOMENTUM, "another share", "")], ["running/momentum", "catalogue/batch-norm2d-momentum"]),
        ([], ["catalogue/batch-norm2d-momentum", "catalogue/batch-norm2d-running-var"]),
    ],
    ids=["momenta differ", "nothing seen"],
)
def test_where_momenta_are_seen_to_differ_no_other_cause_is_suspected(monkeypatch, seen, expected):
    known = [Finding(f"catalogue/batch-norm2d-{name}", name, "") for name in ("momentum", "running-var")]
    monkeypatch.setattr("paralign.port.scan.hints.hints", lambda _: known)
    point = Point("bn.running_mean", "BatchNorm2d", "x.py:1")
    stage = StageResult("backward", DIVERGED, divergence=Divergence(point, point), findings=list(seen))
    hints.add(CheckResult([stage]))
    assert [finding.rule for finding in stage.findings] == expected
