"""Data sets and loaders compared as a whole: every sample, what was only read in part, and loaders that shuffle."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paralign import Side, check
from paralign.capture.sketch import sketch
from paralign.dtypes import typed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Pair, Record
from paralign.report import text
from paralign.stages.common.places import Kind, PairKey, batch_of, is_length, key_of, sample_of
from paralign.worker.datasets import whole


class Data:
    """Pictures that ``change(index, picture)`` changes, and labels."""

    def __init__(self, length=100, change=lambda _, picture: picture):
        self.length, self.change = length, change

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        picture = np.random.RandomState(index).randn(3, 4, 4).astype("float32")
        return {"image": self.change(index, picture), "label": index % 7}


class Loader:
    """Batches of 4, from a drawn order where ``shuffle`` is given."""

    def __init__(self, data, shuffle=None, *, drop_last=False):
        self.data, self.shuffle, self.drop_last = data, shuffle, drop_last

    def __len__(self):
        return len(self.data) // 4 if self.drop_last else -(-len(self.data) // 4)

    def __iter__(self):
        order = np.arange(len(self.data)) if self.shuffle is None else self.shuffle(len(self.data))
        for number in range(len(self)):
            rows = [self.data[int(i)] for i in order[4 * number : 4 * number + 4]]
            yield np.stack([row["image"] for row in rows]), np.array([row["label"] for row in rows])


def one_way(count):
    return np.random.permutation(count)  # noqa: NPY002 - what is seeded


def another_way(count):
    return np.argsort(np.random.rand(count))  # noqa: NPY002 - what is seeded


def checked(first, second, *, datasets=True):
    sides = []
    for made in (first, second):
        functions = {}
        if isinstance(made, Loader):
            functions["build_dataloader"] = lambda _, made=made: made
        data = made.data if isinstance(made, Loader) else made
        if datasets:
            functions["build_dataset"] = lambda _, data=data: data
        sides.append(Side(framework="numpy", functions=functions))
    return check(*sides, stages=["data"])


def row(result):
    return str(next(iter(text.table(result).columns[1].cells)))


# -- every sample ----------------------------------------------------------------------------------------------------------------


def test_samples_that_differ_in_the_middle_of_a_set_are_found():
    result = checked(Data(), Data(change=lambda i, x: x * 2 if 20 <= i < 90 else x))
    stage = result["data"]
    assert (stage.verdict, row(result)) == (DIVERGED, "diverged, 100 samples")
    assert stage.divergence.pair.key == "sample_20.image"
    assert "70 of 100 samples differ: 20, 21, 22, 23, 24, 25, 26, 27 …" in stage.notes


def test_one_sample_of_many_that_is_slightly_wrong_is_found():
    stage = checked(Data(300), Data(300, lambda i, x: x * np.float32(1 + 1e-5) if i == 177 else x))["data"]
    assert (stage.verdict, stage.divergence.pair.key) == (DIVERGED, "sample_177.image")


def test_a_wrong_label_in_the_middle_is_found():
    class Relabelled(Data):
        def __getitem__(self, index):
            return {**super().__getitem__(index), "label": 3 if index == 50 else index % 7}

    stage = checked(Data(), Relabelled())["data"]
    assert [p.key for p in stage.pairs if p.verdict == DIVERGED] == ["sample_50.label", "facts.label.classes"]


def test_rounding_in_every_sample_is_no_difference():
    result = checked(Data(), Data(change=lambda _, x: x * np.float32(1 + 1e-7)))
    assert (result.verdict, row(result)) == (ALIGNED, "aligned, 100 samples")
    assert len([p for p in result["data"].pairs if not p.key.startswith("facts.")]) == 11  # the values of no further sample were asked for


def broken(index, picture):
    if index == 33:
        raise ValueError("a broken file")
    return picture


def test_a_sample_that_one_side_cannot_read_is_a_difference():
    stage = checked(Data(), Data(change=broken))["data"]
    assert stage.verdict == DIVERGED
    assert stage.divergence.pair.notes == ["the candidate fails with ValueError: a broken file"]


def test_a_sample_that_neither_side_can_read_is_not_counted():
    result = checked(Data(change=broken), Data(change=broken))
    assert (result.verdict, row(result)) == (ALIGNED, "aligned, 99 of 100 samples")
    assert "1 samples can be read on neither side, the first is 33: ValueError: a broken file" in result["data"].notes


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize("rename", [False, True])
def test_a_sample_in_the_middle_with_one_part_more_is_found(longer, rename):
    class Longer(Data):
        def __getitem__(self, index):
            return {**super().__getitem__(index), **({"mask": 1.0} if index == 41 else {})}

    class Tuples(Data):
        def __getitem__(self, index):
            return tuple(super().__getitem__(index).values())

    both = [Tuples() if rename else Data(), Longer()]
    stage = checked(*(both if longer else both[::-1]))["data"]
    assert [p.key for p in stage.pairs if p.verdict == DIVERGED] == ["sample_41"]


def test_what_cannot_be_read_in_time_is_read_in_part_and_the_row_says_so(monkeypatch):
    class Clock:
        now = 0.0

        @classmethod
        def perf_counter(cls):
            return cls.now

    class Slow(Data):
        def __getitem__(self, index):
            Clock.now += 0.5
            return super().__getitem__(index)

    monkeypatch.setattr(whole.time, "perf_counter", Clock.perf_counter)
    stage = checked(Slow(5000), Slow(5000))["data"]
    coverage = stage.coverage[0]
    assert (stage.verdict, coverage.what, coverage.total) == (ALIGNED, "samples", 5000)
    assert 100 <= coverage.compared <= 125
    assert str(coverage) == f"{coverage.compared:,} of 5,000 samples"
    far = Slow(5000, lambda i, x: x if i < 1000 else x + 1)
    assert checked(Slow(5000), far)["data"].verdict == DIVERGED  # what is read is spread over the whole set


def test_a_stream_is_compared_as_far_as_both_give_it():
    def stream(count, wrong=-1):
        return lambda _: iter([np.full(3, i + (i == wrong), "float32") for i in range(count)])

    sides = [Side(framework="numpy", functions={"build_dataset": made}) for made in (stream(50), stream(50), stream(50, 40), stream(49))]
    assert check(sides[0], sides[1], stages=["data"])["data"].coverage == [Coverage("samples", 50, 50)]
    assert check(sides[0], sides[2], stages=["data"])["data"].divergence.pair.key == "sample_40"
    assert check(sides[0], sides[3], stages=["data"])["data"].divergence.pair.key == "length"


def test_a_batch_behind_the_first_ones_is_compared_too():
    class Wrong(Loader):
        def __iter__(self):
            for number, (images, labels) in enumerate(super().__iter__()):
                yield images + (number == 9), labels

    result = checked(Loader(Data()), Wrong(Data()))
    assert result["data"].divergence.pair.key == "dataloader_9.0"
    assert row(result) == "diverged, 100 samples, 25 batches"


def test_leaves_of_other_names_are_compared_in_every_sample_too():
    class Tuples(Data):
        def __getitem__(self, index):
            return tuple(super().__getitem__(index).values())

    assert checked(Data(), Tuples())["data"].verdict == ALIGNED
    stage = checked(Data(), Tuples(change=lambda i, x: x + (i == 40)))["data"]
    assert (stage.verdict, stage.divergence.pair.key) == (DIVERGED, "sample_40.image")


# -- shuffled loaders --------------------------------------------------------------------------------------------------------------


def test_loaders_that_shuffle_in_their_own_ways_are_compared_as_sets():
    result = checked(Loader(Data(30), one_way), Loader(Data(30, lambda _, x: x * np.float32(1 + 1e-7)), another_way))
    stage = result["data"]
    assert (stage.verdict, row(result)) == (ALIGNED, "aligned, 30 samples, 30 samples in batches")
    assert "the order of the batches is shuffled on both sides: compared as a set, 30 of 30 samples in them are the same" in stage.notes


class Named(Loader):
    """Batches as dicts, their leaves in an order of the loader's own."""

    def __init__(self, data, shuffle, names):
        super().__init__(data, shuffle)
        self.names = names

    def __iter__(self):
        return ({name: dict(zip(("image", "label"), batch, strict=True))[name] for name in self.names} for batch in super().__iter__())


def test_shuffled_batches_meet_whatever_the_order_of_their_leaves():
    reference = Named(Data(30), one_way, ["image", "label"])
    found = checked(reference, Named(Data(30), another_way, ["label", "image"]), datasets=False)["data"]
    assert found.verdict == ALIGNED
    assert any("30 of 30 samples in them are the same" in note for note in found.notes)
    wrong = Named(Data(30, lambda i, x: x + (i == 17)), another_way, ["label", "image"])
    assert checked(reference, wrong, datasets=False)["data"].verdict == DIVERGED


def test_each_pass_may_leave_out_other_samples():
    result = checked(Loader(Data(30), one_way, drop_last=True), Loader(Data(30), another_way, drop_last=True))
    assert result.verdict == ALIGNED
    assert result["data"].coverage[1].total == 28


def test_a_wrong_sample_in_a_shuffled_loader_is_found():
    wrong = Loader(Data(30, lambda i, x: x + (i == 17)), another_way)
    stage = checked(Loader(Data(30), one_way), wrong, datasets=False)["data"]
    assert stage.verdict == DIVERGED
    assert any("29 of 30 samples in them are the same" in note for note in stage.notes)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_loader_that_shuffles_on_one_side_only_is_wrong(side):
    pair = [Loader(Data(30), one_way), Loader(Data(30))]
    stage = checked(*(pair if side == "reference" else pair[::-1]))["data"]
    assert stage.verdict == DIVERGED
    assert [(f.rule, f.proven) for f in stage.findings] == [("data/shuffle", True)]
    assert stage.findings[0].cause.startswith(f"the {side}'s batches change with the seed")
    assert "8 of 8 batches differ: 0, 1, 2, 3, 4, 5, 6, 7" in stage.notes


def test_shuffled_batches_that_cannot_be_taken_apart_are_not_compared():
    class Odd(Loader):
        def __iter__(self):
            return ((images, labels, np.float32(labels.sum())) for images, labels in super().__iter__())

    alone = checked(Odd(Data(30), one_way), Odd(Data(30), another_way), datasets=False)["data"]
    assert (alone.verdict, alone.coverage) == (UNDERPOWERED, [Coverage("batches", 0, 8)])
    beside = checked(Odd(Data(30), one_way), Odd(Data(30), another_way))["data"]
    assert (beside.verdict, beside.coverage) == (ALIGNED, [Coverage("samples", 30, 30), Coverage("batches", 0, 8)])


# -- fingerprints ------------------------------------------------------------------------------------------------------------------


def test_fingerprints_tell_values_and_forms_apart_and_no_types():
    values = np.arange(24, dtype="float32").reshape(2, 3, 4)
    known = whole.fingerprint(typed(values))
    assert whole.fingerprint(typed(values.astype("float64")))[:2] == known[:2]
    assert whole.fingerprint(typed(values[None]))[:2] == known[:2]
    assert whole.fingerprint(typed(values.reshape(6, 4)))[1] != known[1]
    assert whole.fingerprint(typed(values.transpose(1, 0, 2)))[0] != known[0]
    spoilt = values.copy()
    spoilt[0, 0, 0] = np.nan
    assert whole.fingerprint(typed(spoilt))[1] != known[1]
    assert len({whole.fingerprint(word)[0] for word in ("a", "b", "")}) == 3
    np.testing.assert_allclose(known[2][2:].sum(), sketch(values).sum(), rtol=1e-5)


def test_the_distance_of_two_tensors_follows_from_their_figures():
    random = np.random.RandomState(0)
    for size, error in itertools.product((10, 3000), (1e-2, 1e-5)):
        x = random.randn(size)
        y = x + error * random.randn(size)
        first, second = (whole.fingerprint(typed(v))[2] for v in (x, y))
        assert np.linalg.norm(first[2:] - second[2:]) == pytest.approx(np.linalg.norm(x - y), rel=0.7)
        assert first[1] == pytest.approx(np.linalg.norm(x))


def test_samples_and_batches_are_told_by_their_number():
    def pair(name, leaf="", role="sample"):
        record = Record(0, name, "data", role, "float32", (2,), leaf=leaf)
        return Pair("whatever it is called", record, record)

    samples = pair("sample_1"), pair("sample_11", "image"), pair("sample_1.raw", "0")
    assert [(sample_of(p).step, sample_of(p).name) for p in samples] == [(1, ""), (11, "image"), (1, "raw.0")]
    batches = pair("dataloader_1", "0"), pair("dataloader_10"), pair("dataloader_last", "1")
    assert [(batch_of(p).step, batch_of(p).name) for p in batches] == [(1, "0"), (10, ""), (-1, "1")]
    others = pair("sample_x"), pair("samples"), pair("sample_1", role="parameter"), pair("dataloader")
    assert [sample_of(p) for p in others] == [batch_of(p) for p in others] == [None] * 4
    assert key_of(pair("dataloader")).kind is Kind.LOADER
    assert is_length(pair("length", role="scalar"))


def test_points_of_training_are_told_by_their_records_not_by_what_pairs_are_called():
    def pair(role, name, step, run):
        record = Record(0, name, "backward", role, "float32", (2,), step=step, run=run)
        return Pair("loss_1", record, None)

    assert key_of(pair("scalar", "loss", 10, "float64:train")) == PairKey(Kind.LOSS, "loss", 10, "train")
    first, second = (key_of(pair("gradient", name, 0, "native:eval")) for name in ("a.weight", "b.weight"))
    assert first != second
    assert first.place == second.place
    assert first.is_before_updates
    assert key_of(pair("parameter", "a.weight", 2, "float64")) == PairKey(Kind.CHANGE, "a.weight", 2, "")
    assert key_of(pair("output", "output", 0, "float64")) is None
