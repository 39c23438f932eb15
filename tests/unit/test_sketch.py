import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.capture import sketch as module
from paralign.capture.sketch import CHUNK, SIZE, STANDARD_ERROR, distance, signs, sketch
from paralign.dtypes import Typed, widen
from paralign.errors import UnsupportedTensor


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def true_distance(x, y):
    return float(np.linalg.norm(np.asarray(x, "float64") - y) / np.linalg.norm(np.asarray(x, "float64")))


def test_the_definition_element_by_element():
    x = normal(2 * CHUNK + 1000)
    expected, turns = np.zeros(SIZE), module._turns()
    for chunk in range(3):
        part = x[chunk * CHUNK : (chunk + 1) * CHUNK]
        np.add.at(expected, (np.arange(part.size) + chunk * module._STEP) % SIZE, part * signs()[: part.size] * turns[chunk])
    assert sketch(x) == pytest.approx(expected, abs=1e-10)


def test_signs_and_shifts_never_change():
    assert signs()[:16].tolist() == [-1, -1, -1, -1, -1, -1, -1, 1, -1, -1, 1, 1, 1, -1, 1, -1]
    assert module._turns()[:8] == (-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0)
    assert signs().dtype == "int8"
    with pytest.raises(ValueError, match="read-only"):
        signs()[0] = 3


@given(hnp.arrays("float64", st.integers(0, SIZE), elements=st.integers(-1000, 1000).map(float)), st.floats(-2, 2, allow_subnormal=False))
def test_small_tensors_are_told_apart_exactly(x, factor):
    got = distance(sketch(x), sketch(x * factor))
    assert got == pytest.approx(abs(1 - factor) if np.any(x) else 0.0, rel=1e-9, abs=1e-12)


@given(st.integers(0, 2**31), st.floats(-3, 3))
def test_a_sketch_is_linear(seed, factor):
    x, y = normal(3000, seed=seed), normal(3000, seed=seed + 1)
    assert sketch(x + factor * y) == pytest.approx(sketch(x) + factor * sketch(y), abs=1e-9)


SHAPE = (8, 64, 28, 28)

#: name -> a change of a tensor, given a generator
CHANGES = {
    "noise": lambda x, r: x + 1e-3 * r.standard_normal(x.shape),
    "scale": lambda x, _: x * 1.001,
    "offset": lambda x, _: x + 0.01,
    "one channel": lambda x, r: np.where(np.arange(x.shape[1])[:, None, None] == r.integers(64), x * 1.5, x),
    "one sample": lambda x, r: np.where(np.arange(8)[:, None, None, None] == r.integers(8), 0.0, x),
    "one row of every map": lambda x, r: np.where(np.arange(28)[:, None] == r.integers(28), x + 0.3, x),
    "one column of every map": lambda x, r: np.where(np.arange(28) == r.integers(28), x + 0.3, x),
    "rank one": lambda x, r: (x.reshape(512, 784) + np.outer(r.standard_normal(512), r.standard_normal(784))).reshape(SHAPE),
    "rank one, no signs": lambda x, r: (x.reshape(512, 784) + np.outer(r.random(512), r.random(784))).reshape(SHAPE),
    "the same in every sample": lambda x, r: x + r.standard_normal((1, *x.shape[1:])),
    "the same in every map": lambda x, r: x + r.standard_normal((1, 1, *x.shape[2:])),
    "permuted samples": lambda x, r: x[r.permutation(8)],
    "permuted channels": lambda x, r: x[:, r.permutation(64)],
    "channels last": lambda x, _: x.transpose(0, 2, 3, 1).reshape(x.shape),
    "flipped": lambda x, _: x[..., ::-1],
    "a stride of the number of bins": lambda x, r: x + (np.arange(x.size) % SIZE == r.integers(SIZE)).reshape(x.shape),
}


@pytest.mark.parametrize("change", [c for c in CHANGES if not c.startswith("a stride")])
def test_error_of_the_estimate_over_many_differences(change):
    ratios = []
    for seed in range(24):
        r = np.random.default_rng(seed)
        x = r.standard_normal(SHAPE) + 0.5
        y = CHANGES[change](x, r)
        ratios.append(distance(sketch(x), sketch(y)) / true_distance(x, y))
    both = np.sqrt(2) * STANDARD_ERROR  # of the difference and of the length that it is divided by
    assert abs(np.mean(ratios) - 1) < 4 * both / np.sqrt(24) + 0.01
    assert np.sqrt(np.mean(np.square(np.array(ratios) - 1))) < 1.5 * both
    assert np.max(np.abs(np.array(ratios) - 1)) < 5 * both


def test_the_one_pattern_that_a_sketch_sees_badly():
    """What lies in one bin of every chunk has as many terms as there are chunks: it is seen, its size hardly estimated."""
    r = np.random.default_rng(0)
    x = r.standard_normal(SHAPE)
    y = CHANGES["a stride of the number of bins"](x, r)
    assert distance(sketch(x), sketch(y)) > 0


@pytest.mark.parametrize("position", [0, 5, CHUNK - 1, CHUNK, 2 * CHUNK + 17])
def test_one_element_is_seen_exactly(position):
    x = normal(2 * CHUNK + 1000)
    y = x.copy()
    y[position] += 3.0
    assert distance(sketch(x), sketch(y)) == pytest.approx(true_distance(x, y), rel=5 * STANDARD_ERROR)
    assert np.linalg.norm(sketch(y) - sketch(x)) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("move", [lambda x: x[::-1], lambda x: x.T, lambda x: x[:, ::2], np.asfortranarray, lambda x: x.astype(">f8")])
def test_layout_in_memory_does_not_matter(move):
    x = move(normal(700, 1100))
    assert sketch(x).tolist() == sketch(np.array(x, "float64", order="C")).tolist()
    assert sketch(x).tolist() == sketch(x.reshape(-1)).tolist()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32"])
def test_other_types_count_as_their_values(dtype):
    x = (np.arange(4000) % 7 > 2).astype(dtype) if dtype == "bool" else (np.arange(4000) % 100).astype(dtype)
    got, wide = sketch(x), sketch(x.astype("float64"))
    assert got.dtype == ("float64" if dtype in ("int32", "uint64", "int64") else "float32")
    assert got.tolist() == wide.tolist()  # small integers: no rounding


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_raw_bits_are_widened(dtype):
    bits = np.arange(0x3000, 0x3100, dtype=np.uint16) if dtype == "bfloat16" else np.arange(0x10, 0x60, dtype=np.uint8)
    value = Typed(bits, dtype)
    assert sketch(value) == pytest.approx(sketch(widen(value)), rel=1e-6)


def test_complex_elements_are_two_real_ones():
    z = normal(3000) + 1j * normal(3000, seed=1)
    assert sketch(z).tolist() == sketch(z.view("float64")).tolist()
    assert distance(sketch(z), sketch(z.conj())) == pytest.approx(true_distance(z.view("float64"), z.conj().view("float64")), rel=0.1)


def test_what_is_not_finite_counts_as_zero():
    x = normal(5000)
    spoiled = np.where(np.arange(5000) % 50 == 0, np.nan, np.where(np.arange(5000) % 50 == 1, -np.inf, x))
    assert sketch(spoiled).tolist() == sketch(np.where(np.isfinite(spoiled), x, 0.0)).tolist()


def test_empty_and_single():
    assert sketch(np.zeros((3, 0))).tolist() == [0.0] * SIZE
    assert np.abs(sketch(np.array(2.5))).sum() == 2.5
    assert distance(sketch(np.zeros(3)), sketch(np.zeros(3))) == 0.0
    assert distance(sketch(np.zeros(3)), sketch(np.ones(3))) == np.inf
    assert distance(sketch(np.ones(3)), sketch(np.zeros(3))) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e200])
def test_the_size_of_values_does_not_matter(scale):
    x = normal(5000)
    assert distance(sketch(x * scale), sketch(x * scale * 1.25)) == pytest.approx(0.25, rel=1e-9)


def test_large_float32_values_are_sketched_in_float64():
    x = (normal(5000) * 1e37).astype("float32")
    assert sketch(x).dtype == "float64"
    assert np.isfinite(sketch(x)).all()
    assert distance(sketch(np.full(5000, 1.7e308)), sketch(np.full(5000, 1.0))) == np.inf


def test_sketches_of_another_length_are_refused():
    with pytest.raises(ValueError, match=rf"a sketch has shape \({SIZE},\), these have \(3,\) and \({SIZE},\)"):
        distance(np.zeros(3), np.zeros(SIZE))


def test_what_is_no_number_is_refused():
    with pytest.raises(UnsupportedTensor, match="elements of type object cannot be recorded"):
        sketch(np.array([object()] * 9))


@pytest.mark.parametrize("array", [normal(3000, 1000, dtype="float32"), normal(3000, 1000, dtype="float32").T[::2]])
def test_extra_memory_is_bounded(array):
    sketch(array)
    tracemalloc.start()
    sketch(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * CHUNK
