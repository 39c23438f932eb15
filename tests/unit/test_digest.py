import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.capture import passes
from paralign.capture.digest import LEVELS, agree, distance, is_evidence, moments, numbers, quantile
from paralign.dtypes import Typed, widen
from paralign.errors import CaptureFormatError, UnsupportedTensor

FINITE = st.floats(-1e6, 1e6, allow_subnormal=False)


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_the_numbers_are_those_of_exact_arithmetic():
    x = normal(5000) * 3 + 1
    exact = [Fraction(float(v)) for v in x]
    n = len(exact)
    rms = math.sqrt(sum(v * v for v in exact) / n)
    mean, absolute, fourth = (float(sum(column) / n) for column in zip(*((v, abs(v), v**4) for v in exact)))  # noqa: B905 - strict= is not in Python 3.8, where this runs too
    excess = (float(sum(max(v / Fraction(rms) - Fraction(level), 0) for v in exact) / n) for level in LEVELS)
    expected = (n, rms, mean / rms, absolute / rms, fourth / rms**4, x.min() / rms, x.max() / rms, *excess)
    assert numbers(moments(x)) == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_error_stays_below_the_documented_bound_over_many_blocks():
    x = np.tile(normal(1000) + 5, 1000)  # exact answer: that of one tile, of which the sums are few
    one = numbers(moments(x[:1000]))
    assert numbers(moments(x))[1:] == pytest.approx(one[1:], rel=1e-12, abs=1e-12)


@given(hnp.arrays("float64", hnp.array_shapes(max_dims=3, max_side=7), elements=FINITE), st.randoms(use_true_random=False))
def test_any_order_and_shape_has_an_agreeing_digest(array, random):
    order = list(range(array.size))
    random.shuffle(order)
    shuffled = array.ravel()[order].reshape(array.shape[::-1])
    assert agree(moments(array), moments(shuffled), 1e-12)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.transpose(0, 2, 3, 1),
        lambda x: x.reshape(-1),
        lambda x: x[:, ::-1],
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x.astype(">f8"),
    ],
)
def test_moved_values_agree(move):
    x = normal(4, 8, 33, 65)  # more than one block
    assert agree(moments(x), moments(move(x)), 1e-13)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * (1 + 1e-5),
        lambda x: x + 1e-5,
        lambda x: np.where(x > 0, x * (1 + 1e-5), x),
        lambda x: -x,
        lambda x: x[:-1],
        lambda x: np.where(np.arange(x.size) == 3, x * 1.5, x),
        lambda x: np.where(x < -2, 0.0, x),
        np.tanh,
    ],
)
def test_a_small_change_is_seen(change):
    x = normal(10_000)
    assert agree(moments(x), moments(x.copy()), 1e-7)
    assert not agree(moments(x), moments(change(x)), 1e-7)


def test_tolerance_decides():
    a, b = moments(normal(1000)), moments(normal(1000) * (1 + 1e-5))
    assert agree(a, b, 2e-5)
    assert not agree(a, b, 5e-6)
    assert agree(b, a, 2e-5)


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 16), ("float8_e5m2", 8), ("float8_e4m3fn", 8)])
def test_raw_bits_are_widened(dtype, bits):
    raw = np.array([0x3F, 0x40, 0x41, 0x42] * 3, dtype=np.uint8).astype(np.uint16) << (bits - 8)
    typed = Typed(raw.astype(f"uint{bits}"), dtype)
    wide = widen(typed)
    assert agree(moments(typed), moments(wide), 1e-15)
    assert not agree(moments(typed), moments(typed.array), 1e-3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32"])
def test_other_types_count_as_their_float64_values(dtype):
    x = (np.arange(100) % 7 > 2).astype(dtype) if dtype == "bool" else np.arange(100).astype(dtype)
    assert moments(x) == moments(x.astype("float64"))


def test_complex_values_by_modulus_and_mean_real_part():
    z = normal(500) + 1j * normal(500, seed=1)
    got, modulus = numbers(moments(z)), numbers(moments(np.abs(z)))
    assert got[2] == pytest.approx(z.real.mean() / got[1], abs=1e-13)
    assert (*got[:2], *got[3:]) == pytest.approx((*modulus[:2], *modulus[3:]), rel=1e-13)
    assert agree(moments(z.astype("complex64")), moments(z), 1e-6)
    assert not agree(moments(z), moments(z * 1j), 1e-6)


def test_complex_values_of_one_modulus_are_no_constant():
    rotary = moments(np.exp(1j * np.arange(64.0)))
    assert rotary.startswith("m3:64,")
    assert is_evidence(rotary)
    assert moments(np.full(9, 2 - 1j)) == "c1:9,2.0,-1.0"
    assert not is_evidence(moments(np.full(9, 2 - 1j)))


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((2, 3)), "c1:6,0.0"),
        (-np.zeros(4), "c1:4,0.0"),
        (np.full(5, 7, dtype="int32"), "c1:5,7.0"),
        (np.array(2.5), "c1:1,2.5"),
        (np.ones(3, dtype=bool), "c1:3,1.0"),
        (np.zeros((3, 0, 2)), "e1:0"),
        (np.full(9, np.nan), "m3:9" + ",0.0" * 8 + ",9,0,0"),
    ],
)
def test_constants_empties_and_all_nan(array, text):
    assert moments(array) == text
    assert not is_evidence(text)
    assert agree(text, text, 0.0)


def test_a_constant_agrees_with_what_hardly_differs_from_it():
    nearly = np.ones(100)
    nearly[3] += 1e-12
    assert moments(nearly).startswith("m3:")
    assert agree(moments(nearly), moments(np.ones(100)), 1e-9)
    assert agree(moments(-nearly), moments(-np.ones(100)), 1e-9)
    assert not agree(moments(nearly), moments(-np.ones(100)), 1e-9)
    assert not is_evidence(moments(nearly))
    assert agree(moments(nearly * (1 + 2j)), "c1:100,1.0,2.0", 1e-9)
    assert not agree("c1:4,0.0", "c1:4,1e-30", 1e-3)


def test_values_that_are_not_finite_are_counted_and_left_out():
    x = normal(100)
    spoiled = np.concatenate([x, [np.nan, np.inf, np.inf, -np.inf]])
    got = numbers(moments(spoiled))
    assert got[0] == 104
    assert got[1:9] == pytest.approx(numbers(moments(x))[1:], rel=1e-13)
    assert got[9:] == (1, 2, 1)
    assert not agree(moments(spoiled), moments(np.concatenate([x, [np.nan, np.inf, -np.inf, -np.inf]])), 1e-3)
    assert numbers(moments(np.array([complex(math.nan, 1), complex(math.inf, 1), 1, 2j])))[9:] == (1, 1, 0)


def test_a_mask_of_infinities_is_no_evidence():
    mask = np.triu(np.full((16, 16), -np.inf), 1)
    assert not is_evidence(moments(mask))
    assert is_evidence(moments(np.where(np.isinf(mask), mask, normal(16, 16))))


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-150, 1e150, 1e300, 1e308])
def test_the_size_of_values_does_not_matter(scale):
    x = np.array([0.25, -1.5, 1.0, 0.125] * 3)
    got, plain = numbers(moments(x * scale)), numbers(moments(x))
    assert got[1] == pytest.approx(plain[1] * scale, rel=1e-3 if scale < 1e-308 else 1e-12)
    assert got[2:] == pytest.approx(plain[2:], rel=1e-2 if scale < 1e-308 else 1e-12)
    assert numbers(moments(np.array([1.7e308 + 1.7e308j, 1.0])))[0] == 2


@pytest.mark.parametrize(("count", "evidence"), [(7, False), (8, True)])
def test_tiny_tensors_are_no_evidence(count, evidence):
    assert is_evidence(moments(normal(count))) is evidence
    spoiled = np.concatenate([normal(count), [np.nan] * 5])
    assert is_evidence(moments(spoiled)) is evidence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m1:",
        "m1:1,2",
        "c1:nan,1",
        "c1:5",
        "e1:",
        "x9:1",
        "m1:8,1,1,1,1,1,1,inf",
        "c1:6,1,2,3",
        "m1:" + "1," * 9 + "1",
        "m2:" + "1," * 10 + "1",
        "m3:" + "1," * 9 + "1",
    ],
)
def test_what_is_no_digest_is_refused(text):
    with pytest.raises(CaptureFormatError) as caught:
        agree(text, text, 1e-3)
    assert str(caught.value) == (
        f"{text!r} is no digest of a tensor\n  where: field 'digest' of a record\n"
        "  fix:   record the capture again with this version of paralign"
    )
    with pytest.raises(CaptureFormatError):
        is_evidence(text)


def test_what_is_no_number_is_refused():
    with pytest.raises(UnsupportedTensor, match="elements of type object cannot be recorded"):
        moments(np.array([object()] * 9))


@pytest.mark.parametrize("array", [normal(2000, 1000, dtype="float32"), normal(2000, 1000, dtype="float32").T[::2]])
def test_extra_memory_is_bounded(array):
    moments(array)
    tracemalloc.start()
    moments(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * passes.BLOCK  # a few blocks of float64; the array itself is 8 MB in float32


def test_a_hostile_order_does_not_cancel():
    x = np.concatenate([normal(200_000) + 1e4, -normal(200_000) - 1e4])
    assert agree(moments(x), moments(np.sort(x)), 1e-12)
    assert abs(numbers(moments(x))[2]) < 1e-12


def older(digest, form="m1"):
    """The same digest as an older version wrote it, with some mean of cubes."""
    parts = digest.split(",")
    excess = parts[7 : 7 + len(LEVELS)] if form == "m2" else []
    return f"{form}:" + ",".join([parts[0][3:], *parts[1:4], "0.125", *parts[4:7], *excess, *parts[7 + len(LEVELS) :]])


def test_distance_is_the_largest_difference_of_a_number():
    x = normal(1000)
    one, other = moments(x), moments(x * 1.5)
    assert distance(one, other) == pytest.approx(1 / 3)
    assert distance(one, one) == 0.0
    shifted = moments(x + 0.01)
    pairs = zip(numbers(one)[2:], numbers(shifted)[2:])  # noqa: B905 - strict= is not in Python 3.8, where this runs too
    assert distance(one, shifted) == pytest.approx(max(abs(a - b) / max(1, abs(a), abs(b)) for a, b in pairs))
    assert distance(one, shifted) == distance(shifted, one)


@pytest.mark.parametrize("change", [lambda x: x[:-1], lambda x: np.append(x[:-1], np.nan)])
def test_other_sizes_and_counts_are_infinitely_far(change):
    x = normal(100)
    assert distance(moments(x), moments(change(x))) == math.inf
    assert not agree(moments(x), moments(change(x)), 1e9)


@pytest.mark.parametrize("form", ["m1", "m2"])
def test_digests_of_older_captures_are_read_and_compared(form):
    spoiled = np.append(normal(100), [np.nan, np.inf])
    for x in (normal(100), spoiled):
        new, old = moments(x), older(moments(x), form)
        assert distance(old, new) == distance(new, old) == 0.0
        assert agree(old, new, 0.0)
        assert is_evidence(old)
        assert distance(old, moments(x * 2)) == pytest.approx(0.5)
    assert agree(older(moments(np.ones(100) + np.arange(100) * 1e-12), form), "c1:100,1.0", 1e-9)


def test_excess_tells_apart_what_moments_do_not():
    x = normal(10_000)
    low, high = np.abs(x) < 0.5, np.abs(x) > 2.5
    assert numbers(moments(x))[7] == pytest.approx(np.maximum(x / numbers(moments(x))[1] - LEVELS[0], 0).mean(), rel=1e-12)
    assert not agree(moments(x), moments(np.where(low, 0.0, np.where(high, x * 1.01, x))), 1e-6)


def _inverted_cdf(x, share):
    """As ``np.quantile(x, share, method="inverted_cdf")``, which the least numpy does not have."""
    return np.sort(x)[max(0, math.ceil(share * x.size - 1e-9) - 1)]


@given(
    hnp.arrays("float64", st.integers(1, 60), elements=st.floats(-100, 100, allow_subnormal=False)),
    st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]),
)
def test_quantiles_lie_within_their_bounds(x, share):
    low, high = quantile(moments(x), share)
    scale = 1e-9 * (1 + np.abs(x).max())
    assert low - scale <= _inverted_cdf(x, share) <= high + scale


def test_quantiles_of_constants_older_digests_and_nothing():
    assert quantile("c1:9,-2.5", 0.5) == (-2.5, -2.5)
    x = normal(1000) ** 3
    low, high = quantile(older(moments(x)), 0.5)
    assert low < np.median(x) < high
    assert all(map(math.isnan, quantile("e1:0", 0.5)))
    assert all(map(math.isnan, quantile(moments(np.full(3, np.nan)), 0.5)))
    modulus = np.abs(normal(999) + 1j * normal(999, seed=1) - 3)
    low, high = quantile(moments(normal(999) + 1j * normal(999, seed=1) - 3), 0.5)
    assert low <= np.median(modulus) <= high


@given(st.integers(0, 2**31), st.floats(1e-9, 1e-3))
def test_a_change_moves_every_number_by_little(seed, size):
    """No number jumps: none is a count of what lies on one side of an edge."""
    r = np.random.default_rng(seed)
    x = np.round(r.standard_normal(500), 1)  # many equal values, many of them at a level
    near = x + size * r.uniform(-1, 1, 500)
    assert distance(moments(x), moments(near)) < 60 * size
