"""The weights that samplers hold for each sample, compared themselves: a few that differ do not show in frequencies."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

COUNT = 26
X = np.random.default_rng(0).standard_normal((COUNT, 4)).astype("float32")
WEIGHTS = np.linspace(1.0, 3.0, COUNT)
OTHERS = WEIGHTS * np.where(np.isin(np.arange(COUNT), (2, 9, 15, 20)), 1.1, 1.0)


class Ported(paddle.io.Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return X[index]


class Own:
    """A sampler of the user's, which draws by the square of what it holds, or by it."""

    def __init__(self, held, power, replacement=True):
        self.weights, self.power, self.replacement = held, power, replacement
        self.random = np.random.default_rng(5)

    def __len__(self):
        return COUNT

    def __iter__(self):
        p = np.asarray(self.weights) ** self.power
        return iter(self.random.choice(COUNT, COUNT, p=p / p.sum()).tolist())


def weighted(held):
    return torch.utils.data.WeightedRandomSampler(held, COUNT)


def ported_weighted(held):
    return paddle.io.WeightedRandomSampler(held, COUNT)


def compared(theirs, ours):
    def loader(_split):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X)), batch_size=8, sampler=theirs)

    def ported(_split):
        batches = paddle.io.BatchSampler(sampler=ours, batch_size=8)
        return paddle.io.DataLoader(Ported(), batch_sampler=batches)

    sides = [
        Side(framework="torch", functions={"build_dataloader": loader, "build_dataset": lambda _split: [(each,) for each in X]}),
        Side(framework="paddle", functions={"build_dataloader": ported, "build_dataset": lambda _split: [(each,) for each in X]}),
    ]
    return check(*sides, stages=["data"]).stages[-1]


def test_a_few_other_weights_of_the_frameworks_samplers_diverge():
    data = compared(weighted(WEIGHTS), ported_weighted(OTHERS))
    assert data.verdict == DIVERGED
    (finding,) = [each for each in data.findings if each.rule == "data/sampler-weights"]
    assert finding.proven
    assert "the samplers hold other weights for 26 of 26 samples, as shares of all: furthest sample 20" in finding.cause


@pytest.mark.parametrize("held", [WEIGHTS, 7.0 * WEIGHTS, WEIGHTS.astype("float32")], ids=["equal", "scaled", "float32"])
def test_weights_that_are_equal_but_for_scale_and_storing_are_said_to_be(held):
    data = compared(weighted(WEIGHTS), ported_weighted(held))
    assert data.verdict == ALIGNED
    assert any("the weights that both samplers hold for 26 samples are equal but for their scale" in note for note in data.notes)


def test_what_a_sampler_of_the_users_draws_by_is_not_known():
    data = compared(Own(WEIGHTS, 2.0), Own(WEIGHTS**2, 1.0))
    assert not [each for each in data.findings if each.rule == "data/sampler-weights"]
    assert any("whether these samplers draw by them is not known" in said for said in data.warnings)


@pytest.mark.parametrize("held", [None, "text", [1.0], np.full(COUNT, np.nan), -WEIGHTS, np.zeros(COUNT), [[1.0]] * COUNT, object()])
def test_attributes_that_are_no_weights_are_left_alone(held):
    class Odd(Own):
        def __iter__(self):
            return iter(self.random.permutation(COUNT)[:20].tolist())

    data = compared(Odd(held, 1.0), Odd(WEIGHTS, 1.0))
    assert not any("weights" in said for said in [*data.warnings, *data.notes])
