"""Batches that depend on what else is in them, or on draws: both sides put the same samples together."""

from __future__ import annotations

import random

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED


class Lines:
    """Sequences of 3 to 9 numbers; ``change`` is applied to each."""

    def __init__(self, change):
        self.change = change

    def __len__(self):
        return 24

    def __getitem__(self, index):
        drawn = np.random.RandomState(index)
        return self.change(drawn.randint(1, 50, drawn.randint(3, 10)))


class Loader:
    """As frameworks have them: a data set, a sampler of batches, and a function that puts samples together."""

    def __init__(self, dataset, collate, *, shuffle=True, backwards=False):
        self.dataset, self.collate_fn, self.backwards, self.shuffle = dataset, collate, backwards, shuffle
        self.batch_size, self.batch_sampler = 4, self

    def __len__(self):
        return len(self.dataset) // 4

    def __iter__(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.shuffle(order)
        order = order[::-1] if self.backwards else order
        return iter([order[start : start + 4] for start in range(0, len(order), 4)])


class Iterated(Loader):
    """The batches of a loader, whose sampler is another object."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.batch_sampler = Loader(*given, **named)

    def __iter__(self):
        for indices in self.batch_sampler:
            yield self.collate_fn([self.dataset[index] for index in indices])


def same(ids):
    return ids


def drop_by_mask(ids):
    """Some words become 3, by numbers of numpy."""
    return np.where(np.random.rand(len(ids)) < 0.3, 3, ids)  # noqa: NPY002


def drop_by_copy(ids):
    """The same, by numbers of numpy that are drawn into a name first."""
    draw = np.random.rand(len(ids))  # noqa: NPY002
    out = ids.copy()
    out[draw < 0.3] = 3
    return out


def pad(samples):
    longest = max(map(len, samples))
    return np.stack([np.pad(s, (0, longest - len(s))) for s in samples])


def fill(samples):
    out = np.zeros((len(samples), max(len(s) for s in samples)), samples[0].dtype)
    for row, s in zip(out, samples, strict=True):
        row[: len(s)] = s
    return out


def fill_from_the_right(samples):
    out = np.zeros((len(samples), max(len(s) for s in samples)), samples[0].dtype)
    for row, s in zip(out, samples, strict=True):
        row[len(row) - len(s) :] = s
    return out


def mixed_by_numpy(samples):
    rows = np.stack([s[:3] for s in samples]).astype("float32")
    share = np.float32(np.random.uniform(0.0, 1.0))  # noqa: NPY002
    return share * rows + (1 - share) * rows[::-1]


def mixed_by_python(share=0.0):
    def mix(samples):
        rows = np.stack([s[:3] for s in samples]).astype("float32")
        part = np.float32(random.uniform(share, 1.0))
        return part * rows + (1 - part) * rows[::-1]

    return mix


class Doubled(Iterated):
    """Batches that are changed after they were put together."""

    def __iter__(self):
        for batch in super().__iter__():
            np.multiply(batch, 2, out=batch)
            yield batch


class Unused(Iterated):
    """Batches that another function puts together."""

    def __iter__(self):
        for indices in self.batch_sampler:
            yield mixed_by_python()([self.dataset[index] + 1 for index in indices])


def compared(changes, collates, *, shuffle=True, candidate=Iterated):
    def loader(number):
        return lambda _: (candidate if number else Iterated)(
            Lines(changes[number]), collates[number], shuffle=shuffle, backwards=shuffle and number == 1
        )

    sides = [
        Side(
            framework="numpy",
            functions={"build_dataset": lambda _, change=change: Lines(change), "build_dataloader": loader(number)},
        )
        for number, change in enumerate(changes)
    ]
    return check(*sides, stages=["data"])["data"]


def test_batches_padded_to_their_longest_sample_are_compared_though_both_shuffle():
    stage = compared((same, same), (pad, fill))
    assert stage.verdict == ALIGNED, stage.notes
    assert any("of the same samples" in str(covered) for covered in stage.coverage), stage.coverage


def test_draws_in_samples_of_padded_batches_are_no_fault():
    stage = compared((drop_by_mask, drop_by_copy), (pad, fill))
    assert stage.verdict == ALIGNED, stage.notes


def test_padding_on_the_other_side_is_found_though_both_shuffle():
    for changes in ((same, same), (drop_by_mask, drop_by_copy)):
        stage = compared(changes, (pad, fill_from_the_right))
        assert stage.verdict == DIVERGED
        assert all(pair.key.endswith("(same samples)") for pair in stage.wrong)


def test_draws_in_the_function_that_puts_samples_together_are_replayed():
    for shuffle in (True, False):
        stage = compared((same, same), (mixed_by_numpy, mixed_by_python()), shuffle=shuffle)
        assert stage.verdict == ALIGNED, stage.notes


def test_another_law_of_draws_in_that_function_is_found():
    stage = compared((same, same), (mixed_by_numpy, mixed_by_python(0.5)))
    assert stage.verdict == DIVERGED, stage.notes


@pytest.mark.parametrize("candidate", [Doubled, Unused])
@pytest.mark.parametrize("shuffle", [True, False])
def test_what_a_loader_does_with_batches_that_are_put_together_is_not_passed_over(candidate, shuffle):
    stage = compared((same, same), (mixed_by_numpy, mixed_by_python()), shuffle=shuffle, candidate=candidate)
    assert stage.verdict != ALIGNED, stage.notes
