"""Which rearrangements are recognised, and what must not be taken for one."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.comparison import recognise
from paralign.comparison.recognise import rearrangement
from paralign.dtypes import Typed


def values(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def noisy(array, size=1e-4):
    array = np.asarray(array)
    noise = np.random.default_rng(99).standard_normal(array.shape)
    return (array + size * np.sqrt((array.astype(np.float64) ** 2).mean()) * noise).astype(array.dtype)


@pytest.mark.parametrize("shape", [(3, 4), (5, 5), (2, 3, 4), (3, 3, 3), (2, 3, 4, 5), (4, 4, 4, 4), (2, 3, 2, 3, 2), (3, 1, 4, 5)])
def test_every_transpose_is_recognised_and_named_as_numpy_does(shape):
    reference = values(shape)
    for axes in itertools.permutations(range(len(shape))):
        candidate = reference.transpose(axes)
        moved = [axis for axis in axes if shape[axis] > 1]
        if moved == sorted(moved):
            continue
        for variant in (candidate, np.ascontiguousarray(candidate), noisy(candidate)):
            found = recognise(reference, variant)
            assert found is not None, axes
            assert found.startswith("transpose(")
            named = tuple(int(a) for a in found[len("transpose(") : -1].split(","))
            assert (reference.transpose(named) == candidate).all()


def test_phrases_read_after_the_references():
    x = values((2, 3, 4, 5))
    phrases = {
        "transposed (0, 2, 3, 1)": x.transpose(0, 2, 3, 1),
        "reshaped": x.reshape(6, 20),
        "transposed (0, 2, 1, 3) and reshaped": x.transpose(0, 2, 1, 3).reshape(2, 4, 15),
        "flipped along axis 1": x[:, ::-1],
        "flipped along axes 2, 3": x[:, :, ::-1, ::-1],
        "permuted along axis 2 in the order (2, 0, 3, 1)": x[:, :, [2, 0, 3, 1]],
        "in another order": x.reshape(-1)[np.random.default_rng(1).permutation(x.size)].reshape(x.shape),
        "scaled by 0.5": x * 0.5,
        "shifted by 1": x + 1,
    }
    for phrase, candidate in phrases.items():
        found = rearrangement(x, candidate)
        assert found is not None, phrase
        assert found.phrase == phrase


def test_attention_heads_split_and_joined():
    batch, time_, heads, depth = 2, 5, 4, 8
    joined = values((batch, time_, heads * depth))
    split = joined.reshape(batch, time_, heads, depth).transpose(0, 2, 1, 3)
    assert recognise(joined, split) == "reshape(2, 5, 4, 8), transpose(0, 2, 1, 3)"
    assert recognise(split, joined) == "transpose(0, 2, 1, 3), reshape"


def test_a_buffer_read_in_the_wrong_order_keeps_its_shape():
    image = values((3, 8, 8))
    assert recognise(image, image.transpose(1, 2, 0).reshape(3, 8, 8)) == "transpose(1, 2, 0), reshape"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_permuted_slices_of_an_axis(axis):
    rng = np.random.default_rng(3)
    reference = values([(12, 10, 200), (12, 12, 200), (12, 10, 12)][axis])
    candidate = np.take(reference, rng.permutation(12), axis=axis)
    assert recognise(reference, noisy(candidate)) == f"permutation of axis {axis}"


def test_channels_in_reversed_order_are_a_flip():
    image = values((4, 3, 16, 16))
    assert recognise(image, image[:, [2, 1, 0]]) == "flip(1)"
    found = rearrangement(image, image[:, [1, 2, 0]])
    assert found is not None
    assert found.text == "permutation of axis 1"
    assert found.phrase == "permuted along axis 1 in the order (1, 2, 0)"


def test_repeated_slices_are_counted():
    x = values((3, 500))
    assert recognise(x[[0, 0, 1, 2]], x[[2, 0, 0, 1]]) == "permutation of axis 0"
    assert recognise(x[[0, 0, 1]], x[[0, 1, 1]]) is None


@pytest.mark.parametrize("factor", [0.5, 2.0, -1.0, 1 / 255, 1.01, 1e30])
def test_constant_factors(factor):
    x = values((50, 60), dtype=np.float64)
    assert recognise(x, x * factor) == f"scaled by {factor:.6g}".replace("0.00392157", "0.0039216")
    assert recognise(x, noisy(x * factor)).startswith("scaled by ")


@pytest.mark.parametrize("offset", [1.0, -0.5, 128.0])
def test_constant_offsets(offset):
    x = values((50, 60), dtype=np.float64)
    assert recognise(x, x + offset) == f"shifted by {offset:g}"
    assert recognise(x + 1000, x + 1000 + offset) == f"shifted by {offset:g}"
    assert recognise(x + 1000, (x + 1000) * 2) == "scaled by 2"


def test_any_type_can_be_recognised():
    for dtype in (np.float16, np.float64, np.int32, np.uint8, np.int64, np.complex64):
        x = (values((9, 11), dtype=np.float64) * 50 + 100).astype(dtype)
        assert recognise(x, x.T.astype(np.float64) if dtype != np.complex64 else x.T) == "transpose(1, 0)"
    bits = np.random.default_rng(5).integers(0x3F00, 0x4000, (8, 9)).astype(np.uint16)
    assert recognise(Typed(bits, "bfloat16"), Typed(bits.T.copy(), "bfloat16")) == "transpose(1, 0)"


def test_nan_and_infinities_do_not_hide_a_transpose():
    x = values((20, 30))
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    assert recognise(x, x.T) == "transpose(1, 0)"


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (np.zeros((4, 5)), np.zeros((5, 4))),
        (np.ones((4, 5)), np.full((4, 5), 2.0)),
        (np.zeros((4, 5)), np.ones((4, 5))),
        (np.tri(20, dtype=bool), np.tri(20, dtype=bool).T),
        (np.array([1.0, 2.0]), np.array([2.0, 1.0])),
        (np.array(1.0), np.array(2.0)),
        (np.zeros((0, 3)), np.zeros((3, 0))),
        (np.arange(6.0), np.arange(7.0)),
        (np.full(1000, np.nan), np.full(1000, np.inf)),
        (np.arange(20.0).reshape(4, 5) * np.nan, np.ones((5, 4))),
        (np.full(1000, 1e300), np.full(1000, -1e300)),
        (values((30, 40)), values((30, 40), seed=1)),
        (values((30, 40)), values((40, 30), seed=1)),
        (values((300, 400)) + 1000, values((300, 400), seed=1) + 1000),
        (np.zeros((30, 40)), values((30, 40))),
        (values((30, 40)), np.zeros((30, 40))),
        (values((30, 40)), np.abs(values((30, 40)))),
        (values((30, 40)), np.maximum(values((30, 40)), 0)),
    ],
)
def test_what_is_no_rearrangement(reference, candidate):
    assert recognise(reference, candidate) is None


def test_equal_values_are_nothing_to_recognise():
    x = values((30, 40))
    assert recognise(x, x) is None
    assert recognise(x, noisy(x)) is None
    assert recognise(x, x[None]) is None
    assert recognise(x[None], noisy(x)) is None


def test_two_draws_from_one_distribution_are_not_permuted_however_many():
    for size in (6, 20, 1000, 100_000, 1_000_000):
        for seed in range(3):
            assert recognise(values(size, 2 * seed), values(size, 2 * seed + 1)) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2**32), st.sampled_from([1.0, 1e-3]))
def test_unrelated_values_are_never_recognised(shape, seed, spread):
    x = values(shape, seed, np.float64) * spread + 1
    y = values(shape, seed + 1, np.float64) * spread + 1
    assert recognise(x, y) is None


def test_large_tensors_take_little_time_and_memory():
    x = values((64, 128, 60, 60))
    y = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    other = values(x.shape, 1)
    tracemalloc.start()
    try:
        began = time.perf_counter()
        assert recognise(x, y) == "transpose(0, 2, 3, 1)"
        assert recognise(x, other) is None
        assert time.perf_counter() - began < 10
        assert tracemalloc.get_traced_memory()[1] < 64e6
    finally:
        tracemalloc.stop()
