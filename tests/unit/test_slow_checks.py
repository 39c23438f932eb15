"""Edits that nobody asked for are not tried where a run takes long."""

from __future__ import annotations

import pytest

from paralign.api import project_check
from paralign.model import ALIGNED, DIVERGED, Finding, StageResult
from paralign.repair.trying import Repaired


@pytest.mark.parametrize(
    ("stages", "seconds"),
    [
        ([], 0.0),
        ([StageResult("loss", ALIGNED, seconds={"reference": 50.0})], 0.0),
        (
            [StageResult("loss", DIVERGED, seconds={"reference": 5.0, "candidate": 7.0, "total": 30.0}), StageResult("infer", DIVERGED)],
            12.0,
        ),
        ([StageResult("loss", DIVERGED, seconds={"reference": 0.5}), StageResult("backward", DIVERGED, seconds={"reference": 90.0})], 0.5),
    ],
)
def test_only_the_first_stage_that_diverges_counts(stages, seconds):
    result = type("Result", (), {"stages": stages})
    assert project_check._slowness(result) == seconds


def test_a_search_that_fails_changes_nothing_unless_it_was_asked_for(monkeypatch, tmp_path):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(project_check.trying, "repair", fail)
    result = type("Result", (), {"verdict": DIVERGED, "preflight": []})()
    assert project_check._repaired(None, result, tmp_path, 20.0, print, asked=False).patch == b""
    assert result.preflight == ["edits could not be tried: no space left"]
    with pytest.raises(OSError, match="no space"):
        project_check._repaired(None, result, tmp_path, 20.0, print, asked=True)


@pytest.mark.parametrize(
    ("ended", "proven", "asked", "said"),
    [
        (True, 0, False, ["`paralign repair` takes its time"]),
        (False, 0, False, []),
        (True, 1, False, []),
        (True, 0, True, ["more seconds try more"]),
        (False, 0, True, []),
        (True, 1, True, []),
    ],
)
def test_a_search_that_did_not_end_in_time_is_told(monkeypatch, tmp_path, ended, proven, asked, said):
    findings = [("loss", Finding("repair/constant", "a", "b", True))] * proven
    monkeypatch.setattr(project_check.trying, "repair", lambda *_: Repaired(out_of_time=ended, findings=findings))
    result = type("Result", (), {"verdict": DIVERGED, "preflight": []})()
    project_check._repaired(None, result, tmp_path, 20.0, print, asked=asked)
    assert result.preflight == [f"no patch was found in 20 s, and not all edits were tried: {end}" for end in said]
