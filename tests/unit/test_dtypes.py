"""Element types: names, storage, and exact widening against the ml_dtypes package."""

import numpy as np
import pytest

from paralign.dtypes import EPS, RAW, STORAGE, Typed, canonical, is_complex, is_floating, narrow, typed, widen
from paralign.errors import UnsupportedTensor

RAW_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


def every_pattern(name):
    storage = RAW_BITS[name]
    return np.arange(np.iinfo(storage).max + 1, dtype=storage)


@pytest.mark.parametrize("name", sorted(RAW))
def test_widening_is_exact_for_every_bit_pattern(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = every_pattern(name)
    wide = widen(Typed(bits, name))
    expected = bits.view(getattr(ml_dtypes, name)).astype(np.float32)
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(wide[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("name", sorted(RAW))
def test_extension_types_become_raw_bits_in_any_layout(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.arange(24, dtype=RAW_BITS[name]).reshape(4, 6)
    value = typed(bits.view(getattr(ml_dtypes, name)).T[::-1])
    assert value.dtype == name
    assert value.array.dtype == STORAGE[name]
    np.testing.assert_array_equal(value.array, bits.T[::-1])
    assert typed(np.zeros((), getattr(ml_dtypes, name))).array.shape == ()


@pytest.mark.parametrize("name", sorted(RAW))
def test_widening_keeps_shape(name):
    for shape in [(), (0, 3), (2, 3, 4)]:
        assert widen(Typed(np.zeros(shape, RAW_BITS[name]), name)).shape == shape


@pytest.mark.parametrize("name", sorted(set(STORAGE) - RAW))
def test_plain_types_keep_their_name_and_memory(name):
    array = np.zeros((2, 3), name)
    value = typed(array)
    assert value.dtype == name == canonical(array.dtype)
    assert np.shares_memory(value.array, array)
    assert widen(value) is value.array


@pytest.mark.parametrize("name", ["int16", "float32", "float64", "complex64"])
def test_other_byte_order_becomes_native(name):
    swapped = np.arange(5).astype(np.dtype(name).newbyteorder())
    value = typed(swapped)
    assert canonical(swapped.dtype) == name
    assert value.array.dtype == np.dtype(name)
    assert value.array.dtype.isnative
    np.testing.assert_array_equal(value.array, np.arange(5).astype(name))


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([None]),
        np.array(["2020-01-01"], "M8[D]"),
        np.zeros(2, [("a", "f4")]),
        np.array([b"x"]),
    ],
)
def test_what_cannot_be_recorded_is_named(array):
    with pytest.raises(UnsupportedTensor) as caught:
        typed(array)
    assert f"elements of type {array.dtype} cannot be recorded" in str(caught.value)
    assert "float32" in caught.value.hint


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is float64 here")
def test_extended_precision_is_refused():
    with pytest.raises(UnsupportedTensor):
        typed(np.zeros(2, np.longdouble))


def test_python_numbers_have_a_type():
    assert typed(0.5).dtype == "float64"
    assert typed(np.float32(1)).array.shape == ()


def test_eps_is_the_distance_from_one_to_the_next_value():
    for name in ("float16", "float32", "float64"):
        assert EPS[name] == np.finfo(name).eps
    for name in RAW:
        bits = every_pattern(name)
        with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
            values = widen(Typed(bits, name)).astype(np.float64)
        assert EPS[name] == values[values > 1].min() - 1


def test_kinds():
    assert is_floating("bfloat16")
    assert is_floating("complex64")
    assert not is_floating("int8")
    assert not is_floating("bool")
    assert is_complex("complex128")
    assert not is_complex("float64")


def test_narrowing_to_bfloat16_rounds_as_ml_dtypes_does():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    ties = np.arange(0x3F808000, 0x3F908000, 0x8000, dtype=np.uint32)
    values = np.concatenate([bits, ties]).view(np.float32)
    values = np.concatenate([values[~np.isnan(values)], np.float32([0, -0.0, np.inf, -np.inf, 3.4e38])])
    narrowed = narrow(values, "bfloat16")
    np.testing.assert_array_equal(narrowed.array, values.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.isnan(widen(narrow(np.float32([np.nan]), "bfloat16"))).all()


def test_narrowing_to_numpys_types_and_to_float8():
    assert narrow(np.array([1.5]), "float16").array.dtype == np.float16
    with pytest.raises(UnsupportedTensor, match="values cannot be rounded to float8_e5m2 here"):
        narrow(np.array([1.5]), "float8_e5m2")
