"""The example of the pages on ``scan`` gives what they show, and both languages show the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paralign.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["scan.md", "scan.zh.md"])
def test_the_example_is_what_scan_prints(page, tmp_path, monkeypatch, capsys):
    (source,) = blocks(page, "python")
    (expected,) = blocks(page, "text")
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(source)
    assert main(["scan", "net.py"]) == 0
    assert expected.strip() in capsys.readouterr().out


def test_both_pages_have_the_same_parts():
    english, chinese = (
        re.findall(r"^(#+ |```\w*|\|)", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE) for name in ("scan.md", "scan.zh.md")
    )
    assert english == chinese
