"""A wrong metric: the candidate's line that makes it wrong, and the reference's that makes the right one."""

from __future__ import annotations

import pytest
from tests.e2e.written_projects import checked, line_of

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


def test_both_lines_of_a_wrong_metric_are_told(tmp_path):
    result = checked(tmp_path, REFERENCE, CANDIDATE, "metric")
    assert result.verdict == DIVERGED
    found = result.divergence
    assert found.candidate.source.endswith(f"candidate.py:{line_of(CANDIDATE, 'HERE')}")
    assert found.reference.source.endswith(f"reference.py:{line_of(REFERENCE, 'DUE')}")
    assert "np.sqrt(squares).mean()" in found.reference.code
