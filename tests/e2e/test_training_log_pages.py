"""What the pages about training logs show works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from paralign import cli

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["training-logs.md", "training-logs.zh.md"])
def test_the_page_runs(page, tmp_path, monkeypatch):
    text = (DOCS / page).read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    for folder in (tmp_path, tmp_path / "reference", tmp_path / "candidate"):
        folder.mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("[Epoch 0, iter: 1] loss: 1.12500, lr: 0.10000, avg_reader_cost: ")
    monkeypatch.chdir(tmp_path)
    commands = [line.partition("#")[0] for line in re.search(r"```bash\n(.*?)```", text, re.DOTALL)[1].splitlines()]
    assert [cli.main(shlex.split(command)[1:]) for command in commands] == [0, 0, 0, 0]
    assert (tmp_path / "train.csv").read_text().startswith("kind,epoch,iter,loss,lr,acc")
