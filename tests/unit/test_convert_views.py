"""Views that are changed where they are made, and samplers derived from BatchSampler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

pytestmark = pytest.mark.programs

PROGRAM = """import torch


def start(asks):
    return torch.arange(8.0).reshape(4, 2).requires_grad_(asks)


def flat(asks):
    x = start(asks)
    with torch.no_grad():
        m = torch.zeros_like(x)
        m.view(-1).index_add_(0, torch.tensor([1, 3, 1]), torch.ones(3))
        m.t().mul_(2)
        m.unsqueeze(0).add_(1)
        m.diagonal().fill_(5)
        m.flatten().clamp_(0, 4)
        m.view(2, 4).copy_(m.view(2, 4) + 1)
    return x, x * m


def asked(asks):
    x = start(asks)
    y = x * 1
    y.view(-1).mul_(2)
    return x, y * 3


def given(asks):
    x = start(asks)
    y = torch.zeros(4, 2)
    y.view(-1).add_(x.reshape(-1))
    return x, x + y * 3


def ran(function, asks):
    try:
        x, out = function(asks)
        got = [round(float(each), 4) for each in out.flatten()]
        if asks:
            out.sum().backward()
            got += [round(float(each), 4) for each in x.grad.flatten()]
        return got
    except NotImplementedError as error:
        return "refused" if "in place" in str(error) else str(error)


for each in (flat, asked, given):
    for asks in (False, True):
        print(each.__name__, asks, ran(each, asks))
"""

SAMPLERS = """import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler


class Numbers(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return torch.tensor(float(i))


class Budget(BatchSampler):
    def __init__(self, sizes, most):
        self.sizes, self.most = sizes, most

    def __iter__(self):
        batch, used = [], 0
        for i, size in enumerate(self.sizes):
            if batch and used + size > self.most:
                yield batch
                batch, used = [], 0
            batch.append(i)
            used += size
        if batch:
            yield batch

    def __len__(self):
        return len(list(iter(self)))


class Twice(BatchSampler):
    def __init__(self, size, drop_last):
        super().__init__(SequentialSampler(Numbers()), size, drop_last)

    def __iter__(self):
        for batch in super().__iter__():
            yield batch + batch


for sampler in (Budget([3, 2, 2, 4, 1, 1, 1], 5), Twice(2, True), Twice(2, False)):
    print(len(sampler), [batch.tolist() for batch in DataLoader(Numbers(), batch_sampler=sampler)])
print(Twice(3, True).batch_size, Twice(3, False).drop_last)
"""


def _printed(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def _both(folder, program):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (folder / "source.py").write_text(program, encoding="utf-8")
    assert not convert_code(folder / "source.py", folder / "port.py").left
    return _printed(folder, "source.py"), _printed(folder, "port.py")


def test_a_view_that_is_changed_where_it_is_made_changes_its_whole(tmp_path):
    source, port = _both(tmp_path, PROGRAM)
    expected = [f"{' '.join(each.split()[:2])} refused" if each.startswith(("asked True", "given True")) else each for each in source]
    assert port == expected
    assert len(port) == 6


def test_classes_derived_from_a_batch_sampler_give_their_own_batches(tmp_path):
    source, port = _both(tmp_path, SAMPLERS)
    assert port == source
    assert len(port) == 4


@pytest.mark.parametrize(
    "line",
    [
        "x.expand(2, 2).mul_(2)",
        "y = x.view(-1).mul_(2)",
        "(x, x)[0].view(-1).mul_(2)",
        "torch.einsum('ii->i', x).mul_(2)",
        "x.T.view(-1).mul_(2)",
    ],
)
def test_what_is_no_view_of_a_name_is_left_by_hand(tmp_path, line):
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(x):\n    {line}\n", encoding="utf-8")
    assert convert_code(tmp_path / "source.py", tmp_path / "port.py").left
