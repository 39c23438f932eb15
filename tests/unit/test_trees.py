"""Nested values: taken apart into named leaves, put together again, turned into what can be recorded."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign.adapters.finding import load
from paralign.dtypes import Typed, typed
from paralign.errors import UnsupportedTensor
from paralign.worker.datasets.feed import tensors_of
from paralign.worker.sides.calling import call_model
from paralign.worker.values.trees import children, leaves, mapped, rebuild, structure, to_value


class Pair(NamedTuple):
    first: object
    second: object


@dataclass
class Outputs:
    logits: object
    loss: object = None


def known(value):
    return isinstance(value, np.ndarray)


def paths(value):
    return [path for path, _ in leaves(value, known)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.0, [""]),
        ([1, 2], ["0", "1"]),
        ({"a": 1, "b": [2, (3, 4)]}, ["a", "b.0", "b.1.0", "b.1.1"]),
        (OrderedDict(b=1, a=2), ["b", "a"]),
        (Pair(1, [2]), ["first", "second.0"]),
        (Outputs(1, 2), ["logits", "loss"]),
        (Outputs(1), ["logits"]),
        ({0: 1, None: 2}, ["0", "None"]),
        (None, []),
        ({}, []),
        ([[], (), {}, None], []),
        ("text", [""]),
    ],
)
def test_paths_name_the_way_to_a_leaf(value, expected):
    assert paths(value) == expected


def test_what_is_known_as_a_leaf_is_not_taken_apart():
    array = np.zeros((2, 2))
    assert list(leaves([array], known)) == [("0", array)]
    assert [p for p, _ in leaves([[1], [2]], lambda v: v == [1])] == ["0", "1.0"]


def test_a_class_with_fields_is_no_container_an_instance_is():
    assert children(Outputs) is None
    assert children(Outputs(1, 2)) == [("logits", 1), ("loss", 2)]
    assert children("ab") is None
    assert children({1, 2}) is None


def test_structures_keep_lists_tuples_and_nothing_apart():
    assert structure([1, (2, None)], known) == {"list": [{"leaf": "0"}, {"tuple": [{"leaf": "1.0"}, {"none": None}]}]}
    assert structure({}, known) == {"dict": {}}
    assert structure(Pair(1, 2), known) == {
        "dict": {"first": {"leaf": "first"}, "second": {"leaf": "second"}},
        "fields": "tuple",
    }
    assert structure(OrderedDict(a=1), known) == {"dict": {"a": {"leaf": "a"}}, "fields": "mapping"}
    assert structure(Outputs(1), known) == {"dict": {"logits": {"leaf": "logits"}, "loss": {"none": None}}, "fields": "object"}


VALUES = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(VALUES)
def test_lists_tuples_and_dicts_come_back_as_they_were(value):
    found = dict(leaves(value, known))
    assert rebuild(structure(value, known), found.__getitem__) == value


def test_named_tuples_and_dataclasses_come_back_with_their_fields():
    shape = structure([Pair(1, 2), Outputs(3)], known)
    pair, outputs = rebuild(shape, lambda path: path)
    assert (pair.first, pair["second"], pair[0]) == ("0.first", "0.second", "0.first")
    assert tuple(pair) == ("0.first", "0.second")
    assert (outputs.logits, outputs["logits"], outputs[0], outputs.loss) == ("1.logits", "1.logits", "1.logits", None)
    assert structure([pair, outputs], known) == shape
    with pytest.raises(AttributeError, match="no field 'hidden': there are logits, loss"):
        _ = outputs.hidden
    with pytest.raises(IndexError):
        _ = outputs[1]  # None is left out, as outputs of models that are mappings have it


@dataclass
class Hiding:
    values: object
    keys: object
    items: object = None
    get: object = 4


def test_fields_that_are_named_like_methods_of_a_dictionary_are_fields():
    shape = structure([Hiding(1, (2, 3)), OrderedDict(values=1)], known)
    given, mapping = rebuild(shape, lambda path: path)
    assert (given.values, given.keys, given.items, given.get) == ("0.values", ("0.keys.0", "0.keys.1"), None, "0.get")
    assert (given["values"], given[0], {**given}["get"]) == ("0.values", "0.values", "0.get")
    assert structure([given, mapping], known) == shape
    assert list(mapping.values()) == ["1.values"]  # a mapping of the user's has its methods
    for copied in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given), copy.copy(given), mapped(given, lambda leaf: leaf)):
        assert (copied.values, copied.keys, type(copied)) == (given.values, given.keys, type(given))
    with pytest.raises(AttributeError, match="no field 'hidden': there are values, keys, items, get"):
        _ = given.hidden


def test_arguments_come_back_as_plain_dicts():
    shape = structure([Pair(1, 2), Outputs(3)], known)
    found = rebuild(shape, lambda path: path, plain=True)
    assert found == [{"first": "0.first", "second": "0.second"}, {"logits": "1.logits", "loss": None}]
    assert [type(each) for each in found] == [dict, dict]


def test_structures_of_earlier_captures_are_read():
    assert rebuild({"dict": {"a": {"leaf": "a"}}}, lambda path: path) == {"a": "a"}


def test_a_tree_with_every_leaf_replaced_has_the_same_containers():
    given = rebuild(structure([Pair(1, (2, 3)), Outputs(3)], known), lambda _path: 1)
    found = mapped(given, lambda leaf: None if leaf is None else leaf + 1)
    assert structure(found, known) == structure(given, known)
    assert (found[0].second, found[1].logits) == ((2, 2), 2)


class Picture:
    __array_interface__ = np.arange(6, dtype=np.uint8).reshape(2, 3).__array_interface__


ADAPTER = load("numpy")


@pytest.mark.parametrize(
    ("leaf", "dtype", "shape"),
    [
        (np.ones((2, 3), np.float32), "float32", (2, 3)),
        (np.float16(1), "float16", ()),
        (True, "bool", ()),
        (3, "int64", ()),
        (0.5, "float64", ()),
        (1j, "complex128", ()),
        (Picture(), "uint8", (2, 3)),
    ],
)
def test_anything_that_numpy_can_read_is_recorded(leaf, dtype, shape):
    value = to_value(leaf, ADAPTER)
    assert isinstance(value, Typed)
    assert (value.dtype, value.array.shape) == (dtype, shape)


def test_text_is_recorded_as_text():
    assert to_value("cat", ADAPTER) == "cat"


@pytest.mark.parametrize("leaf", [b"raw", {1, 2}, object(), lambda: 0])
def test_what_holds_no_array_is_refused_by_name(leaf):
    with pytest.raises(UnsupportedTensor, match=f"a value of type builtins.{type(leaf).__qualname__} cannot be recorded") as caught:
        to_value(leaf, ADAPTER)
    assert "return tensors, arrays, numbers, text" in caught.value.hint


class HalfMade:
    """Asked for its array before it has one, as a picture that a library is still putting together."""

    @property
    def __array_interface__(self):
        raise KeyError("")


def test_an_object_that_fails_when_it_is_asked_for_its_array_is_refused_too():
    with pytest.raises(UnsupportedTensor, match="HalfMade cannot be recorded"):
        to_value(HalfMade(), ADAPTER)


class Numpy:
    """A session whose tensors are arrays."""

    class adapter:  # noqa: N801 - an attribute of sessions
        @staticmethod
        def is_tensor(value):
            return isinstance(value, np.ndarray)

        @staticmethod
        def to_array(value):
            return typed(value)

        @staticmethod
        def from_array(value):
            return value.array


def test_named_inputs_of_a_batch_are_handed_over_by_name_and_labels_have_their_fields():
    inputs = tensors_of(Numpy, Pair(np.ones(2), np.zeros(2)), inputs=True)
    assert call_model(lambda second, first: second - first, inputs).tolist() == [-1.0, -1.0]
    assert call_model(lambda *, second, first: second - first, inputs).tolist() == [-1.0, -1.0]
    assert tensors_of(Numpy, Pair(np.ones(2), np.zeros(2))).first.tolist() == [1.0, 1.0]
