"""A wrong order of elements is named where it is made, although only element-wise operations follow, which no moments can tell apart."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

PORT = """
import paddle


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(32, 32)

    def forward(self, x):
        y = self.linear(x)
        y = {arranged}  # arranged
        return paddle.tanh(y)
"""


def checked(tmp_path, arranged):
    import torch

    from paralign import Side, check

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(32, 32)

        def forward(self, x):
            return self.linear(x).reshape(4, 4, 8).transpose(1, 2).tanh()

    path = tmp_path / "port.py"
    path.write_text(PORT.replace("{arranged}", arranged))
    spec = importlib.util.spec_from_file_location("port", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = check(
        Side(framework="torch", functions={"build_model": Reference}),
        Side(framework="paddle", functions={"build_model": module.Port}),
        inputs=np.random.default_rng(0).standard_normal((4, 32)).astype("float32"),
        stages=["forward"],
    )
    return result["forward"]


def test_a_wrong_order_is_named_where_it_is_made(tmp_path):
    stage = checked(tmp_path, "y.reshape([4, 8, 4])")
    first = stage.divergence
    assert (stage.verdict, first.what, first.confirmed) == ("diverged", "order", True)
    assert first.candidate.code.endswith("# arranged")


def test_the_same_order_by_other_operations_is_right(tmp_path):
    stage = checked(tmp_path, "paddle.stack(y.reshape([4, 4, 8]).unbind(1), -1)")
    assert (stage.verdict, stage.divergences) == ("aligned", [])
