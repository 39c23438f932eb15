"""Inputs and labels: drawn, from files, nested; written as captures whose key is their content."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign import checking
from paralign.capture import Capture
from paralign.context import Context
from paralign.dtypes import STORAGE, Typed, widen
from paralign.errors import CaptureFormatError, UnsafeFile, UnsupportedTensor, UsageError
from paralign.run.inputs import DISTRIBUTIONS, make, save
from paralign.run.project import Settings
from paralign.worker.protocol import Batch, Description, Given


def drawn(**spec):
    return make(spec, None, "[inputs]", 0)


# -- drawn -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in STORAGE if not d.startswith("float8")])
def test_every_dtype_can_be_drawn(dtype):
    value = drawn(shape=[3, 4], dtype=dtype)
    assert (value.dtype, value.array.shape, value.array.dtype) == (dtype, (3, 4), STORAGE[dtype])
    assert len(np.unique(widen(value).real)) > 1
    again = drawn(shape=[3, 4], dtype=dtype)
    np.testing.assert_array_equal(value.array, again.array)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_cannot_be_drawn_and_says_what_to_do(dtype):
    with pytest.raises(UnsupportedTensor, match=f"cannot be rounded to {dtype}") as caught:
        drawn(shape=[2], dtype=dtype)
    assert "file" in caught.value.hint


def test_distributions_are_what_they_say():
    normal = drawn(shape=[10000], mean=3, std=2).array
    assert abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    uniform = drawn(shape=[10000], distribution="uniform", low=-1, high=3).array
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() < 3
    whole = drawn(shape=[1000], dtype="int64", low=2, high=5).array
    assert set(whole.tolist()) == {2, 3, 4}
    assert drawn(shape=[2, 2], distribution="arange").array.tolist() == [[0, 1], [2, 3]]
    assert drawn(shape=[2], distribution="ones", dtype="int8").array.tolist() == [1, 1]
    assert drawn(shape=[2], distribution="zeros", dtype="bool").array.tolist() == [False, False]
    assert set(DISTRIBUTIONS) == {"normal", "uniform", "integers", "zeros", "ones", "arange"}


def test_floats_are_normal_and_integers_zero_or_one_unless_told():
    assert drawn(shape=[100]).array.min() < -1
    assert set(drawn(shape=[100], dtype="int32").array.tolist()) == {0, 1}


@pytest.mark.parametrize(("shape", "size"), [([], 1), ([0], 0), ([2, 0, 3], 0), ([1, 1], 1)])
def test_empty_and_scalar_shapes_are_shapes(shape, size):
    for kind in DISTRIBUTIONS:
        value = drawn(shape=shape, distribution=kind)
        assert (value.array.shape, value.array.size) == (tuple(shape), size)


def test_the_tables_own_seed_comes_before_the_projects():
    a, b, c, d = (make({"shape": [5], **own}, None, "[inputs]", seed) for own in ({}, {"seed": 1}) for seed in (7, 8))
    assert a.array.tolist() != b.array.tolist()
    assert c.array.tolist() == d.array.tolist() != a.array.tolist()


WRONG = {
    "no shape": ({}, "neither a shape nor a file is given"),
    "a fraction": ({"shape": [2.5]}, "a shape is a list of whole numbers"),
    "a negative size": ({"shape": [-1]}, "a shape is a list of whole numbers"),
    "a text": ({"shape": ["2"]}, "a shape is a list of whole numbers"),
    "an unknown dtype": ({"shape": [2], "dtype": "float"}, "unknown dtype 'float'"),
    "an unknown distribution": ({"shape": [2], "distribution": "gauss"}, "unknown distribution 'gauss'"),
    "an empty range": ({"shape": [2], "distribution": "integers", "low": 3, "high": 3}, r"high \(3\) must be above low \(3\)"),
    "labels above the default range": ({"shape": [2], "dtype": "int64", "low": 5}, r"high \(2\) must be above low \(5\)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_drawn_is_told_with_the_place(what):
    spec, told = WRONG[what]
    with pytest.raises(UsageError, match=told) as caught:
        drawn(**spec)
    assert "[inputs]" in caught.value.where


@pytest.mark.parametrize(
    "spec",
    [
        {"shape": [2], "seed": -1},
        {"shape": [2], "std": -1.0},
        {"shape": [2], "distribution": "uniform", "low": 3, "high": 1},
        {"shape": [True]},
        {"shape": [2], "dtype": "uint8", "low": -5, "high": -1},
        {"shape": [2], "dtype": "int8", "low": 0, "high": 1000},
    ],
    ids=str,
)
def test_what_numpy_cannot_draw_or_the_dtype_cannot_hold_is_told(spec):
    with pytest.raises(UsageError):
        make(spec, None, "[inputs]", 0)


def test_complex_values_have_both_parts():
    assert drawn(shape=[100], dtype="complex64").array.imag.any()


def test_several_inputs_differ_also_without_seeds_of_their_own():
    first, second = make([{"shape": [4]}, {"shape": [4]}], None, "[inputs]", 0)
    assert first.array.tolist() != second.array.tolist()
    found = make({"keywords": {"x": {"shape": [4]}, "y": {"shape": [4]}}}, None, "[inputs]", 0)
    assert list(found) == ["x", "y"]
    assert found["x"].array.tolist() != found["y"].array.tolist()


def test_the_place_names_the_one_of_several():
    for spec, where in (([{"shape": [1]}, {}], "[inputs][1]"), ({"keywords": {"x": {}}}, "[inputs].x")):
        with pytest.raises(UsageError) as caught:
            make(spec, None, "[inputs]", 0)
        assert caught.value.where == where


# -- from files --------------------------------------------------------------------------------------------------------------


def test_files_are_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    np.savez(tmp_path / "one.npz", anything=np.arange(4))
    np.savez(tmp_path / "two.npz", x=np.arange(2), y=np.arange(5))
    np.save(tmp_path / "dict.npy", {"x": np.arange(6)})

    def made(file):
        return make({"file": file}, tmp_path, "[inputs]", 0)

    assert made("x.npy").tolist() == [0, 1, 2]
    assert made(str(tmp_path / "x.npy")).tolist() == [0, 1, 2]
    assert made("one.npz").tolist() == [0, 1, 2, 3]
    assert set(made("two.npz")) == {"x", "y"}
    assert set(made("dict.npy")) == {"x"}


def test_a_file_that_is_missing_damaged_or_unsafe(tmp_path):
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    np.save(tmp_path / "bad.npy", np.array({"x": print}, dtype=object))
    for file, error, told in (
        ("nowhere.npy", UsageError, "the file of inputs is not there"),
        (".", UsageError, "the file of inputs is not there"),
        ("cut.npy", CaptureFormatError, "truncated or damaged"),
        ("bad.npy", UnsafeFile, "print"),
    ):
        with pytest.raises(error, match=told):
            make({"file": file}, tmp_path, "[inputs]", 0)


# -- captures ----------------------------------------------------------------------------------------------------------------


def test_nested_values_are_written_with_their_structure(tmp_path):
    value = {"x": np.ones((2, 3), np.float32), "more": (Typed(np.array([1], np.uint16), "bfloat16"), None, 2.5)}
    capture = save(tmp_path / "c", "inputs", value)
    assert [(r.key, r.dtype, r.role) for r in capture.records] == [
        ("inputs.x", "float32", "input"),
        ("inputs.more.0", "bfloat16", "input"),
        ("inputs.more.2", "float64", "input"),
    ]
    assert capture.manifest.settings["trees"]["inputs"]["dict"]["more"]["tuple"][1] == {"none": None}
    assert Capture.open(tmp_path / "c").complete


def key(folder, value):
    return save(folder, "inputs", value).manifest.settings["key"]


def test_the_key_is_that_of_the_content(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = key(tmp_path / "c", x)
    assert key(tmp_path / "c", x.copy()) == first
    assert key(tmp_path / "c", np.asfortranarray(x)) == first
    others = [x + 1, x.reshape(3, 2), x.astype(np.float64), x.view(np.int32), {"x": x}, (x,), x.T]
    keys = [key(tmp_path / "c", o) for o in others]
    assert len({first, *keys}) == 1 + len(others)


def test_what_an_earlier_run_left_is_replaced_what_others_left_is_not(tmp_path):
    save(tmp_path / "c", "inputs", np.ones(3))
    assert save(tmp_path / "c", "inputs", np.zeros(2)).records[0].shape == (2,)
    (tmp_path / "c" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="it holds something that paralign did not write"):
        save(tmp_path / "c", "inputs", np.ones(3))
    assert (tmp_path / "c" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("value", ["text", object(), {"a": [np.array(["x"])]}, np.array([None])])
def test_what_is_no_array_is_told_with_its_path(tmp_path, value):
    with pytest.raises(UsageError, match="cannot be recorded") as caught:
        save(tmp_path / "c", "inputs", value)
    assert caught.value.where == ("inputs.a.0" if isinstance(value, dict) else "inputs.")


# -- where inputs and labels come from ---------------------------------------------------------------------------------------------


class Reference:
    """A recorder that notes what it is asked for."""

    def __init__(self, folder, batches=True):
        self.asked, self.folder, self.batches = [], folder, batches

    def record(self, name, order):
        self.asked.append((name, order))
        return SimpleNamespace(name=name, manifest=SimpleNamespace(stage=order.task))


def given(folder, inputs=None, labels=None, functions=()):
    reference = Reference(folder)
    context = Context(reference, None, Settings(split="test"), about={"reference": Description(list(functions), "numpy")})
    project = SimpleNamespace(inputs=inputs, labels=labels, settings=context.settings, folder=folder, path=folder / "paralign.toml")
    return *checking.given_tensors(project, context, folder), reference.asked


BATCH = ("batch", Batch("test"))


def test_the_project_file_comes_before_the_functions(tmp_path):
    first, second, asked = given(tmp_path, {"shape": [2]}, {"shape": [3]}, ["inputs", "labels", "build_dataloader"])
    assert (first.records[0].shape, second.records[0].shape, asked) == ((2,), (3,), [])


def test_the_functions_come_before_the_loader(tmp_path):
    first, second, asked = given(tmp_path, functions=["inputs", "labels", "build_dataloader"])
    assert (first.name, second.name) == ("inputs", "labels")
    assert asked == [("inputs", Given("inputs")), ("labels", Given("labels"))]


def test_the_first_batch_is_the_last_resort_and_can_be_asked_for(tmp_path):
    for inputs, functions in ((None, ["build_dataloader"]), ({"source": "dataloader"}, ["inputs", "build_dataloader"])):
        first, second, asked = given(tmp_path, inputs, None, functions)
        assert (first.name, second.name, asked) == ("batch", "batch", [BATCH])


def test_labels_of_a_batch_do_not_go_with_inputs_from_elsewhere(tmp_path):
    first, second, _ = given(tmp_path, {"shape": [2]}, None, ["build_dataloader"])
    assert (first.records[0].shape, second) == ((2,), None)


def test_nothing_at_all_gives_nothing(tmp_path):
    assert given(tmp_path) == (None, None, [])


def test_a_loader_that_is_not_there_cannot_be_asked_for(tmp_path):
    with pytest.raises(UsageError, match=r"the reference has no build_dataloader\(split\)"):
        given(tmp_path, {"source": "dataloader"})
    with pytest.raises(UsageError, match=r"unknown source 'loader' of \[labels\]"):
        given(tmp_path, None, {"source": "loader"})


def test_inputs_and_labels_are_drawn_from_different_seeds(tmp_path):
    first, second, _ = given(tmp_path, {"shape": [4]}, {"shape": [4]})
    assert first.array(first.records[0]).tolist() != second.array(second.records[0]).tolist()
