"""One framework on both sides: the example of docs/adapters.md."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


@pytest.mark.torch
def test_another_element_type_of_the_same_framework(capsys):
    pytest.importorskip("torch")
    code = PAGE.read_text().partition("## One framework on both sides")[2].partition("```python\n")[2].partition("```")[0]
    exec(code, {})
    said = code.rpartition("# ")[2].strip()
    assert said.startswith("diverged ")
    assert capsys.readouterr().out.strip() == said
