"""Facts of data sets, loader settings and samplers beside each other; several splits; a limit."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import Side, check
from paralign.dtypes import typed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.stages.data import data_settings
from paralign.worker.datasets import loaders
from paralign.worker.datasets.facts import Facts, class_names
from paralign.worker.datasets.whole import fingerprint


class Data:
    """Series of 5 numbers with a label each."""

    def __init__(self, length=40, label=lambda i: i % 4, **more):
        self.length, self.label = length, label
        self.__dict__.update(more)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return np.random.RandomState(index).randn(5).astype("float32"), self.label(index)


class SequentialSampler:
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter(range(self.length))


class RandomSampler(SequentialSampler):
    replacement = False

    def __iter__(self):
        draw = np.random.randint(0, self.length, self.length) if self.replacement else np.random.permutation(self.length)  # noqa: NPY002
        return iter(int(i) for i in draw)


class Still(RandomSampler):
    """Made anew from one seed in every epoch, as a mistake."""

    def __iter__(self):
        return iter(int(i) for i in np.random.RandomState(7).permutation(self.length))


class Weighted(RandomSampler):
    power = 1.0

    def __iter__(self):
        weights = np.arange(1, self.length + 1) ** self.power
        return iter(int(i) for i in np.random.choice(self.length, self.length, p=weights / weights.sum()))  # noqa: NPY002


class Loader:
    """What PyTorch's and Paddle's loaders have in common."""

    def __init__(self, data, sampler=SequentialSampler, batch_size=4, *, drop_last=False, **more):
        self.dataset, self.batch_size, self.drop_last = data, batch_size, drop_last
        self.sampler = sampler(len(data))
        self.__dict__.update(more)

    def __len__(self):
        return len(self.dataset) // self.batch_size if self.drop_last else -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        order = iter(self.sampler)
        for _ in range(len(self)):
            rows = [self.dataset[i] for i in itertools.islice(order, self.batch_size)]
            if not rows:
                return
            yield np.stack([x for x, _ in rows]), np.array([y for _, y in rows])


def side(data=None, loader=None):
    functions = {}
    if data is not None:
        functions["build_dataset"] = data if callable(data) else lambda _: data
    if loader is not None:
        functions["build_dataloader"] = loader if callable(loader) else lambda _: loader
    return Side(framework="numpy", functions=functions)


def compared(one, other):
    return check(one, other, stages=["data"])["data"]


def rules(stage):
    return [f.rule for f in stage.findings]


# -- facts -------------------------------------------------------------------------------------------------------------------------


def test_facts_of_equal_data_sets_are_told_and_make_nothing_aligned():
    stage = compared(side(Data(classes=["a", "b", "c", "d"])), side(Data(classes=["a", "b", "c", "d"])))
    assert stage.verdict == ALIGNED
    told = {p.key: (p.reference.text, p.judged) for p in stage.pairs if p.key.startswith("facts.")}
    assert told["facts.1.classes"] == ("0 x10; 1 x10; 2 x10; 3 x10", False)
    assert told["facts.0.shapes"] == ("(5)", False)
    assert told["facts.class_names"] == ("a, b, c, d", False)
    assert "the reference's data set: 40 samples; 0 float32 (5); 1 int64, 4 classes of 10 samples" in stage.notes


def test_another_number_of_samples_in_a_class_is_a_fact_beside_the_samples():
    stage = compared(side(Data()), side(Data(label=lambda i: 0 if i == 17 else i % 4)))
    assert stage.verdict == DIVERGED
    pair = next(p for p in stage.pairs if p.key == "facts.1.classes")
    assert pair.verdict == DIVERGED
    assert pair.notes == ["0 x10; 1 x10 in the reference, 0 x11; 1 x9 in the candidate"]
    assert any("classes of sample.1: 0 x10" in finding.cause for finding in stage.findings)


@pytest.mark.parametrize(
    ("one", "other", "fix"),
    [
        ({"0": 16, "1": 24}, {"0": 24, "1": 16}, "list the classes by the same rule"),
        ({"0": 16, "1": 24}, {"1": 16, "2": 24}, "list the classes by the same rule"),
        ({"0": 16, "1": 24}, {"0": 17, "1": 23}, "read the same files on both sides"),
    ],
)
def test_classes_of_the_same_sizes_under_other_numbers_are_numbered_otherwise(one, other, fix):
    sides = [{"dtypes": {"int64": 40}, "shapes": {"": 40}, "classes": counts} for counts in (one, other)]
    (fact,) = (each for each in data_settings._of_leaf("1", *sides, whole=True) if not each.agree)
    found = data_settings._finding(fact)
    assert found.cause.startswith("classes of sample.1: ")
    assert found.fix.startswith(fix)


def test_classes_that_may_follow_from_another_part_of_a_sample_are_no_cause():
    shifted = Data(label=lambda i: (i + i // 7) % 4)
    stage = compared(side(Data()), side(shifted))
    assert (stage.verdict, rules(stage)) == (DIVERGED, ["data/fact-classes"])
    assert stage.findings[0].fix == data_settings.MADE

    class Other(Data):
        def __getitem__(self, index):
            return np.random.RandomState(1000 + index).randn(5).astype("float32"), self.label(index)

    stage = compared(side(Data()), side(Other(label=shifted.label)))
    assert (stage.verdict, rules(stage)) == (DIVERGED, [])
    stage = compared(side(Data()), side(Other(36)))  # files that one side does not read
    assert any(finding.fix.startswith("read the same files") for finding in stage.findings)


def test_classes_of_another_order_are_found_where_samples_agree():
    stage = compared(side(Data(classes=["cat", "dog"])), side(Data(classes=["dog", "cat"])))
    assert (stage.verdict, rules(stage)) == (DIVERGED, ["data/fact-class-names"])
    assert "the same classes in another order" in stage.findings[0].cause
    assert stage.divergence.pair.key == "facts.class_names"


def test_another_element_type_of_equal_values_is_said_and_is_no_divergence():
    stage = compared(side(Data()), side(Data(label=lambda i: np.int32(i % 4))))
    assert stage.verdict == ALIGNED
    assert "facts.1.dtype: int64 in the reference, int32 in the candidate" in stage.notes


def test_texts_have_lengths_and_many_numbers_are_no_classes():
    facts = Facts()
    for n in range(1002):
        facts.add("text", "x" * (n % 2))
        facts.add("id", typed(np.int64(n)))
    told = facts.told()
    assert told["text"] == {"dtypes": {"text": 1002}, "shapes": {"0": 501, "1": 501}, "classes": {}}
    assert told["id"]["classes"] == {}


def test_class_names_are_found_through_wrappers_and_by_number():
    inner = SimpleNamespace(class_to_idx={"dog": 1, "cat": 0, **{f"c{n}": n for n in range(2, 12)}})
    assert class_names(SimpleNamespace(dataset=SimpleNamespace(dataset=inner)))[:3] == ["cat", "dog", "c2"]
    assert class_names(SimpleNamespace(classes=7)) is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (np.float32([1, 2]), np.float64([1, 2]), True),
        (np.float64([1 / 3]), np.float32([1 / 3]), False),
        (np.uint8([1, 255]), np.int64([1, 255]), True),
        (np.int64([-1]), np.int32([-1]), True),
        (np.int64([256]), np.uint8([0]), False),
        (np.uint64([2**63]), np.int64([-(2**63)]), False),
        (np.array([True]), np.int64([1]), True),
        (np.float32([np.nan, 1]), np.float64([np.nan, 1]), True),
        (np.float32([1e30]), np.float64([1e300]), False),
    ],
)
def test_equal_values_have_equal_hashes_whatever_their_type(one, other, equal):
    first, second = (fingerprint(typed(a)) for a in (one, other))
    assert (first[:2] == second[:2]) is equal
    assert np.isfinite(first[2][2:]).all()


# -- settings ----------------------------------------------------------------------------------------------------------------------


def test_settings_that_decide_nothing_are_said():
    one, other = (Loader(Data(), num_workers=n, use_shared_memory=s) for n, s in ((0, False), (2, True)))
    stage = compared(side(loader=one), side(loader=other))
    assert stage.verdict == ALIGNED
    said = "loader settings that do not matter for the numbers (reference / candidate): num_workers 0 / 2, use_shared_memory False / True"
    assert said in stage.notes


def test_drop_last_without_an_effect_today_is_a_warning():
    stage = compared(side(loader=Loader(Data())), side(loader=Loader(Data(), drop_last=True)))
    assert stage.verdict == ALIGNED
    assert any("drop_last is False in the reference and True in the candidate" in w for w in stage.warnings)


def test_settings_of_a_batch_sampler_come_before_the_loaders_own():
    batches = SimpleNamespace(batch_size=8, drop_last=True, sampler=RandomSampler(3))
    found = loaders.settings(SimpleNamespace(batch_size=None, drop_last=False, batch_sampler=batches, num_workers=0))
    assert found == {"batch_size": "8", "drop_last": "True", "sampler": "random", "shuffle": "True", "num_workers": "0"}


def test_a_sampler_that_overrides_the_frameworks_own_is_not_called_by_its_name():
    assert loaders.sampler_kind(Still(3)) == "Still"
    assert loaders.sampler_kind(RandomSampler(3)) == "random"
    assert loaders.sampler_kind(Twice(3)) == "random with replacement"


# -- samplers ----------------------------------------------------------------------------------------------------------------------


class Twice(RandomSampler):
    replacement = True


class Heavy(Weighted):
    power = 8.0


class Half(SequentialSampler):
    def __iter__(self):
        return iter(range(self.length // 2, self.length))


@pytest.mark.parametrize("sampler", [SequentialSampler, RandomSampler, Twice, Weighted, Still])
def test_equal_samplers_are_aligned_and_told(sampler):
    stage = compared(side(Data(), Loader(Data(), sampler)), side(Data(), Loader(Data(), sampler)))
    assert stage.verdict != DIVERGED
    assert any(note.startswith("samplers over 3 epochs: 40 of 40 samples an epoch") for note in stage.notes)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (RandomSampler, Still, "the candidate's order is the same in every epoch"),
        (RandomSampler, Twice, "the candidate draws samples more than once in an epoch"),
        (Weighted, Heavy, "the samplers draw with other weights"),
        (SequentialSampler, Half, "an epoch has 400 samples in the reference, 200 in the candidate"),
        (SequentialSampler, RandomSampler, "the reference goes in order, the other side mixes"),
    ],
)
def test_samplers_that_draw_otherwise_are_found(one, other, told):
    stage = compared(side(loader=Loader(Data(400), one)), side(loader=Loader(Data(400), other)))
    assert stage.verdict == DIVERGED
    pair = next(p for p in stage.pairs if p.key == "sampler")
    assert pair.verdict == DIVERGED
    assert pair.notes[0].startswith(told)
    assert stage.findings


class DistributedSampler(SequentialSampler):
    """Of one process: as a plain sampler, shuffled or not."""

    def __init__(self, length, shuffle=False):
        super().__init__(length)
        self.shuffle = shuffle

    def __iter__(self):
        return iter(np.random.RandomState(0).permutation(self.length).tolist() if self.shuffle else range(self.length))


@pytest.mark.parametrize(("other", "verdict"), [(SequentialSampler, ALIGNED), (RandomSampler, DIVERGED), (Half, DIVERGED)])
def test_a_distributed_sampler_of_one_process_is_judged_by_what_it_does(other, verdict):
    stage = compared(side(Data(), Loader(Data(), other)), side(Data(), Loader(Data(), DistributedSampler)))
    assert (stage.verdict == DIVERGED) is (verdict == DIVERGED)
    assert not any(p.key == "settings.sampler" and p.verdict == DIVERGED for p in stage.pairs)


class Numbered(RandomSampler):
    """One order for each number of an epoch, which the training loop sets as an attribute."""

    def __init__(self, length):
        super().__init__(length)
        self.epoch = 0

    def __iter__(self):
        return iter(np.random.RandomState(7 + self.epoch).permutation(self.length).tolist())


class Told(Numbered):
    def set_epoch(self, epoch):
        self.epoch = epoch


class OfClass(RandomSampler):
    """The number has its first value from the class, as a loop finds it that has not begun."""

    epoch = 0
    __iter__ = Numbered.__iter__


@pytest.mark.parametrize(("one", "other"), [(Told, Numbered), (Numbered, Told), (Numbered, Numbered), (Numbered, OfClass), (OfClass, Told)])
def test_the_number_of_an_epoch_is_set_by_a_method_or_as_an_attribute(one, other):
    stage = compared(side(loader=Loader(Data(400), one)), side(loader=Loader(Data(400), other)))
    assert next(p for p in stage.pairs if p.key == "sampler").verdict == ALIGNED
    assert not stage.findings


def test_a_sampler_that_knows_no_number_of_an_epoch_stays_still():
    stage = compared(side(loader=Loader(Data(400), Told)), side(loader=Loader(Data(400), Still)))
    assert stage.verdict == DIVERGED
    assert "the candidate's order is the same in every epoch" in stage.findings[0].cause


def test_equal_weights_drawn_from_other_generators_are_no_divergence():
    class Other(Weighted):
        def __iter__(self):
            np.random.rand(5)  # noqa: NPY002 - another place in the stream
            return super().__iter__()

    stage = compared(side(Data(400), Loader(Data(400), Weighted)), side(Data(400), Loader(Data(400), Other)))
    assert stage.verdict == ALIGNED
    assert any("draw with replacement" in note for note in stage.notes)


class Part(RandomSampler):
    """A third of the samples, each at most once, by scattered weights."""

    power = 1.0

    def __iter__(self):
        weights = np.random.RandomState(5).permutation(np.geomspace(1, 30, self.length)) ** self.power
        return iter(np.random.choice(self.length, self.length // 3, replace=False, p=weights / weights.sum()).tolist())  # noqa: NPY002


class EvenPart(Part):
    power = 0.0


class RootPart(Part):
    power = 0.5


class LaterPart(Part):
    """The same law at another place of the stream."""

    def __iter__(self):
        np.random.rand(3)  # noqa: NPY002
        return super().__iter__()


class Clumps(RandomSampler):
    """Four samples of each of three classes, which may come twice."""

    later = False

    def __iter__(self):
        np.random.rand(3 * self.later)  # noqa: NPY002
        for label in np.random.choice(4, 3, replace=False):  # noqa: NPY002
            yield from (4 * np.random.randint(0, self.length // 4, 4) + label).tolist()  # noqa: NPY002


class LaterClumps(Clumps):
    later = True


@pytest.mark.parametrize("other", [RootPart, EvenPart])
def test_another_law_without_replacement_is_found_by_the_frequencies_of_samples(other):
    stage = compared(side(Data(60), Loader(Data(60), Part)), side(Data(60), Loader(Data(60), other)))
    assert stage.verdict == DIVERGED
    (finding,) = [f for f in stage.findings if f.rule == "data/sampler-law"]
    assert finding.cause.startswith("the samplers draw with other weights: sample ")
    assert "times an epoch in the reference" in finding.cause
    assert "(over 64 epochs)" in finding.cause


@pytest.mark.parametrize(("one", "other"), [(Part, LaterPart), (Clumps, LaterClumps)])
def test_the_same_law_at_another_place_of_the_stream_is_aligned_and_says_how_far_was_looked(one, other):
    stage = compared(side(Data(60), Loader(Data(60), one)), side(Data(60), Loader(Data(60), other)))
    assert next(p for p in stage.pairs if p.key == "sampler").verdict == ALIGNED
    assert not [f for f in stage.findings if f.rule.startswith("data/sampler")]
    assert any("was compared over 64 epochs: no further apart than chance" in note for note in stage.notes), stage.notes


def test_a_loader_that_is_slow_to_build_is_not_built_again_and_accused_of_nothing(monkeypatch):
    monkeypatch.setattr("paralign.worker.datasets.data.AGAIN_SECONDS", -1.0)
    stage = compared(side(Data(60), Loader(Data(60), Part)), side(Data(60), Loader(Data(60), EvenPart)))
    assert not [f for f in stage.findings if f.rule.startswith("data/sampler")]
    assert any(warning.startswith("the samplers may draw with other weights: sample ") for warning in stage.warnings), stage.warnings


def test_a_sampler_that_fails_in_a_later_epoch_keeps_what_it_gave():
    class Ends(Part):
        given = 0

        def __iter__(self):
            self.given += 1
            if self.given > 12:
                raise RuntimeError("no further epochs")
            return super().__iter__()

    stage = compared(side(Data(60), Loader(Data(60), Ends)), side(Data(60), Loader(Data(60), Part)))
    assert stage.verdict != "error", stage.failure
    assert not [f for f in stage.findings if f.rule.startswith("data/sampler")]
    assert "how often each sample is drawn was not compared over more than 3 epochs" in stage.notes


def test_a_loader_without_a_sampler_and_an_endless_one_say_nothing():
    class Endless:
        def __iter__(self):
            return itertools.repeat(None)

    assert loaders.record_epochs(None, None, SimpleNamespace()) is None
    session = SimpleNamespace(seed=lambda: None)
    assert loaders.record_epochs(session, None, SimpleNamespace(batch_sampler=Endless(), dataset=[1, 2])) is None


# -- splits and limits -------------------------------------------------------------------------------------------------------------


def split_project(project, more):
    for name in ("reference", "candidate"):
        project.edit(
            name, "def build_dataset(split):\n    data = Data()", "def build_dataset(split):\n    data = Data()\n    data.split = split"
        )
    (project.folder / "paralign.toml").write_text((project.folder / "paralign.toml").read_text() + more)


def test_several_splits_are_judged_in_one_run_and_named(project):
    split_project(project, '\n[data]\nsplits = ["train", "val"]\n')
    project.edit(
        "candidate",
        'np.arange(6, dtype="float32") + index',
        "np.arange(6, dtype=\"float32\") + index * (1 + (self.split == 'val' and index == 5))",
    )
    done = project.check("data")
    assert done.code == 1, done.err
    stage = project.stage("data")
    wrong = {p["key"].split(":")[0] for p in stage["pairs"] if p["verdict"] == "diverged"}
    assert wrong == {"val"}
    assert stage["divergence"]["candidate"]["code"].startswith("image = np.arange")
    assert {c["what"] for c in stage["coverage"]} >= {"train samples", "val samples"}


def test_a_limit_says_what_it_left_out_and_proves_nothing(project):
    split_project(project, "\n[data]\nlimit = 5\n")
    done = project.check("data")
    assert done.code == 4, done.err
    stage = project.stage("data")
    assert stage["verdict"] == UNDERPOWERED
    assert "[data] limit = 5: 2 of 7 samples were left out, and were not compared" in stage["notes"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("splits = []", "splits must not be empty"),
        ('splits = ["a", "a"]', "a split is named twice"),
        ("splits = [1]", "splits must be a list of texts"),
        ("limit = 0", "[data] limit\n  fix:   correct it, or leave it out for the default"),
    ],
)
def test_settings_that_cannot_work_are_refused(project, more, told):
    split_project(project, f"\n[data]\n{more}\n")
    done = project.check("data")
    assert done.code == 2
    assert told in done.err
    assert "[data]" in done.err
