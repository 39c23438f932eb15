"""A few of the kills of ``make kills``, and that it would see what it looks for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability" / "kills.py"


@pytest.fixture(scope="module")
def kills():
    spec = importlib.util.spec_from_file_location("kills", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["kills"]


def test_kills_at_random_moments_leave_no_process_and_no_verdict_of_another_check(kills, tmp_path):
    tallies = kills.run(kills.Bench("numpy", tmp_path / "numpy", ((0, 0), (1, 0))), 3, "test", time.monotonic() + 600)
    assert [tally.kills for tally in tallies.values()] == [1, 1, 1]
    assert sum(tally.following for tally in tallies.values()) >= 2
    assert [fault for tally in tallies.values() for fault in (*tally.wrong, *tally.left, *tally.unequal)] == []


@pytest.fixture
def bench(kills, tmp_path):
    """A bench whose clean report of two alike is ``aligned``; nothing was run."""
    bench = kills.Bench.__new__(kills.Bench)
    bench.framework, bench.folder, bench.before, bench.began = "numpy", tmp_path, (1, 1), 0
    (tmp_path / "said").write_bytes(b"paralign: starting both sides")
    bench.clean = {(0, 0): {"verdict": "aligned", "stages": [{}], "preflight": []}}
    (tmp_path / "result").mkdir()
    return bench


def reported(bench, verdict, **stage):
    said = {"verdict": verdict, "stages": [{"seconds": {}, **stage}], "preflight": ["reused from an earlier run: all"]}
    (bench.folder / "result" / "report.json").write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "verdict", "came"),
    [
        (0, "aligned", "right"),
        (1, "diverged", "wrong"),
        (1, "aligned", "wrong"),
        (4, "aligned", "failed"),
        (0, None, "wrong"),
        (3, "error", "failed"),
        (3, "diverged", "wrong"),
        (70, None, "wrong"),
        (2, None, "wrong"),
        (-9, None, "ended"),
        (-9, "aligned", "ended"),
        (-9, "diverged", "wrong"),
    ],
)
def test_the_benchmark_knows_a_wrong_verdict(bench, code, verdict, came):
    if verdict is not None:
        reported(bench, verdict)
    assert bench.outcome(code, (0, 0)) == came


def test_the_benchmark_knows_the_report_of_an_earlier_check(bench):
    """Only a check that had not begun may have left it there."""
    reported(bench, "diverged")
    bench.began = time.time_ns() + 10**9
    assert bench.outcome(-9, (0, 0)) == "wrong"
    (bench.folder / "said").write_bytes(b"")
    assert bench.outcome(-9, (0, 0)) == "ended before it began"
    assert bench.outcome(1, (0, 0)) == "wrong"


def test_the_benchmark_knows_a_report_that_is_not_that_of_a_clean_run(kills, bench):
    for stage, faults in (({}, 0), ({"worst": 0.1}, 1)):
        tally = kills.Tally()
        reported(bench, "aligned", **stage)
        bench.judge(0, (0, 0), tally, "told")
        assert (tally.following, tally.changed, len(tally.unequal), len(tally.stale)) == (1, 1, faults, faults)


def test_the_benchmark_sees_what_is_left_of_a_check(kills, monkeypatch):
    monkeypatch.setattr(kills, "LIMIT", 0.2)
    env = {**os.environ, kills.MARK: "of this test"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True) as process:
        process.stdin.write(b"begun\n")  # right after its start a program does not show its environment yet
        process.stdin.flush()
        assert process.stdout.readline() == b"begun\n"
        assert [found.split()[0] for found in kills.left("of this test", 0)] == [str(process.pid)]
        process.kill()
    assert kills.left("of this test", 0) == []


def test_reports_that_differ_are_told_by_place(kills):
    clean = {"verdict": "aligned", "stages": [{"notes": []}, {"notes": ["a"]}]}
    assert kills.differing(clean, {"verdict": "aligned", "stages": [{"notes": []}, {"notes": ["a"]}]}) == []
    found = {"verdict": "diverged", "stages": [{"notes": ["b"]}, {"notes": ["c"]}], "more": 1}
    assert kills.differing(clean, found) == [
        "report.more: None / 1",
        "report.stages[0].notes: [] / ['b']",
        "report.stages[1].notes[0]: a / c",
        "report.verdict: aligned / diverged",
    ]
    assert kills.differing(clean, None)[0].endswith(" / None")
