"""The project of the page on GPUs: aligned on a card, and a clear error without one."""

from pathlib import Path

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED

PAGE = Path(__file__).parents[2] / "docs" / "devices.md"

SIDE = """
import torch

def build_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 3))
"""


@pytest.mark.torch
def test_a_side_of_the_page_runs_on_the_card_or_says_that_there_is_none(tmp_path):
    torch = pytest.importorskip("torch")
    for side in ("reference", "candidate"):
        (tmp_path / f"{side}.py").write_text(SIDE)
    inputs = '[reference]\nframework = "torch"\n[inputs]\nshape = [4, 2, 8, 8]\n'
    (tmp_path / "paralign.toml").write_text(inputs + PAGE.read_text().split("```toml\n")[1].split("```")[0])
    if torch.cuda.is_available():
        result, _ = check_project(tmp_path, ["weights", "forward"])
        assert result.verdict == ALIGNED
    else:
        result, _ = check_project(tmp_path, ["forward"])
        assert "PyTorch has no device 'gpu:0' here" in str(result.stages[0].failure)
