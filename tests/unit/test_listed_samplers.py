"""A sampler that is a list of indices: its order is compared, what it is called tells nothing."""

from __future__ import annotations

import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
data = torch.utils.data

COUNT = 8


def side(loader):
    def dataset(split):
        return data.TensorDataset(torch.arange(3.0 * COUNT).reshape(COUNT, 3), torch.arange(COUNT) % 3)

    return Side(framework="torch", functions={"build_dataset": dataset, "build_dataloader": lambda split: loader(dataset(split))})


def batched(samples):
    return data.DataLoader(samples, batch_sampler=data.BatchSampler(data.SequentialSampler(samples), 4, drop_last=False))


@pytest.mark.parametrize("form", [list, tuple, range], ids=lambda form: form.__name__)
def test_the_same_order_in_a_list_is_no_difference(form):
    order = range(COUNT) if form is range else form(range(COUNT))
    result = check(side(lambda samples: data.DataLoader(samples, batch_size=4, sampler=order)), side(batched), stages=["data"])["data"]
    assert result.verdict == ALIGNED, [(pair.key, pair.notes) for pair in result.pairs if pair.wrong]


def test_another_order_is_found():
    order = [1, 0, *range(2, COUNT)]
    result = check(side(lambda samples: data.DataLoader(samples, batch_size=4, sampler=order)), side(batched), stages=["data"])["data"]
    assert result.verdict == DIVERGED
