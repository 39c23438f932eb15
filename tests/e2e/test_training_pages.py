"""What the pages about whole trainings show works as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from paralign import cli

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["training.md", "training.zh.md"])
def test_the_page_runs(page, tmp_path, capsys):
    text = (DOCS / page).read_text(encoding="utf-8")
    reference, candidate = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    settings = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    for name, content in (("reference.py", reference), ("candidate.py", candidate), ("paralign.toml", settings)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert cli.main(["check", str(tmp_path), "-v"]) == 1
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    told = re.findall(r"```\n(train diverged\n.*?)```", text, re.DOTALL)[0].splitlines()
    assert shown[shown.index(told[0]) :][: len(told)] == told
    (tmp_path / "candidate.py").write_text("from reference import *\n")
    assert cli.main(["check", str(tmp_path)]) == 4
    report = json.loads((tmp_path / "result" / "report.json").read_text())
    assert report["stages"][0]["coverage"][0] == {"what": "steps one by one", "compared": 12, "total": 12}
