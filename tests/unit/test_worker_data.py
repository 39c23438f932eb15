"""The jobs of a side: data sets and loaders, metrics, perturbed inputs, runs that fail."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import Typed, widen
from paralign.errors import UsageError
from paralign.model import Manifest
from paralign.run.inputs import save
from paralign.worker.datasets import data
from paralign.worker.passes.forward import attempt, attempt_run, nudge
from paralign.worker.protocol import Data, Evaluate, Evaluated, Forward, Job, Metric, MetricTaken, Passed, Probes, Ran, ReadThrough
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.tasks import perform

DATA = {"split": "val", "samples": 2, "batches": 2, "most": 64, "patience": 60.0}
EVALUATE, BATCH = {name: DATA[name] for name in ("split", "batches", "most")}, {"split": DATA["split"]}


@pytest.fixture
def do(tmp_path):
    """Does a job of a numpy side and gives its capture."""
    count = iter(range(100))

    def job(task, options=None, values=None, session=None, **functions):
        functions.setdefault("build_model", lambda: lambda x: x)
        folder = tmp_path / str(next(count))
        side = session or Session("reference", functions, "numpy")
        perform(
            side,
            Job(task, str(folder), options or {}, {n: str(c.path) for n, c in (values or {}).items()}),
        )
        return Capture.open(folder)

    return job


def names(capture):
    return [r.key for r in capture.records if r.role != "state"]  # fingerprints aside


def array(capture, name, **fields):
    return capture.array(capture.select(name=name, **fields)[0])


# -- data sets ---------------------------------------------------------------------------------------------------------------


class Samples:
    """``length`` samples that are their index, through ``transform``."""

    def __init__(self, length=5, transform=None, **more):
        self.length, self.transform = length, transform
        self.__dict__.update(more)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        x = np.float32(index)
        return (self.transform(x) if self.transform else x), index


def half(x):
    return x / 2


class Add:
    def __call__(self, x):
        return x + 1


def test_the_first_samples_and_the_last_are_recorded(do):
    capture = do("data", DATA, build_dataset=lambda split: Samples())  # noqa: ARG005 - the name is the contract
    assert names(capture) == ["length", "sample_0.0", "sample_0.1", "sample_1.0", "sample_1.1", "sample_4.0", "sample_4.1"]
    assert array(capture, "length") == 5
    answer = Data.answer(capture)
    assert answer.whole == ReadThrough(5, {}, 5)
    assert (sorted(answer.facts), answer.classes, answer.draws) == (["0", "1"], None, 0)
    assert isinstance(answer.decoders, list)
    assert (answer.dataset, answer.dataloader, answer.transforms, answer.truncated) == (True, False, False, False)
    assert capture.array(capture.select(name="samples.numbers", leaf="1")[0])[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_data_set_shorter_than_what_is_asked_for(do):
    assert names(do("data", DATA, build_dataset=lambda _: Samples(1))) == ["length", "sample_0.0", "sample_0.1"]


def test_a_data_set_without_a_length_is_iterated(do):
    capture = do("data", DATA, build_dataset=lambda _: iter([np.zeros(1), np.ones(1), np.ones(1)]))
    assert names(capture) == ["sample_0", "sample_1", "length"]
    assert Data.answer(capture).whole == ReadThrough(3, {}, 3)


def test_an_empty_data_set_is_told(do):
    with pytest.raises(UsageError, match="the data set of split 'val' is empty") as caught:
        do("data", DATA, build_dataset=lambda _: Samples(0))
    assert "check the path" in caught.value.hint


@pytest.mark.parametrize(
    "composed", [[half, Add()], (half, Add()), SimpleNamespace(transforms=[half, Add()])], ids=["list", "tuple", "composition"]
)
def test_every_transform_is_recorded_with_its_name(do, composed):
    kept = Samples(transform=lambda x: Add()(half(x)))
    own = kept.transform
    capture = do("data", {**DATA, "samples": 1}, build_dataset=lambda _: kept, transforms=lambda _: composed)
    assert names(capture)[1:6] == ["sample_0.raw", "sample_0.transform_0", "sample_0.transform_1", "sample_0.0", "sample_0.1"]
    assert [r.op for r in capture.records[2:4]] == ["half", "Add"]
    assert [float(array(capture, f"sample_4.transform_{n}")) for n in (0, 1)] == [2.0, 3.0]
    assert all(r.attrs["trace"] for r in capture.records if "raw" in r.name or "transform" in r.name)
    assert kept.transform is own


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_data_set_that_goes_through_a_list_of_its_own_is_given_a_list(do, kind):
    class Through(Samples):
        def __getitem__(self, index):
            x = np.float32(index)
            for step in self.transform:
                x = step(x)
            return x, index

    kept = Through(transform=kind([half, Add()]))
    own = kept.transform
    capture = do("data", DATA, build_dataset=lambda _: kept, transforms=lambda _: [half, Add()])
    assert float(array(capture, "sample_4.transform_1")) == 3.0
    assert float(array(capture, "sample_4", leaf="0")) == 3.0
    assert kept.transform is own


def test_steps_may_take_a_picture_and_what_belongs_to_it(do):
    class Pairs(Samples):
        def __getitem__(self, index):
            x, note = np.float32(index), {"scale": np.float32(1.0)}
            for step in self.transforms:
                x, note = step(x, note)
            return x, note["scale"]

    def grow(x, note):
        return x + 1, {"scale": note["scale"] * 2}

    kept = Pairs()
    kept.transforms = own = [grow, grow]
    capture = do("data", DATA, build_dataset=lambda _: kept, transforms=lambda _: [grow, grow])
    assert float(array(capture, "sample_4", leaf="0")) == 6.0
    assert float(array(capture, "sample_4", leaf="1")) == 4.0
    assert [float(array(capture, "sample_4.transform_0", leaf=leaf)) for leaf in ("0", "1.scale")] == [5.0, 2.0]
    assert kept.transforms is own


def test_a_single_transform_need_not_be_a_list(do):
    capture = do("data", DATA, build_dataset=lambda _: Samples(transform=half), transforms=lambda _: half)
    assert "sample_1.transform_0" in names(capture)


def test_the_data_sets_own_transform_is_put_back_when_one_raises(do):
    kept = Samples(transform=half)
    with pytest.raises(ZeroDivisionError):
        do("data", DATA, build_dataset=lambda _: kept, transforms=lambda _: [lambda _: 1 // 0])
    assert kept.transform is half


def test_samples_that_hold_other_things_are_noted_and_the_rest_recorded(do):
    capture = do("data", DATA, build_dataset=lambda _: [(np.ones(2), b"raw", "cat.png")])
    assert names(capture) == ["length", "sample_0.0", "sample_0.2"]
    assert capture.select(name="sample_0", leaf="2")[0].text == "cat.png"
    assert capture.manifest.notes == ["sample_0.1: a value of type builtins.bytes cannot be recorded"]


def test_every_sample_starts_from_the_same_seed(do):
    class Random(Samples):
        def __getitem__(self, index):
            return np.random.rand()  # noqa: NPY002 - what transforms use

    capture = do("data", DATA, build_dataset=lambda _: Random())
    assert len({float(array(capture, f"sample_{n}")) for n in (0, 1, 4)}) == 1


# -- loaders -----------------------------------------------------------------------------------------------------------------


def batches(count):
    return [(np.full((2, 3), n, np.float32), np.array([n, n])) for n in range(count)]


@pytest.mark.parametrize(
    ("count", "most", "expected", "total", "truncated"),
    [
        (1, 64, ["dataloader_0"], 1, False),
        (2, 64, ["dataloader_0", "dataloader_1"], 2, False),
        (5, 64, ["dataloader_0", "dataloader_1", "dataloader_last"], 5, False),
        (3, 3, ["dataloader_0", "dataloader_1", "dataloader_last"], 3, False),
        (4, 3, ["dataloader_0", "dataloader_1"], None, True),
        (10, 1, ["dataloader_0"], None, True),
    ],
)
def test_the_first_batches_and_the_last_are_recorded(do, count, most, expected, total, truncated):
    taken = []
    capture = do("data", {**DATA, "most": most}, build_dataloader=lambda _: (taken.append(b) or b for b in batches(count)))
    assert list(dict.fromkeys(r.name for r in capture.records if r.name != "batches" and r.role != "state")) == expected
    assert [int(array(capture, "batches"))] == [total] if total is not None else "batches" not in names(capture)
    assert Data.answer(capture).truncated is truncated
    assert len(taken) <= most + 1
    if expected[-1] == "dataloader_last":
        assert array(capture, "dataloader_last")[0, 0] == count - 1


def test_a_loader_without_a_batch_is_told(do):
    for task, options in (("data", DATA), ("batch", BATCH), ("evaluate", EVALUATE)):
        with pytest.raises(UsageError, match="the data loader of split 'val' gave no batch") as caught:
            do(task, options, build_dataloader=lambda _: [])
        assert "drop_last" in caught.value.hint


@pytest.mark.parametrize(
    ("batch", "inputs", "labels"),
    [
        (("x", "y"), "x", "y"),
        (["x", "y"], "x", "y"),
        (("x", "mask", "y"), ("x", "mask"), "y"),
        ({"x": 1, "label": 2}, {"x": 1}, 2),
        ({"ids": 1, "mask": 3, "y": 2}, {"ids": 1, "mask": 3}, 2),
        ({"target": 2, "labels": 3, "x": 1}, {"target": 2, "x": 1}, 3),
    ],
)
def test_a_batch_is_split_into_inputs_and_labels(batch, inputs, labels):
    assert data.split_batch(batch) == (inputs, labels)


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"x": 1, "z": 2}, "a batch with the keys x, z has no labels"),
        (("x",), "a batch of type tuple cannot be split"),
        (np.ones(3), "a batch of type ndarray cannot be split"),
        (None, "a batch of type NoneType cannot be split"),
    ],
)
def test_a_batch_that_cannot_be_split_is_told(batch, told):
    with pytest.raises(UsageError, match=told):
        data.split_batch(batch)


def test_the_first_batch_gives_inputs_and_labels(do):
    capture = do("batch", BATCH, build_dataloader=lambda _: batches(2))
    assert names(capture) == ["inputs", "labels"]
    assert set(capture.manifest.settings["trees"]) == {"inputs", "labels"}
    assert array(capture, "inputs").max() == 0


def test_own_inputs_are_taken(do):
    capture = do("given", {"function": "inputs"}, inputs=lambda: {"x": np.ones(2)})
    assert names(capture) == ["inputs.x"]


# -- evaluation and metric ---------------------------------------------------------------------------------------------------


def accuracy(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).mean())}


def given_values(folder, rows=5, first=0):
    random = np.random.RandomState(0)
    return {
        "inputs": save(folder / "inputs", "inputs", random.randn(rows, 3).astype("float32")),
        "labels": save(folder / "labels", "labels", np.array([first, *(np.arange(1, rows) % 3)])),
    }


def test_without_a_loader_the_given_inputs_are_halved(do, tmp_path):
    capture = do("evaluate", EVALUATE, given_values(tmp_path))
    assert [(r.key, r.shape) for r in capture.records] == [
        ("output_0", (3, 3)),
        ("labels_0", (3,)),
        ("output_1", (2, 3)),
        ("labels_1", (2,)),
    ]
    assert Evaluate.answer(capture) == Evaluated(2)


def test_one_row_is_in_both_halves(do, tmp_path):
    capture = do("evaluate", EVALUATE, given_values(tmp_path, 1))
    assert [r.shape for r in capture.records] == [(1, 3), (1,), (1, 3), (1,)]


def test_with_a_loader_the_first_batches_and_the_last_are_evaluated(do):
    capture = do("evaluate", EVALUATE, build_dataloader=lambda _: batches(5), build_model=lambda: lambda x: x + 1)
    assert Evaluate.answer(capture) == Evaluated(3, True, 5)
    assert [float(array(capture, f"output_{n}")[0, 0]) for n in range(3)] == [1, 2, 5]


def test_a_metric_without_labels_is_told(do, tmp_path):
    with pytest.raises(UsageError, match="the metric needs labels"):
        do("evaluate", EVALUATE, {"inputs": given_values(tmp_path)["inputs"]})


def test_a_metric_is_recorded_by_batch_and_on_all(do, tmp_path):
    evaluation = do("evaluate", EVALUATE, given_values(tmp_path))
    capture = do("metric", {}, {"evaluation": evaluation}, metric=accuracy)
    assert names(capture) == [f"{n}.accuracy" for n in ("batch_0", "batch_1", "all")]
    parts = [float(array(capture, f"batch_{n}")) for n in (0, 1)]
    assert float(array(capture, "all")) == pytest.approx((3 * parts[0] + 2 * parts[1]) / 5)
    assert Metric.answer(capture) == MetricTaken(2)


@pytest.mark.parametrize("left_out", [255, -100])
def test_the_one_class_of_a_probe_is_none_that_is_left_out(do, tmp_path, left_out):
    seen = []
    given = given_values(tmp_path, first=left_out)
    evaluation = do("evaluate", EVALUATE, given)
    capture = do("probes", {"function": "metric"}, {"evaluation": evaluation}, metric=lambda o, t: seen.append((o, t)) or 0.0)
    made = dict(zip(Probes.answer(capture).probes, seen))  # noqa: B905 - strict= is not in Python 3.8, where this runs too
    (only,) = set(made["one_class"][1].tolist())
    assert only != left_out
    assert set(made["all_ignored"][1].tolist()) == {left_out}


def test_probes_tie_scores_and_leave_one_class(do, tmp_path):
    seen = []
    evaluation = do("evaluate", EVALUATE, given_values(tmp_path))
    capture = do("probes", {"function": "metric"}, {"evaluation": evaluation}, metric=lambda o, t: seen.append((o, t)) or 0.0)
    made = dict(zip(Probes.answer(capture).probes, seen))  # noqa: B905 - strict= is not in Python 3.8, where this runs too
    tied, labels = made["ties"]
    assert tied.dtype == np.float32
    assert len(set(tied.ravel().tolist())) <= 5
    assert len(set(made["ties_broken_1"][0].ravel().tolist())) == 15
    assert len(set(labels.tolist())) == 3
    assert set(made["one_class"][1].tolist()) == {labels[0]}
    absent, numbers = made["absent_class"]
    assert absent.shape[1] - 1 not in {*absent.argmax(1).tolist(), *numbers.tolist()}
    assert np.array_equal(np.sort(absent, 1), np.sort(made["one_class"][0], 1))  # the same scores, in other places
    assert [len(made[name][0]) for name in ("partial_batch", "one_sample", "no_sample")] == [4, 1, 0]
    assert np.abs(made["extreme"][0]).max() == pytest.approx(1e4)
    assert np.isnan(made["nan"][0]).sum() == 1
    left_out = Probes.answer(capture).left_out
    assert set(left_out) == {"mostly_ignored", "all_ignored", "soft_labels"}


def test_a_probe_that_is_refused_is_told_and_nothing_else(do, tmp_path):
    def metric(_, labels):
        if len(set(labels.tolist())) == 1 < len(labels):
            raise ZeroDivisionError("one class")
        return 1.0

    evaluation = do("evaluate", EVALUATE, given_values(tmp_path))
    capture = do("probes", {"function": "metric"}, {"evaluation": evaluation}, metric=metric)
    refused = {name: why for name, why in Probes.answer(capture).probes.items() if why != "ok"}
    assert refused == {"one_class": "ZeroDivisionError: one class"}
    assert "probe_one_class" not in names(capture)


def test_batches_that_do_not_fit_together_are_not_joined(do):
    uneven = [(np.ones((2, n), np.float32), np.zeros(2, int)) for n in (3, 4)]
    evaluation = do("evaluate", EVALUATE, build_dataloader=lambda _: uneven)
    capture = do("metric", {}, {"evaluation": evaluation}, metric=lambda o, _: float(o.sum()))
    assert names(capture) == ["batch_0", "batch_1"]


# -- inputs moved by one unit in the last place --------------------------------------------------------------------------------


def nudged(values, dtype, seed=0):
    return nudge(Typed(np.asarray(values), dtype), np.random.RandomState(seed))


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=20), st.integers(0, 99))
def test_float32_moves_to_a_neighbour(values, seed):
    before = np.array(values, np.float32)
    after = nudged(before, "float32", seed).array
    assert after.dtype == np.float32
    up, down = np.nextafter(before, np.float32(np.inf)), np.nextafter(before, np.float32(-np.inf))
    assert ((after == up) | (after == down) | (before == 0)).all()
    assert not after[before == 0].any()
    assert np.isfinite(after).all()


def test_both_neighbours_are_met_and_the_seed_decides():
    first, again, other = (nudged(np.ones(100, np.float32), "float32", seed).array for seed in (1, 1, 2))
    assert (first > 1).any()
    assert (first < 1).any()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@given(st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=30), st.integers(0, 99))
def test_bfloat16_moves_by_one_bit_and_never_past_zero_or_infinity(bits, seed):
    before = Typed(np.array(bits, np.uint16), "bfloat16")
    after = nudge(before, np.random.RandomState(seed))
    assert (after.dtype, after.array.dtype) == ("bfloat16", np.uint16)
    exact, moved = widen(before), widen(after)
    steps = np.abs(after.array.astype(int) - before.array)
    fixed = ~np.isfinite(exact) | (exact == 0)
    assert (steps[fixed] == 0).all()
    assert (steps[~fixed] <= 1).all()
    assert np.isfinite(moved[~fixed]).all()
    assert (np.signbit(moved) == np.signbit(exact))[~np.isnan(exact)].all()


def test_the_largest_bfloat16_stays_or_falls():
    assert set(nudged(np.full(50, 0x7F7F, np.uint16), "bfloat16").array.tolist()) == {0x7F7E, 0x7F7F}


def test_zero_stays_as_no_rounding_made_it():
    assert not nudged(np.zeros(50, np.float32), "float32").array.any()
    assert not nudged(np.zeros(50, np.uint16), "bfloat16").array.any()


def test_what_is_no_number_stays_so():
    assert np.isnan(nudged(np.full(9, np.nan, np.float32), "float32").array).all()


def test_the_largest_number_stays_finite_without_a_warning():
    assert np.isfinite(nudged(np.full(50, np.finfo(np.float32).max), "float32").array).all()


def test_infinity_stays_infinite():
    before = np.array([np.inf, -np.inf] * 20, np.float32)
    np.testing.assert_array_equal(nudged(before, "float32").array, before)


def test_an_empty_tensor_and_a_single_number_are_moved_too():
    assert nudged(np.zeros((0, 3), np.float32), "float32").array.shape == (0, 3)
    assert float(nudged(np.float16(1), "float16").array) in {1 + 2.0**-10, 1 - 2.0**-11}


def test_perturbed_runs_move_the_inputs_and_where_none_is_floating_the_weights(do, tmp_path):
    class Embedding:
        def __init__(self):
            self.table = np.ones((4, 2), np.float32)
            self.count = np.array(3)

        def __call__(self, x):
            return self.table[x]

    ids = save(tmp_path / "ids", "inputs", np.array([0, 1, 2, 3]))
    model = Embedding()
    runs = {"runs": [NATIVE, "perturbed-0", "perturbed-1"]}
    capture = do("forward", runs, {"inputs": ids}, build_model=lambda: model)
    native, first, second = (array(capture, "output", run=run) for run in runs["runs"])
    assert 0 < np.abs(first - native).max() < 2e-7
    assert (first != second).any()
    assert (model.table == 1).all()
    floats = save(tmp_path / "x", "inputs", {"x": (np.ones(3, np.float32), [np.arange(3)])})
    capture = do("forward", runs, {"inputs": floats}, build_model=lambda: lambda x: x)
    assert (array(capture, "output", run="perturbed-0", leaf="0") != 1).all()
    assert array(capture, "output", run="perturbed-0", leaf="1.0").tolist() == [0, 1, 2]


# -- runs that fail ------------------------------------------------------------------------------------------------------------


def test_a_float64_run_that_fails_is_said_with_its_reason_a_native_one_is_the_sides(do, tmp_path):
    def model(x):
        if x.dtype == np.float64:
            raise TypeError("no kernel\nfor float64")
        return x

    inputs = save(tmp_path / "x", "inputs", np.ones(3, np.float32))
    capture = do("forward", {"runs": [NATIVE, DOUBLE]}, {"inputs": inputs}, build_model=lambda: model)
    assert Forward.answer(capture) == Passed([NATIVE], {DOUBLE: "TypeError: for float64"})
    with pytest.raises(ZeroDivisionError):
        do("forward", {"runs": [NATIVE, DOUBLE]}, {"inputs": inputs}, build_model=lambda: lambda x: 1 // 0 * x)


def test_only_what_is_tolerated_is_caught():
    def fail(message):
        raise ValueError(message)

    assert attempt(lambda: fail("a\nb"), tolerate=True) == "ValueError: b"
    assert attempt(lambda: fail(""), tolerate=True) == "ValueError: "
    assert attempt(lambda: None, tolerate=True) == ""
    with pytest.raises(ValueError, match="a"):
        attempt(lambda: fail("a"), tolerate=False)


def test_only_a_float64_run_may_fail_and_the_model_is_put_back():
    def fail():
        raise ValueError("no kernel")

    answer, restored = Ran(), []
    attempt_run(answer, NATIVE, lambda: None)
    attempt_run(answer, f"{NATIVE}:train", lambda: None, lambda: restored.append("after success"))
    for name in (DOUBLE, f"{DOUBLE}:train"):
        attempt_run(answer, name, fail, lambda: restored.append("after failure"))
    reason = "ValueError: no kernel"
    assert answer == Ran([NATIVE, f"{NATIVE}:train"], {DOUBLE: reason, f"{DOUBLE}:train": reason})
    assert restored == ["after success", "after failure", "after failure"]
    for name in (NATIVE, f"{NATIVE}:train", f"perturbed-{DOUBLE}"):
        with pytest.raises(ValueError, match="no kernel"):
            attempt_run(answer, name, fail)
    assert len(answer.runs) == 2


def test_notes_go_to_the_manifest(tmp_path):
    with CaptureWriter(tmp_path / "c", Manifest(stage="x")) as writer:
        data.add_leaves(Session("reference", {}, "numpy"), writer, "x", {"a": b"", "b": 1})
    assert Capture.open(tmp_path / "c").manifest.notes == ["x.a: a value of type builtins.bytes cannot be recorded"]
