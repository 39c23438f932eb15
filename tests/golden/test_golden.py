"""Whole texts: the terminal's table, the list of pairs, report.json and a diff log of one fixed result, line by line.

After a change that is meant, write them anew and read the difference before it is committed::

    PARALIGN_GOLDEN=write pytest tests/golden
    git diff tests/golden
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from paralign.model import (
    ALIGNED,
    DIVERGED,
    ERROR,
    NOT_TESTED,
    UNDERPOWERED,
    CheckResult,
    Coverage,
    Divergence,
    Finding,
    Listing,
    Noise,
    Pair,
    Point,
    Record,
    StageResult,
    Stats,
)
from paralign.report import artifacts, short_form, text

HERE = Path(__file__).parent
WRITE = os.environ.get("PARALIGN_GOLDEN") == "write"


def record(number, name, *, dtype="float32", shape=(4, 10), **more):
    return Record(number, name, more.pop("stage", "forward"), more.pop("role", "output"), dtype, shape, **more)


def stats(error, count=40, **more):
    return Stats(
        count=count,
        mismatched=count if error else 0,
        max_abs=3 * error,
        max_abs_at=(0, 7) if error else None,
        mean_abs=error,
        rel_l2=error,
        **more,
    )


def weights():
    first, second = (
        record(0, "fc.weight", role="parameter", op="Linear"),
        record(0, "fc.weight", role="parameter", op="Linear", shape=(10, 4)),
    )
    lost = Pair("fc.scale", record(1, "fc.scale", role="parameter", shape=(4,)), None, how="none", verdict=DIVERGED)
    lost.notes.append(
        "no counterpart of this name; of layer Linear, leaf 'scale' and shape (4,), 1 left over in the reference and 0 in the candidate"
    )
    pairs = [Pair("fc.weight", first, second, transform="transpose(1, 0)", stats=stats(0.0), verdict=ALIGNED), lost]
    return StageResult(
        "weights",
        DIVERGED,
        "exact",
        pairs,
        Divergence(Point("fc.scale", "Linear"), None, lost),
        notes=["1 tensors mapped, 1 of them transposed by layer type"],
    )


def forward():
    ends = record(0, "output", dtype="float64"), record(0, "output", dtype="float64")
    pair = Pair("output", *ends, stats=stats(2.5e-3, rms_reference=1.0, rms_candidate=1.0), verdict=DIVERGED)
    pair.noise = Noise(4e-7, "the reference's float64 run against its native run")
    pair.notes.append("NaN at the same 2 places of both")
    divergence = Divergence(
        Point("features.3", "AvgPool2d", "model.py:41", "x = self.pool(x)  # [bold]"),
        Point("features.3", "AvgPool2D", "port.py:17", "x = self.pool(x)"),
        pair,
        last_agreeing="features.2",
        confirmed=True,
    )
    finding = Finding(
        "pooling.exclusive", "padding counts in the mean", "exclusive=False", proven=True, error_before=2.5e-3, error_after=1e-16
    )
    divergence.what, divergence.error_before, divergence.error, divergence.error_after, divergence.noise = (
        "different",
        1e-9,
        2.5e-3,
        0.0,
        2.4e-7,
    )
    divergence.chain, divergence.notes = ["features.1  conv2d", "features.2  relu"], ["right inputs, another result"]
    for point, exclusive in ((divergence.reference, False), (divergence.candidate, True)):
        point.arguments = {"kernel_size": [3, 3], "exclusive": exclusive}
    missing = Divergence(
        Point("head", "aten.tanh.default", "model.py:50", "x = self.fc(x).tanh()"),
        Point("", "matmul", "port.py:29", "x = self.fc(x)", ["port.py:40"]),
        what="missing",
        error_before=0.0,
        error=0.5,
        noise=2.4e-7,
        notes=["the reference does something first that is missing here", "suspected"],
    )
    return StageResult("forward", DIVERGED, "float64", [pair], divergence, [divergence, missing], [finding], seconds={"reference": 0.25, "candidate": 1.5},
                       peak_bytes={"reference": 1e8, "candidate": 2e8})  # fmt: skip


def data():
    name = record(0, "sample_0", dtype="str", shape=(), role="sample", leaf="name", text="cat.png")
    pairs = [
        Pair("sample_0.name", name, name, verdict=ALIGNED),
        Pair("sample_0.image", record(1, "sample_0"), record(1, "sample_0"), stats=stats(0.0), verdict=ALIGNED),
    ]
    pairs[1].noise = Noise(1.1920929e-07, "one rounding of float32")
    return StageResult(
        "data",
        ALIGNED,
        "rounding",
        pairs,
        notes=["only the first 64 batches were looked at; raise [data] most to see the last one"],
        coverage=[Coverage("samples", 5000, 1281167), Coverage("batches", 64)],
    )


def metric():
    ends = record(0, "all", dtype="float64", shape=()), record(0, "all", dtype="float64", shape=())
    nan = Pair(
        "all.accuracy",
        *ends,
        stats=Stats(count=1, nan=1, nan_candidate=1),
        verdict=DIVERGED,
        noise=Noise(2.2e-16, "one rounding of float64"),
    )
    nan.notes.append("NaN at 1 place of the candidate only")
    more = [
        Pair(f"batch_{n}.accuracy", *ends, stats=stats(0.1 * n, 1), verdict=DIVERGED, noise=Noise(2.2e-16, "one rounding of float64"))
        for n in range(1, 8)
    ]
    return StageResult("metric", DIVERGED, "rounding", [nan, *more], warnings=["probe_ties.accuracy: on tied scores the metrics differ"])


def loss():
    pair = Pair(
        "loss",
        record(0, "loss", shape=()),
        record(0, "loss", shape=()),
        stats=stats(0.02, 1),
        verdict=UNDERPOWERED,
        noise=Noise(0.5, "perturbation"),
    )
    pair.notes.append("the reference's own noise is 0.5 of its values: agreement within it proves nothing")
    return StageResult("loss", UNDERPOWERED, "perturbation", [pair])


def infer():
    failure = {
        "side": "candidate",
        "type": "ValueError",
        "message": "no such file [/tmp]",
        "traceback": "Traceback (most recent call last):\n"
        + "".join(f"  line {n}\n" for n in range(9))
        + "ValueError: no such file [/tmp]\n",
        "frames": [f"port.py:{n} in layer_{n}: return [red]f(x)" for n in range(8)],
        "log": "result/workers/candidate.log",
    }
    return StageResult("infer", ERROR, failure=failure)


def result():
    """One of everything that a check can come to, with extremes in its numbers."""
    side = {
        "framework": "torch",
        "versions": {"torch": "2.0"},
        "flags": {"threads": 1, "scale": math.inf, "other": math.nan},
        "python": "3.11.7",
    }
    stages = [
        weights(),
        forward(),
        data(),
        metric(),
        loss(),
        StageResult("optimizer", ALIGNED, tables=[Listing("learning rate", ["step", "reference"], [["0", "0.1"], ["30", "0.01\x1b[2J"]])]),
        StageResult("backward", NOT_TESTED, notes=["neither side has loss(outputs, labels)"]),
        infer(),
    ]
    preflight = ["reference: torch 2.0 on cpu, Python 3.11.7", "candidate: paddle 3.0 on cpu, Python 3.11.7"]
    return CheckResult(
        stages, preflight, side, {"framework": "paddle", "versions": {"paddle": "3.0"}, "flags": {"scale": -math.inf}, "python": "3.11.7"}
    )


def shown(renderable, width=140):
    """What a terminal of this width without colours shows; blanks at line ends left out."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def log():
    reference = {
        "output": np.array([1.0, 2.0], np.float32),
        "size": np.array(3),
        "mask": np.array([True]),
        "other": np.zeros((2, 3)),
        "gone": np.ones(2),
    }
    candidate = {
        "output": np.array([1.0, 2.5], np.float32),
        "size": np.array(3),
        "mask": np.array([False]),
        "other": np.zeros((3, 2)),
        "new": np.ones(1),
    }
    lines = artifacts.log(forward(), reference, candidate)
    return "\n".join(re.sub(r"^\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\]", "[time]", line) for line in lines) + "\n"


TEXTS = {
    "report.txt": lambda: shown(short_form.render(result())),
    "narrow.txt": lambda: shown(short_form.render(result()), 80),
    "verbose.txt": lambda: shown(short_form.render(result(), verbose=True)),
    "pairs.txt": lambda: shown(text.pairs(result())),
    "report.json": lambda: result().to_json() + "\n",
    "diff.log.txt": log,
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_as_they_were(name):
    path, found = HERE / name, TEXTS[name]()
    if WRITE:
        path.write_text(found, encoding="utf-8")
        pytest.skip("written anew")
    expected = path.read_text(encoding="utf-8").splitlines()
    for number, (line, wanted) in enumerate(zip(found.splitlines(), expected, strict=False), 1):
        assert line == wanted, f"{name}, line {number}"
    assert len(found.splitlines()) == len(expected)


def test_the_report_is_strict_json_with_infinities_and_nan_as_words():
    def refuse(constant):
        raise AssertionError(constant)

    report = json.loads((HERE / "report.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert report["reference"]["flags"] == {"threads": 1, "scale": "inf", "other": "nan"}
    assert report["candidate"]["flags"] == {"scale": "-inf"}
    assert [s["ratio"] for s in report["stages"] if s["name"] == "metric"] == ["inf"]


def test_the_report_has_the_documented_fields():
    report = json.loads((HERE / "report.json").read_text(encoding="utf-8"))
    assert (report["schema"], report["verdict"]) == (1, "error")
    for stage in report["stages"]:
        assert {"name", "verdict", "method", "error", "noise", "ratio", "pairs", "divergence", "findings"} <= set(stage)
    forward_stage = next(s for s in report["stages"] if s["name"] == "forward")
    assert {"name", "op", "source"} <= set(forward_stage["divergence"]["reference"])
    texts = {"rule", "cause", "fix", "cause_zh", "fix_zh", "patch"}
    assert set(forward_stage["findings"][0]) == texts | {"proven", "error_before", "error_after", "gone", "stays", "together"}
