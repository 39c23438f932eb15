"""Inputs that a judge draws otherwise than a specification says: each kind reaches what it is for, and stays where it has to."""

import numpy as np
import pytest

from paralign.dtypes import Typed, widen
from paralign.run.inputs import make
from paralign.run.kinds_of_inputs import FAR, NEAR, OUT, Kind, kinds, varied


def drawn(spec, kind, tmp_path):
    first = make(spec, tmp_path, "[inputs]", 3)
    return widen(first), widen(varied(spec, first, kind, np.random.default_rng(0)))


def test_the_first_kinds_are_all_there_and_more_are_as_specified():
    assert set(kinds(6)) == set(Kind)
    assert kinds(0) == ()
    assert kinds(8)[6:] == (Kind.SPECIFIED, Kind.SPECIFIED)


def test_normal_values_reach_far_near_and_one_side(tmp_path):
    spec = {"shape": [6, 8], "mean": 2.0, "std": 3.0}
    for kind, factor in ((Kind.WIDE, FAR), (Kind.NARROW, NEAR)):
        first, found = drawn(spec, kind, tmp_path)
        np.testing.assert_allclose(found - 2.0, factor * (first - 2.0), rtol=1e-4, atol=1e-6)
    _, sided = drawn(spec, Kind.ONE_SIDED, tmp_path)
    assert (sided[::2] >= 2).all()
    assert (sided[1::2] <= 2).all()
    first, found = drawn(spec, Kind.OUTLIERS, tmp_path)
    moved = found != first
    assert moved.sum() == 3
    far = OUT * np.maximum(np.abs(first[moved] - 2.0), 3.0)
    np.testing.assert_allclose(found[moved] - 2.0, np.copysign(far, first[moved] - 2.0), rtol=1e-4)


@pytest.mark.parametrize(
    ("spec", "zeros"),
    [
        ({"shape": [4, 30]}, 40),
        ({"shape": [4, 30], "mean": 5.0}, 40),
        ({"shape": [1]}, 1),
        ({"shape": [4, 30], "distribution": "uniform", "low": -1.0}, 40),
        ({"shape": [4, 30], "distribution": "uniform", "low": 0.5}, 0),
    ],
)
def test_zeros_are_drawn_where_the_bounds_hold_them(tmp_path, spec, zeros):
    first, found = drawn(spec, Kind.ZEROS, tmp_path)
    assert ((first == 0).sum(), (found == 0).sum()) == (0, zeros)
    assert (found[found != 0] == first[found != 0]).all()


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_uniform_values_stay_within_their_bounds(tmp_path, kind, dtype):
    _, found = drawn({"shape": [5, 40], "distribution": "uniform", "low": -1.0, "high": 3.0, "dtype": dtype}, kind, tmp_path)
    assert found.min() >= -1.0
    assert found.max() <= 3.0
    if kind is Kind.WIDE:
        assert np.median(np.abs(found - 1.0)) > 1.7, "at the ends"
    if kind is Kind.ONE_SIDED:
        assert (found[0] >= 1.0).all()
        assert (found[1] <= 1.0).all()


@pytest.mark.parametrize("kind", list(Kind))
def test_whole_numbers_stay_within_their_bounds_and_reach_both(tmp_path, kind):
    first, found = drawn({"shape": [4, 30], "dtype": "int64", "low": 2, "high": 900}, kind, tmp_path)
    assert found.min() >= 2
    assert found.max() < 900
    if kind in (Kind.WIDE, Kind.OUTLIERS):
        assert (found == 2).any()
        assert (found == 899).any()
    else:
        assert (found == first).all()


@pytest.mark.parametrize("spec", [{"shape": [2, 2], "distribution": "ones"}, {"shape": [], "dtype": "bool"}, {"shape": [0, 3]}])
def test_what_cannot_vary_stays(tmp_path, spec):
    for kind in Kind:
        first, found = drawn(spec, kind, tmp_path)
        assert first.shape == found.shape
        assert (first == found).all() or spec.get("dtype") == "bool"


def test_a_scalar_and_nested_entries_are_varied_each(tmp_path):
    spec = {"keywords": {"x": {"shape": []}, "ids": {"shape": [3], "dtype": "int32", "high": 5}}}
    made = make([spec["keywords"]["x"], spec], tmp_path, "[inputs]", 1)
    found = varied([spec["keywords"]["x"], spec], made, Kind.WIDE, np.random.default_rng(0))
    assert isinstance(found, tuple)
    assert isinstance(found[1]["x"], Typed)
    assert found[0].array == pytest.approx(FAR * made[0].array, rel=1e-5)
    assert found[1]["x"].array == pytest.approx(FAR * made[1]["x"].array, rel=1e-5)
    assert set(found[1]) == {"x", "ids"}


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "spec",
    [
        {"shape": [6, 8], "distribution": "normal", "std": 3.0, "dtype": "int8"},
        {"shape": [6, 8], "distribution": "normal", "std": 3000.0, "dtype": "float16"},
        {"shape": [6, 8], "low": 0, "high": 1 << 62, "dtype": "int64"},
    ],
    ids=["int8", "float16", "int64"],
)
@pytest.mark.filterwarnings("error")
def test_values_stay_within_their_type(tmp_path, kind, spec):
    first = make(spec, tmp_path, "[inputs]", 3)
    found = varied(spec, first, kind, np.random.default_rng(0))
    assert np.isfinite(widen(found)).all()
    if "high" in spec:
        assert found.array.max() < spec["high"]
    if spec.get("std") == 3.0:
        assert np.abs(widen(found).astype(int)).max() <= 128
        assert (np.sign(widen(found).astype(int)) * np.sign(widen(first).astype(int)) >= 0).all() or kind is Kind.ONE_SIDED, (
            "none wraps around"
        )
