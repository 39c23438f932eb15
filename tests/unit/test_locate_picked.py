"""A right value picked of a wrong one: the line that made the wrong one is named."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.api import check_project
from paralign.locate.runs.traverse import PICKED, first_wrong

NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.steps = torch.nn.GRU(3, 5, batch_first=True)
        self.out = torch.nn.Linear(5, 2)

    def forward(self, x, length):
        h, _ = self.steps(x)
        h = h * torch.arange(1.0, 8.0, dtype=h.dtype)[None, :, None]
        last = h.unbind(1)
        also = last[2] + last[4]
        {picked}
        return self.out(last) + also.sum()

def build_model():
    return Net()
"""

RIGHT = "last = h.gather(1, (length - 1)[:, None, None].expand(-1, 1, 5)).squeeze(1)"
WRONG = """rows = torch.index_select(h, 1, length - 1)
        kept = rows.contiguous()
        last = kept[:, 0]"""

PROJECT = """\
[reference]
module = "reference.py"
framework = "torch"
[candidate]
module = "candidate.py"
framework = "torch"
[[inputs]]
shape = [4, 7, 3]
[[inputs]]
file = "lengths.npy"
"""


@pytest.mark.parametrize("lengths", [[3, 5, 6, 2], [5, 3, 7, 1]])
def test_the_line_that_takes_whole_rows_is_named(tmp_path, lengths):
    pytest.importorskip("torch")
    for side, picked in (("reference", RIGHT), ("candidate", WRONG)):
        (tmp_path / f"{side}.py").write_text(NET.format(picked=picked))
    np.save(tmp_path / "lengths.npy", np.array(lengths))
    (tmp_path / "paralign.toml").write_text(PROJECT)
    stage = next(each for each in check_project(tmp_path, ["forward"])[0].stages if each.name == "forward")
    assert stage.divergence.candidate.code.startswith("rows = "), stage.divergence


class Judged:
    """Values that are numbers, some of them wrong."""

    def __init__(self, *wrong):
        self.wrong = set(wrong)

    def wrong_inputs(self, operation):
        return [each for each in operation.inputs if each.number in self.wrong]

    def takes_right(self, operation):
        return not self.wrong_inputs(operation)


def chained(length, *, stack=("a.py:1",)):
    """Operations in a row, the first of which takes value 0."""
    value, made = SimpleNamespace(number=0, maker=None), []
    for number in range(1, length + 1):
        made.append(SimpleNamespace(inputs=[value], stack=stack))
        value = SimpleNamespace(number=number, maker=made[-1])
    return made


def test_the_first_of_several_wrong_values_is_found():
    made = chained(4)
    assert first_wrong(Judged(1, 2, 3), made[-1]) is made[0]
    assert first_wrong(Judged(2, 3), made[-1]) is made[1]
    assert first_wrong(Judged(), made[-1]) is made[-1]


def test_without_a_right_beginning_nothing_is_moved():
    made = chained(4)
    assert first_wrong(Judged(0, 1, 2, 3), made[-1]) is made[-1]
    assert first_wrong(Judged(1, 2, 3), chained(4, stack=())[-1]).stack == ()
    long = chained(PICKED + 3)
    assert first_wrong(Judged(*range(1, PICKED + 3)), long[-1]) is long[-1]
