"""A repaired fault on the terminal: the sentence first, few lines, consequences on a line."""

from __future__ import annotations

import io

from rich.console import Console

from paralign.model import DIVERGED, CheckResult, Finding, StageResult
from paralign.report.language import speaking
from paralign.report.text import render

PATCH = "--- a/net.py\n+++ b/net.py\n@@ -1,3 +1,3 @@\n x = 1\n-y = x * 0.1\n+y = x * 0.2\n z = y\n"


def shown(language="en"):
    found = Finding(
        "repair/constant", "the candidate has `0.1`, the reference `0.2`", "write `0.2` at net.py:2", True, 0.5, 1e-16, PATCH,
        ["loss"], ["data"], "候选端为 `0.1`", "改为 `0.2`",
    )  # fmt: skip
    noisy = StageResult("loss", DIVERGED, warnings=[f"consequence {n}" for n in range(20)])
    result = CheckResult([StageResult("forward", DIVERGED, findings=[found], warnings=["a warning"]), noisy])
    console = Console(width=140, record=True, file=io.StringIO())
    with speaking(language):
        console.print(render(result))
    return console.export_text()


def test_the_sentence_the_lines_and_the_evidence_and_nothing_else():
    text = shown()
    lines = text.splitlines()
    assert len(lines) <= 12
    first = next(n for n, line in enumerate(lines) if "the candidate has `0.1`" in line)
    assert [line.strip() for line in lines[first + 1 : first + 4]] == ["write `0.2` at net.py:2", "-y = x * 0.1", "+y = x * 0.2"]
    assert "error 0.5, then 1e-16" in text
    assert "gone with the patch of forward" in text
    assert "not gone: data" in text
    assert "consequence" not in text


def test_in_chinese_too():
    text = shown("zh")
    assert "候选端为" in text
    assert "已证实" in text
