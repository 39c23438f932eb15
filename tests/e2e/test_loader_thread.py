"""A data set that raises in the thread in which Paddle reads ahead: an error at once, and not a wait for ever."""

from __future__ import annotations

import time

import pytest

from paralign.api import check_project
from paralign.model import ERROR

pytest.importorskip("paddle")

SIDE = """
import numpy as np

class Rows({base}):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        if index == {wrong}:
            raise KeyError("row 13 has no text")
        return np.full(3, index, "float32"), index

def build_dataloader(split):
    return {loader}
"""

SETTINGS = """
stages = ["data"]
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "candidate.py"
framework = "paddle"
"""


def test_a_data_set_that_raises_ends_the_wait_for_it(tmp_path):
    listed = "[(np.stack([Rows()[i][0] for i in range(s, s + 4)]), np.arange(s, s + 4)) for s in range(0, 24, 4)]"
    (tmp_path / "reference.py").write_text(SIDE.format(base="object", wrong=-1, loader=listed))
    text = SIDE.format(base="paddle.io.Dataset", wrong=13, loader="paddle.io.DataLoader(Rows(), batch_size=4)")
    (tmp_path / "candidate.py").write_text("import paddle\n" + text)
    (tmp_path / "paralign.toml").write_text(SETTINGS)
    began = time.monotonic()
    result = check_project(tmp_path)[0]["data"]
    assert time.monotonic() - began < 200
    assert (result.verdict, result.failure["side"]) == (ERROR, "candidate")
    assert "row 13 has no text" in str(result.failure)
