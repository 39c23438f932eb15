"""A wrong metric: the candidate's line that makes it wrong, and the reference's that makes the right one."""

from __future__ import annotations

import textwrap

import pytest

from paralign.api import check_project
from paralign.model import DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
    import numpy as np
    import torch

    def build_model():
        return torch.nn.Linear(6, 3)

    def inputs():
        return np.random.default_rng(0).standard_normal((16, 6)).astype("float32")

    def labels():
        return np.random.default_rng(1).standard_normal((16, 3)).astype("float32")

    def metric(outputs, labels):
        apart = (outputs - labels).numpy()
        squares = (apart ** 2).mean(axis=0)
        return {"rmse": float(np.sqrt(squares).mean())}  # DUE
"""

CANDIDATE = """
    import numpy as np
    import paddle

    def build_model():
        return paddle.nn.Linear(6, 3)

    def metric(outputs, labels):
        apart = (outputs - labels).numpy()
        squares = (apart ** 2).mean(axis=0)
        return {"rmse": float(np.sqrt(squares.mean()))}  # HERE
"""

SETTINGS = """
    out = "result"
    stages = ["weights", "metric"]
    [reference]
    module = "reference.py"
    framework = "torch"
    [candidate]
    module = "candidate.py"
    framework = "paddle"
"""


def line_of(text, mark):
    return next(n for n, line in enumerate(textwrap.dedent(text).lstrip("\n").splitlines(), 1) if mark in line)


def test_both_lines_of_a_wrong_metric_are_told(tmp_path):
    for name, text in {"reference.py": REFERENCE, "candidate.py": CANDIDATE, "paralign.toml": SETTINGS}.items():
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    result = check_project(tmp_path)[0]["metric"]
    assert result.verdict == DIVERGED
    found = result.divergence
    assert found.candidate.source.endswith(f"candidate.py:{line_of(CANDIDATE, 'HERE')}")
    assert found.reference.source.endswith(f"reference.py:{line_of(REFERENCE, 'DUE')}")
    assert "np.sqrt(squares).mean()" in found.reference.code
