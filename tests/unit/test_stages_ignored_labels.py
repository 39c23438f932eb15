"""Labels to be ignored that the compared split does not have: known from another split, or from the code."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.adapters.numpy import NumpyAdapter
from paralign.model import ALIGNED, DIVERGED
from paralign.worker.evaluation import ignored
from paralign.worker.sides.session import Session

WEIGHT = np.random.RandomState(3).randn(6, 3).astype("float32")
VOID = 255


def batches(_split="val"):
    random = np.random.RandomState(1)
    x = random.randn(30, 6).astype("float32")
    y = (x @ WEIGHT + random.randn(30, 3)).argmax(1)
    return [(x[i : i + 8], y[i : i + 8]) for i in range(0, 30, 8)]


def some_ignored(value):
    """Batches whose train split has a label to be ignored, and whose val split has none."""

    def loader(split):
        return [(x, np.where(np.arange(len(y)) == 2, value, y)) for x, y in batches()] if split == "train" else batches()

    return loader


class Model:
    def __init__(self):
        self.parameters = {"weight": WEIGHT}

    def __call__(self, x):
        return x @ self.parameters["weight"]


def side(metric, loader=batches, **more):
    return Side(framework="numpy", model=Model(), metric=metric, dataloader=loader, **more)


def judged(one, other, stage="metric"):
    return check(one, other, stages=[stage])[stage]


def mean(hits, keep):
    return {"accuracy": float(hits[keep].mean()) if keep.any() else 0.0}


def counts_all(outputs, labels):
    return {"accuracy": float((outputs.argmax(-1) == labels).mean()) if len(labels) else 0.0}


def compares_with_constant(outputs, labels):
    return mean(outputs.argmax(-1) == labels, labels != -1)


def compares_with_name(outputs, labels):
    keep = np.not_equal(labels, VOID)
    return mean(outputs.argmax(-1) == labels, keep)


def has_default(outputs, labels, ignore_index=-100):
    return mean(outputs.argmax(-1) == labels, labels != ignore_index)


def compares_order(outputs, labels):
    keep = (labels >= 0) & (labels < outputs.shape[-1])
    return mean(outputs.argmax(-1) == labels, keep)


def helper(outputs, labels, void):
    return mean(outputs.argmax(-1) == labels, ~(labels == void))


def hands_on(outputs, labels):
    return helper(outputs, labels, 99)


class Kept:
    """A metric that keeps what it ignores as an attribute, and a state."""

    def __init__(self, void):
        self.void = void
        self.reset()

    def reset(self):
        self.right, self.seen = 0, 0

    def update(self, outputs, labels):
        keep = labels != self.void
        self.right += int((outputs.argmax(-1) == labels)[keep].sum())
        self.seen += int(keep.sum())

    def compute(self):
        return {"accuracy": self.right / max(self.seen, 1)}


def summed(outputs, labels, ignore_index):
    """Zeros in place of what is ignored, and all samples counted."""
    return {"accuracy": float(((outputs.argmax(-1) + 1) * (labels != ignore_index)).sum() / max(len(labels), 1))}


def summed_without(outputs, labels):
    return {"accuracy": float((outputs.argmax(-1) + 1).sum() / max(len(labels), 1)) + 0 * len(labels)}


def named(outputs, labels):
    return summed(outputs, labels, -7)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (compares_with_constant, -1),
        (compares_with_name, 255),
        (has_default, -100),
        (hands_on, 99),
        (Kept(77), 77),
    ],
)
def test_a_value_that_the_reference_alone_leaves_out_is_a_divergence(metric, value):
    right = judged(side(metric), side(metric))
    assert (right.verdict, right.warnings) == (ALIGNED, [])
    assert any(p.key == "probe_mostly_ignored.accuracy" for p in right.pairs)
    told = [note for note in right.notes if note.startswith(f"no label of this split is to be ignored; it was tried with {value}, ")]
    assert told
    assert "which the reference's code ignores (" in told[0]
    wrong = judged(side(metric), side(Kept(-12345) if isinstance(metric, Kept) else counts_all))
    assert wrong.verdict == DIVERGED
    assert any(note.startswith("probe_mostly_ignored.accuracy: where half of the samples are to be ignored") for note in wrong.notes)


def test_a_number_beyond_a_bound_that_no_data_have_is_a_warning():
    """A mask of all classes and one of 255 are the same on all data that were seen."""
    right = judged(side(compares_order), side(compares_order))
    assert (right.verdict, right.warnings) == (ALIGNED, [])
    assert any("it was tried with -1, which the reference's code ignores (" in note for note in right.notes)
    other = judged(side(compares_order), side(compares_with_name))
    assert other.verdict == ALIGNED
    assert any(text.startswith("probe_mostly_ignored.accuracy") for text in other.warnings)


def test_a_number_beyond_a_bound_that_another_split_has_is_a_divergence():
    loader = some_ignored(-1)
    assert judged(side(compares_order, loader), side(counts_all, loader)).verdict == DIVERGED


@pytest.mark.parametrize("number", [-1, 300])
def test_numbers_that_the_compared_labels_cannot_hold_are_not_tried(number):
    def loader(split):
        small = [(x, y.astype("uint8")) for x, y in batches()]
        return [(x, np.where(np.arange(len(y)) == 2, number, y.astype("int64"))) for x, y in small] if split == "train" else small

    stage = judged(side(counts_all, loader), side(counts_all, loader))
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])
    assert any(p.key.startswith("probe_ties") for p in stage.pairs)
    assert not any("could not be" in note for note in stage.notes)


def test_no_number_is_tried_on_a_card(monkeypatch):
    """A label that is not left out ends the process there."""
    tried = []
    monkeypatch.setattr(ignored._Trial, "leaves_out", lambda _trial, clue: tried.append(clue))
    monkeypatch.setattr(Session, "device", property(lambda _session: "gpu:0", lambda _session, _device: None), raising=False)
    monkeypatch.setattr(NumpyAdapter, "use_device", lambda _adapter, _device: None)
    loader = some_ignored(255)
    stage = judged(side(named, loader), side(counts_all, loader))
    assert tried == []
    assert not any(p.key.startswith("probe_mostly_ignored") for p in stage.pairs)
    assert any(note.startswith("labels to be ignored, such as 255 (train), were not tried") for note in stage.notes)


def test_a_loader_without_splits_is_not_asked_for_another():
    """It would be bound to that one, and refuse the real one."""

    def of_one_split():
        return batches()

    session = Session("reference", {"build_dataloader": of_one_split}, framework="numpy")
    assert list(ignored._of_splits(session, None, ("train",))) == []
    assert session.function("build_dataloader")("val")


def test_the_place_of_the_comparison_is_told():
    stage = judged(side(compares_with_constant), side(compares_with_constant))
    line = compares_with_constant.__code__.co_firstlineno + 1
    assert any(f"{__file__}:{line}" in note for note in stage.notes), stage.notes


def test_an_argument_that_says_what_is_ignored_needs_no_mean_over_the_others():
    assert judged(side(named), side(named)).verdict == ALIGNED
    assert judged(side(named), side(summed_without)).verdict == DIVERGED


@pytest.mark.parametrize("value", [-1, 255])
def test_a_value_of_another_split_is_probed(value):
    def ignores(outputs, labels):
        return mean(outputs.argmax(-1) == labels, np.isin(labels, range(3)))

    loader = some_ignored(value)
    right = judged(side(ignores, loader), side(ignores, loader))
    assert (right.verdict, right.warnings) == (ALIGNED, [])
    assert any("which the reference's labels of the split train have" in note for note in right.notes)
    assert any(p.key == "probe_all_ignored.accuracy" for p in right.pairs)
    assert judged(side(ignores, loader), side(counts_all, loader)).verdict == DIVERGED


def test_a_value_that_the_candidate_alone_leaves_out_is_a_warning():
    stage = judged(side(counts_all), side(compares_with_constant))
    assert stage.verdict == ALIGNED
    assert any(text.startswith("probe_mostly_ignored.accuracy") for text in stage.warnings)


def recall(outputs, labels):
    """Rows of labels that are no class never count, though nothing was written to leave them out."""
    best = outputs.argmax(-1)
    found = [float((best[labels == c] == c).mean()) if (labels == c).any() else 0.0 for c in range(3)]
    return {"recall": sum(found) / 3}


def recall_by_table(outputs, labels):
    table = np.zeros((3, 3))
    np.add.at(table, (labels, outputs.argmax(-1)), 1)  # a label below 0 counts from the end
    return {"recall": float((table.diagonal() / np.maximum(table.sum(1), 1)).mean())}


def refuses(outputs, labels):
    """Compares with a number that is no class, in order to refuse it."""
    if (labels == -1).any():
        raise ValueError("no class")
    return counts_all(outputs, labels)


def raises(outputs, labels):
    raise ZeroDivisionError


def other_numbers(outputs, labels, axis=-1, rounds=12):
    """Numbers that are compared, none of them with labels."""
    if axis == -1 and rounds > 3 and outputs.ndim != 7:
        return counts_all(outputs, labels)
    return {"accuracy": 0.0}


class Odd:
    """An object whose attributes cannot be asked."""

    def __getattr__(self, name):
        raise RuntimeError(name)


ODD = Odd()


def asks_odd_things(outputs, labels):
    return {"accuracy": 0.0} if ODD is None or Odd.__name__ == 1 or type(ODD).__mro__ == -3 else counts_all(outputs, labels)


exec("def made_up(outputs, labels):\n    return counts_all(outputs, labels) if -1 != 4 else {}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (recall, recall_by_table),
        (refuses, counts_all),
        (counts_all, refuses),
        (other_numbers, counts_all),
        (asks_odd_things, counts_all),
        (made_up, counts_all),  # noqa: F821 - made by exec above
    ],
)
def test_numbers_that_are_no_labels_to_be_ignored_make_no_probe(one, other):
    stage = judged(side(one), side(other))
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])
    assert not any("it was tried with" in note for note in stage.notes)


def test_splits_that_fail_tell_nothing():
    def loader(split):
        if split == "train":
            raise OSError("no such split")
        return batches()

    stage = judged(side(counts_all, loader), side(counts_all, loader))
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])


def test_the_profiler_of_the_program_stays_in_place():
    import sys

    def profile(*_):
        return None

    sys.setprofile(profile)
    try:
        judged(side(compares_with_constant), side(compares_with_constant))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
