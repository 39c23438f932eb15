"""Random transforms: draws of one side replayed on the other, and distributions where they cannot be."""

from __future__ import annotations

import linecache
import random
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import Side, check
from paralign.adapters._drawing import FUNCTIONS
from paralign.adapters.numpy import create
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.stages.common.places import sample_of
from paralign.worker.draws.tape import Tape


class Data:
    """Rows of 12 numbers, changed by ``augment``."""

    def __init__(self, augment, length=40):
        self.augment, self.length = augment, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.augment(np.random.RandomState(index).randn(12).astype("float32")), index % 3


def reference(x):
    """Flip, shift and scale, by numpy."""
    if np.random.rand() < 0.5:  # noqa: NPY002
        x = x[::-1]
    start = np.random.randint(0, 5)  # noqa: NPY002
    return x[start : start + 8] * np.float32(np.random.uniform(0.8, 1.2))  # noqa: NPY002


def ported(share=0.5, last=4, low=0.8, high=1.2, noise=0.0):
    """The same by Python's generator."""

    def augment(x):
        if random.random() < share:
            x = x[::-1]
        start = random.randint(0, last)
        return x[start : start + 8] * np.float32(random.uniform(low, high)) + np.float32(noise)

    return augment


def without_flip(x):
    start = random.randint(0, 4)
    return x[start : start + 8] * np.float32(random.uniform(0.8, 1.2))


def scale_first(x):
    scale = np.float32(random.uniform(0.8, 1.2))
    start = random.randrange(5)
    return (x[::-1] if random.random() < 0.5 else x)[start : start + 8] * scale


def compared(first, second):
    sides = [Side(framework="numpy", functions={"build_dataset": lambda _, augment=augment: Data(augment)}) for augment in (first, second)]
    return check(*sides, stages=["data"])["data"]


def test_equal_transforms_of_other_generators_are_aligned_with_draws_replayed():
    stage = compared(reference, ported())
    assert stage.verdict == ALIGNED, stage.notes
    assert any(note.startswith("random: the samples agree with the reference's draws in place of the candidate's") for note in stage.notes)
    assert "samples with draws replayed" in str(stage.coverage[0])
    assert all(p.verdict == ALIGNED for p in stage.pairs if p.judged)


@pytest.mark.parametrize("wrong", [ported(share=0.3), ported(low=0.9, high=1.1), ported(noise=0.1)], ids=["probability", "range", "offset"])
def test_a_transform_that_does_otherwise_with_the_same_draws_is_found(wrong):
    stage = compared(reference, wrong)
    assert stage.verdict == DIVERGED
    assert any("differ also with the reference's draws in place" in note for note in stage.notes), stage.notes
    assert any("has one law with a probability of" in note for note in stage.notes), stage.notes


def test_a_probability_is_tried_under_many_seeds_where_both_draw_the_same_stream():
    def other(x):
        flip = np.random.rand() < 0.4  # noqa: NPY002
        start = np.random.randint(0, 5)  # noqa: NPY002
        return (x[::-1] if flip else x)[start : start + 8] * np.float32(np.random.uniform(0.8, 1.2))  # noqa: NPY002

    assert compared(reference, reference).verdict == ALIGNED
    stage = compared(reference, other)
    assert stage.verdict == DIVERGED
    assert any("samples differ under seeds of their own" in note for note in stage.notes), stage.notes


class Shuffled:
    """Batches of four samples in a random order, another one on each side."""

    def __init__(self, data, backwards, turned=False):
        self.data, self.backwards, self.turned = data, backwards, turned

    def __len__(self):
        return len(self.data) // 4

    def __iter__(self):
        order = random.sample(range(len(self.data)), len(self.data))
        order = order[::-1] if self.backwards else order
        for start in range(0, len(order), 4):
            rows = [self.data[index] for index in order[start : start + 4]]
            batch = np.stack([row for row, _ in rows])
            yield batch.T if self.turned else batch, np.array([label for _, label in rows])


def shuffled(first, second, turned=False):
    sides = [
        Side(
            framework="numpy",
            functions={
                "build_dataset": lambda _, augment=augment: Data(augment),
                "build_dataloader": lambda _, augment=augment, number=number: Shuffled(Data(augment), number == 1, turned and number == 1),
            },
        )
        for number, augment in enumerate((first, second))
    ]
    return check(*sides, stages=["data"])["data"]


def test_samples_of_shuffled_batches_meet_other_draws():
    """Both sides draw the same numbers for a sample that is read by itself; in another order each meets draws that were another's."""
    stage = shuffled(reference, reference)
    assert stage.verdict == ALIGNED, stage.notes
    assert any("in shuffled batches each meets other draws, so their contents were not compared" in note for note in stage.notes), (
        stage.notes
    )


def test_shuffled_batches_of_another_shape_are_found():
    assert shuffled(reference, reference, turned=True).verdict == DIVERGED


def test_a_wrong_transform_behind_shuffled_batches_is_found():
    def offset(x):
        return reference(x) + np.float32(0.1)

    assert shuffled(reference, offset).verdict == DIVERGED


def test_another_scale_is_found_where_draws_do_not_fit():
    """The reference's draws come in another order; ten times as large is another law all the same."""

    def larger(x):
        return np.float32(10) * scale_first(x)

    assert compared(reference, larger).verdict == DIVERGED


def test_another_order_of_draws_is_judged_by_distributions():
    stage = compared(reference, scale_first)
    assert stage.verdict == UNDERPOWERED
    assert any("no difference was seen, which proves no equality" in note for note in stage.notes), stage.notes


@pytest.mark.parametrize("wrong", [without_flip, ported(low=2.8, high=3.2, last=5)], ids=["no flip", "span and range"])
def test_other_distributions_are_found_where_draws_do_not_fit(wrong):
    stage = compared(reference, wrong)
    assert stage.verdict == DIVERGED
    assert any("has one law with a probability of" in note for note in stage.notes), stage.notes


def test_what_one_side_alone_draws_stays_a_divergence():
    assert compared(lambda x: x, lambda x: x * np.float32(random.random())).verdict == DIVERGED


# -- the tape ----------------------------------------------------------------------------------------------------------------------


def taped(act, given=None):
    session = SimpleNamespace(adapter=create())
    tape = Tape(session, given)
    with tape.running():
        result = act()
    return tape, result


def calls():
    return [
        random.random(),
        random.uniform(2, 4),
        random.randint(3, 9),
        random.randrange(7),
        random.choice("abcdef"),
        random.gauss(1, 2),
        np.random.rand(2, 3),  # noqa: NPY002
        np.random.randint(0, 5, 4),  # noqa: NPY002
        np.random.permutation(6),  # noqa: NPY002
        np.random.normal(3, 0.5, 2),  # noqa: NPY002
    ]


def test_a_tape_gives_back_what_it_recorded_whatever_the_seed():
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    recorded, first = taped(calls)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    replayed, second = taped(calls, recorded.draws)
    assert (replayed.misfit, replayed.left_over) == ("", 0)
    for one, other in zip(first, second, strict=True):
        assert type(one) is type(other)
        assert np.array_equal(one, other) or np.allclose(one, other, rtol=1e-12)


def one():
    return random.random()


def test_functions_are_put_back_also_after_an_exception():
    before = [random.random, np.random.rand]
    with pytest.raises(ZeroDivisionError):
        taped(lambda: 1 // 0)
    assert [random.random, np.random.rand] == before


def test_draws_that_do_not_fit_are_named_and_drawn_anew():
    recorded, _ = taped(one)
    tape, _ = taped(lambda: random.randint(0, 3), recorded.draws)
    assert tape.misfit == "draw 0: 1 whole (below 4) by random.randint, where the reference drew 1 uniform by random.random"
    tape, _ = taped(lambda: None, recorded.draws)
    assert tape.left_over == 1


def test_every_function_of_the_table_is_there():
    import importlib

    for function in FUNCTIONS[""]:
        assert callable(getattr(importlib.import_module(function.owner), function.name))


def test_the_line_of_a_wrong_transform_is_found_with_equal_draws():
    """Draws of two generators differ: traced with its own, whatever is made of a draw would be blamed."""
    stage = labelled(ported(noise=0.1))
    assert stage.verdict == DIVERGED, stage.notes
    assert [f.cause for f in stage.findings] == ["the candidate's values are the reference's plus 0.1"]
    assert all(f.proven for f in stage.findings)


class Labelled(Data):
    """As ``Data``; some samples have another label."""

    def __init__(self, augment, relabelled=(), fails=()):
        super().__init__(augment, length=300)
        self.relabelled, self.fails = relabelled, fails

    def __getitem__(self, index):
        if index in self.fails:
            raise OSError("broken file")
        x, label = super().__getitem__(index)
        return x, dict(self.relabelled).get(index, label)


def file_and_line(source):
    file, _, line = source.rpartition(":")
    return file, int(line)


def labelled(augment, **wrong):
    sides = [
        Side(framework="numpy", functions={"build_dataset": lambda _, made=made: made})
        for made in (Labelled(reference), Labelled(augment, **wrong))
    ]
    return check(*sides, stages=["data"])["data"]


def test_draws_of_every_sample_are_replayed():
    stage = labelled(ported())
    assert stage.verdict == ALIGNED, stage.notes
    assert "300 of 300" in str(stage.coverage[0]) or "300 samples" in str(stage.coverage[0])


@pytest.mark.parametrize("augment", [ported(), reference, scale_first], ids=["replayed", "one stream", "draws in another order"])
def test_two_exchanged_labels_of_300_random_samples_are_found(augment):
    """Counts of classes stay what they were, and the samples' other parts differ by their draws."""
    stage = labelled(augment, relabelled={217: 218 % 3, 218: 217 % 3})
    assert stage.verdict == DIVERGED, stage.notes
    assert [key.step for p in stage.wrong if (key := sample_of(p)) is not None] == [217, 218]
    if augment is not scale_first:  # there the other part of the sample differs as well
        assert stage.divergence is not None
        assert stage.divergence.candidate is not None
        assert "self.relabelled" in linecache.getline(*file_and_line(stage.divergence.candidate.source)), stage.divergence


def test_a_random_sample_that_one_side_cannot_read_is_found():
    stage = labelled(ported(), fails=(217,))
    assert stage.verdict == DIVERGED, stage.notes
    assert any("the candidate fails with OSError: broken file" in note for p in stage.wrong for note in p.notes)
