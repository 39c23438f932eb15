"""What the pages about the optimizer show works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["optimizer.md", "optimizer.zh.md"])
def test_the_page_runs(page, capsys):
    text = (DOCS / page).read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    assert capsys.readouterr().out == re.findall(r"```text\n(.*?)```", text, re.DOTALL)[-1]
