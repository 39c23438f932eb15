"""Batches of two loaders that shuffle: made of the same samples they are compared, padded, along other axes, with more beside them."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

RANDOM = np.random.default_rng(0)
ROWS = [RANDOM.integers(1, 100, length) for length in RANDOM.integers(2, 9, 22)]


class TorchRows(torch.utils.data.Dataset):
    def __len__(self):
        return len(ROWS)

    def __getitem__(self, index):
        return ROWS[index], index % 3


class PaddleRows(paddle.io.Dataset):
    def __len__(self):
        return len(ROWS)

    def __getitem__(self, index):
        return ROWS[index], index % 3


def padded(batch, value=0):
    most = max(len(row) for row, _ in batch)
    rows = np.stack([np.pad(row, (0, most - len(row)), constant_values=value) for row, _ in batch])
    return rows, np.array([label for _, label in batch])


def lying(batch):
    return padded(batch)[0].T, padded(batch)[1]


def ragged(batch):
    return np.concatenate([row for row, _ in batch]), np.array([len(row) for row, _ in batch]), padded(batch)[1]


def weighed(batch, weight=0.5):
    return {"rows": np.stack([row[:2] for row, _ in batch]), "labels": padded(batch)[1], "weight": weight}


def masked(batch):
    rows, labels = padded([(row[:2], label) for row, label in batch])
    return np.where(np.random.rand(*rows.shape) < 0.3, 0, rows), labels  # noqa: NPY002 - what the worker seeds


def masked_by_itself(batch):
    rows, labels = padded([(row[:2], label) for row, label in batch])
    return np.where(RANDOM.random(rows.shape) < 0.3, 0, rows), labels


def shifted(collate):
    """The labels are one further."""

    def made(batch):
        return collate([(row, (label + 1) % 3) for row, label in batch])

    return made


def data(reference, candidate, *, dataset=True):
    sides = []
    for framework, package, rows, collate in (
        ("torch", torch.utils.data, TorchRows, reference),
        ("paddle", paddle.io, PaddleRows, candidate),
    ):
        functions = {
            "build_dataset": lambda _, rows=rows: rows(),
            "build_dataloader": lambda _, p=package, r=rows, c=collate: p.DataLoader(r(), batch_size=4, shuffle=True, collate_fn=c),
        }
        sides.append(Side(framework=framework, functions=functions if dataset else {"build_dataloader": functions["build_dataloader"]}))
    return check(*sides, stages=["data"])["data"]


def coverage(result):
    return {c.what: (c.compared, c.total) for c in result.coverage}


@pytest.mark.parametrize("collate", [padded, lying, ragged, weighed])
def test_right_batches_of_other_orders_are_aligned(collate):
    result = data(collate, collate)
    assert result.verdict == ALIGNED, (result.notes, [(p.key, p.notes) for p in result.wrong])
    assert coverage(result)["batches of the same samples"] == (5, 6)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (padded, lambda batch: padded(batch, 7)),
        (padded, shifted(padded)),
        (lying, shifted(lying)),
        (ragged, shifted(ragged)),
        (weighed, shifted(weighed)),
        (weighed, lambda batch: weighed(batch, 0.25)),
    ],
)
def test_wrong_batches_of_other_orders_diverge(reference, candidate):
    result = data(reference, candidate)
    assert result.verdict == DIVERGED
    assert all("same samples" in p.key for p in result.wrong)
    assert not any("set the batch size" in f.fix for f in result.findings)


@pytest.mark.parametrize(("dataset", "verdict"), [(True, ALIGNED), (False, UNDERPOWERED)])
def test_loaders_that_draw_by_themselves_are_said_not_to_be_compared(dataset, verdict):
    result = data(masked_by_itself, masked_by_itself, dataset=dataset)
    assert result.verdict == verdict, result.notes
    assert coverage(result)["batches"] == (0, 6)
    assert any("they are random beside their samples" in note for note in result.notes)


@pytest.mark.parametrize("dataset", [True, False])
def test_loaders_whose_draws_are_seen_are_compared_with_equal_ones(dataset):
    result = data(masked, masked, dataset=dataset)
    assert result.verdict == ALIGNED, result.notes
    assert coverage(result)["batches of the same samples"] == (5, 6)


class Own:
    """A loader of its own kind, which takes no indices."""

    def __init__(self, draw, collate):
        self.draw, self.collate = draw, collate

    def __len__(self):
        return 5

    def __iter__(self):
        order = self.draw()
        for at in range(0, 20, 4):
            yield self.collate([(ROWS[index], index % 3) for index in order[at : at + 4]])


def test_padded_batches_of_a_loader_of_its_own_kind_are_no_false_alarm():
    import random

    draws = (lambda: np.random.permutation(20)), (lambda: random.sample(range(20), 20))  # noqa: NPY002 - what the worker seeds
    functions = [{"build_dataset": lambda _: TorchRows(), "build_dataloader": lambda _, draw=draw: Own(draw, padded)} for draw in draws]
    result = check(*(Side(framework="numpy", functions=each) for each in functions), stages=["data"])["data"]
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.wrong]
    assert coverage(result)["batches"] == (0, 5)
    assert any("padding?" in note for note in result.notes)
