"""Tables that are computed outside watched operations: the line that computed a wrong one is named, and correct ports stay silent."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

PORT = """
import numpy as np
import paddle
from paddle import nn


def table(length, width):
    place = np.arange(length)[:, None]
    rate = 1.0 / 100.0 ** (np.arange(0, width, 2) / {width})  # rate
    found = np.zeros((length, width))
    found[:, {even}] = np.sin(place * rate)  # sines
    found[:, {odd}] = np.cos(place * rate)
    return found.astype("float32")


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.two = nn.Linear(8, 8)
        self.norm = nn.{norm}
        self.table = table(6, 8)

    def forward(self, x):
        x = self.one(x) + paddle.to_tensor(self.table).astype(x.dtype)
        x = x.transpose([0, 2, 1])
        x = self.norm(x).transpose([0, 2, 1])
        return x + self.two({taken})  # taken
"""

RIGHT = {"width": "width", "even": "0::2", "odd": "1::2", "norm": "InstanceNorm1D(8)", "taken": "paddle.tanh(x)"}


def checked(tmp_path, **changes):
    import torch

    from paralign import Side, check

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
            self.norm = torch.nn.InstanceNorm1d(8, affine=True)
            torch.nn.init.normal_(self.norm.weight)
            place = torch.arange(6).unsqueeze(1)
            rate = torch.exp(torch.arange(0, 8, 2) * (-np.log(100.0) / 8))
            table = torch.zeros(6, 8)
            table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
            self.register_buffer("table", table, persistent=False)

        def forward(self, x):
            x = self.norm((self.one(x) + self.table).transpose(1, 2)).transpose(1, 2)
            return x + self.two(torch.tanh(x))

    path = tmp_path / "port.py"
    path.write_text(PORT.format(**{**RIGHT, **changes}))
    spec = importlib.util.spec_from_file_location("port", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return check(
        Side(framework="torch", functions={"build_model": Reference}),
        Side(framework="paddle", functions={"build_model": module.Port}),
        inputs=np.random.default_rng(0).standard_normal((3, 6, 8)).astype("float32"),
        stages=["weights", "forward"],
    )


def test_a_right_table_is_no_fault(tmp_path):
    assert [(s.verdict, s.divergences) for s in checked(tmp_path).stages] == [("aligned", []), ("aligned", [])]


@pytest.mark.parametrize(
    ("changes", "line"),
    [({"width": "(width - 2)"}, "# rate"), ({"even": ":4", "odd": "4:"}, "# sines"), ({"taken": "x"}, "# taken")],
    ids=["another-rate", "sines-first", "step-missing-after-a-residual"],
)
def test_the_line_that_made_it_is_named(tmp_path, changes, line):
    stage = checked(tmp_path, **changes)["forward"]
    assert stage.verdict == "diverged"
    assert stage.divergence.candidate.code.endswith(line)


def test_a_group_norm_of_single_channels_is_an_instance_norm(tmp_path):
    assert [s.verdict for s in checked(tmp_path, norm="GroupNorm(8, 8)").stages] == ["aligned", "aligned"]
