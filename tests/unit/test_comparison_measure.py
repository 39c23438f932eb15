"""The statistics of a pair, held against a slow oracle that works element by element in exact rational arithmetic."""

import math
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.comparison import measure
from paralign.comparison.ulp import distances, unit
from paralign.dtypes import RAW, STORAGE, Typed, is_complex, is_floating, typed, widen
from paralign.errors import ParalignError, UnsupportedTensor, UsageError
from paralign.model import Stats

NAMES = sorted(STORAGE)
REAL_FLOATS = [n for n in NAMES if is_floating(n) and not is_complex(n)]


# --- the oracle -----------------------------------------------------------------------------------------------------


def elements(value):
    """Every element as a Python number: int, float or complex, exactly."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        array = widen(value).reshape(-1)
        array = array.astype({"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype))
    if array.dtype.kind in "iub":
        return [int(x) for x in array]
    if array.dtype.kind == "c":
        return [complex(x) for x in array]
    return [float(x) for x in array]


def parts(x):
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0)


def is_nan(x):
    return any(math.isnan(p) for p in parts(x))


def is_inf(x):
    return not is_nan(x) and any(math.isinf(p) for p in parts(x))


def modulus(x, y=0):
    """|x - y| as an exact square."""
    (a, b), (c, d) = parts(x), parts(y)
    return (Fraction(a) - Fraction(c)) ** 2 + (Fraction(b) - Fraction(d)) ** 2


def exact_root(square):
    """Square root of a fraction, to float64's precision but not within its range."""
    if square == 0:
        return Fraction(0)
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return Fraction(math.sqrt(square / Fraction(4) ** shift)) * Fraction(2) ** shift


def rounded(number):
    """A fraction as float64."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def root(square):
    return rounded(exact_root(square))


def oracle(reference, candidate, atol=None, rtol=None):
    """All exact figures but ulps, as a dict."""
    pairs = list(zip(elements(reference), elements(candidate), strict=True))
    both = [(x, y) for x, y in pairs if not any(is_nan(v) or is_inf(v) for v in (x, y))]
    wrong = [(x, y) for x, y in pairs if not (x == y or (is_nan(x) and is_nan(y)))]
    errors = [root(modulus(x, y)) for x, y in both]
    squares = [sum((modulus(*p) for p in which), Fraction(0)) for which in (both, [(x, 0) for x, _ in both], [(y, 0) for _, y in both])]
    relative = [root(modulus(x, y) / modulus(x)) for x, y in both if x != 0]
    exceeding = None
    if atol is not None or rtol is not None:
        far = [root(modulus(x, y)) > (atol or 0) + (rtol or 0) * root(modulus(x)) for x, y in both]
        exceeding = sum(far) + sum(1 for x, y in wrong if (x, y) not in both)
    n = len(both)
    return {
        "count": len(pairs),
        "mismatched": len(wrong),
        "exceeding": exceeding,
        "nan": sum(is_nan(x) != is_nan(y) for x, y in pairs),
        "inf": sum((is_inf(x) or is_inf(y)) and x != y for x, y in pairs),
        "nan_reference": sum(is_nan(x) for x, _ in pairs),
        "nan_candidate": sum(is_nan(y) for _, y in pairs),
        "inf_reference": sum(is_inf(x) for x, _ in pairs),
        "inf_candidate": sum(is_inf(y) for _, y in pairs),
        "max_abs": max(errors, default=0.0),
        "max_rel": max(relative, default=0.0),
        "mean_abs": rounded(sum(exact_root(modulus(x, y)) for x, y in both) / n) if n else 0.0,
        "rms_reference": root(squares[1] / n) if n else 0.0,
        "rms_candidate": root(squares[2] / n) if n else 0.0,
        "rel_l2": max(root(squares[0] / (squares[1] or 1)), 5e-324 if squares[0] else 0.0),  # never zero where something differs
        "squares": squares,
    }


EXACT = ("count", "mismatched", "nan", "inf", "nan_reference", "nan_candidate", "inf_reference", "inf_candidate")
CLOSE = ("max_abs", "max_rel", "mean_abs", "rms_reference", "rms_candidate", "rel_l2")


#: types whose sums are taken in float32 over short runs
NARROW = {"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
SUMS = ("mean_abs", "rms_reference", "rms_candidate", "rel_l2")


def close(found, expected, share=1e-11):
    if math.isinf(expected) or expected == 0.0:
        return found == expected
    if expected < 1e-300:  # subnormal results have few digits
        return found > 0.0 and abs(found - expected) <= max(1e-4 * expected, 1e-323)
    return abs(found - expected) <= share * expected


def check(reference, candidate, stats, **tolerance):
    want = oracle(reference, candidate, **tolerance)
    for name in EXACT:
        assert getattr(stats, name) == want[name], name
    narrow = {reference.dtype, candidate.dtype} <= NARROW
    for name in CLOSE:
        share = 1e-5 if narrow and name in SUMS else 1e-11
        assert close(getattr(stats, name), want[name], share), (name, getattr(stats, name), want[name])
    shape = reference.array.shape
    if stats.max_abs_at is not None:
        i = np.ravel_multi_index(stats.max_abs_at, shape) if shape else 0
        x, y = elements(reference)[i], elements(candidate)[i]
        assert close(root(modulus(x, y)), want["max_abs"])
    else:
        assert want["max_abs"] == 0.0
    if stats.max_rel_at is not None:
        i = np.ravel_multi_index(stats.max_rel_at, shape) if shape else 0
        x, y = elements(reference)[i], elements(candidate)[i]
        assert close(root(modulus(x, y) / modulus(x)), want["max_rel"])
    else:
        assert want["max_rel"] == 0.0
    assert (stats.rel_l2 == 0.0) == (want["squares"][0] == 0)
    return want


# --- random data of all types ---------------------------------------------------------------------------------------


def values_of(name, n):
    """Arrays of n elements of a type: any bits at all, or a small set of values so that sides agree in places."""
    storage = STORAGE[name]
    bits = hnp.arrays(np.uint8, n * storage.itemsize).map(lambda a: Typed((a & 1 if name == "bool" else a).view(storage), name))
    if name in RAW:
        few = st.sampled_from([0, 1, 56, 60])
    elif storage.kind == "c":
        few = st.sampled_from([0, 1, 1j, 1 - 2j, complex("nan"), complex("inf")])
    elif storage.kind == "f":
        few = st.sampled_from([0.0, -0.0, 1.0, 1.5, -1.5, math.nan, math.inf, -math.inf, float(np.finfo(storage).smallest_subnormal)])
    else:
        few = st.sampled_from([0, 1, np.iinfo(storage).max if storage.kind != "b" else True])
    return st.one_of(bits, hnp.arrays(storage, n, elements=few).map(lambda a: Typed(a, name)))


@st.composite
def pairs(draw):
    n = draw(st.integers(1, 40))
    first = draw(st.sampled_from(NAMES))
    second = draw(st.one_of(st.just(first), st.sampled_from(NAMES)))
    reference, candidate = draw(values_of(first, n)), draw(values_of(second, n))
    if first == second and draw(st.booleans()):  # mostly equal
        mask = draw(hnp.arrays(np.bool_, n))
        candidate = Typed(np.where(mask, reference.array, candidate.array), second)
    return reference, candidate


@settings(max_examples=400, deadline=None)
@given(pairs(), st.sampled_from([1, 3, 16, 64]))
@example((Typed(np.array([2**53 + 1, -1]), "int64"), Typed(np.array([float(2**53), -1.0 - 2**-40]), "float64")), 16)
@example((Typed(np.array([2**63 - 1, 5]), "int64"), Typed(np.array([2**63 - 2, 5]), "int64")), 16)
@example((Typed(np.array([-1, 2**62]), "int64"), Typed(np.array([2**64 - 1, 2**62 + 1], np.uint64), "uint64")), 16)
@example((Typed(np.array([1.7e308, 1.0]), "float64"), Typed(np.array([-1.7e308, 1.0]), "float64")), 16)
@example((Typed(np.array([5e-324]), "float64"), Typed(np.array([0.0]), "float64")), 16)
@example((Typed(np.array([1e308, 5e-324]), "float64"), Typed(np.array([1e308, 0.0]), "float64")), 16)
@example((Typed(np.array([1e-45, 1e10], np.float32), "float32"), Typed(np.array([2e-45, 1e10], np.float32), "float32")), 16)
@example((Typed(np.array([1e38, 0], np.float32), "float32"), Typed(np.array([-3e38, 1], np.float32), "float32")), 16)
def test_every_figure_matches_the_oracle(pair, block):
    reference, candidate = pair
    with pytest.MonkeyPatch.context() as patch:
        for kernel in "10":  # compiled, if it is there, and numpy
            patch.setenv("PARALIGN_KERNEL", kernel)
            check(reference, candidate, measure(reference, candidate, block=block))


@settings(max_examples=100, deadline=None)
@given(pairs(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([None, 0.0, 0.25]))
def test_exceeding_counts_elements_beyond_the_users_tolerance(pair, atol, rtol):
    reference, candidate = pair
    if not {reference.dtype, candidate.dtype} & {"int64", "uint64", "complex64", "complex128"}:
        want = oracle(reference, candidate, atol, rtol)["exceeding"]
        assert measure(reference, candidate, atol=atol, rtol=rtol, block=16).exceeding == want


def test_exceeding_is_none_without_a_tolerance_and_counts_nan_and_infinities():
    r, c = np.array([1.0, np.nan, np.inf, 2.0, np.nan]), np.array([1.1, 1.0, -np.inf, 2.0, np.nan])
    assert measure(r, c).exceeding is None
    assert measure(r, c, atol=0.2).exceeding == 2
    assert measure(r, c, rtol=0.01).exceeding == 3
    assert measure(r.astype(np.float32), c.astype(np.float32), atol=0.0).exceeding == 3


# --- units in the last place ----------------------------------------------------------------------------------------


def test_ulp_distance_counts_the_values_between():
    one = np.float32(1)
    up = np.nextafter(one, np.float32(2))
    stats = measure(np.array([1, 1, 1], np.float32), np.array([one, up, np.nextafter(up, np.float32(2))]))
    assert stats.ulp == {"0.5": 1.0, "0.9": 2.0, "0.99": 2.0, "1": 2.0}


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_ulp_distance_crosses_zero_through_the_subnormals(name):
    tiny = np.finfo(name).smallest_subnormal
    stats = measure(np.array([tiny, 0.0, -0.0], name), np.array([-tiny, -0.0, tiny], name))
    assert stats.ulp["1"] == 2.0
    assert stats.ulp["0.5"] == 1.0
    assert stats.mismatched == 2


@pytest.mark.parametrize("name", REAL_FLOATS)
def test_ulp_distance_of_neighbours_is_one_for_every_value_of_the_type(name):
    if name in {"float32", "float64"}:
        numbers = np.unique(np.random.default_rng(0).integers(0, np.iinfo(f"int{8 * STORAGE[name].itemsize}").max, 1000))
    else:
        numbers = np.arange(1 << (8 * STORAGE[name].itemsize - 1))
    bits = numbers.astype(f"uint{8 * STORAGE[name].itemsize}")
    low, high = Typed(bits[:-1].view(STORAGE[name]), name), Typed(bits[1:].view(STORAGE[name]), name)
    keep = np.isfinite(widen(low)) & np.isfinite(widen(high))
    low, high = Typed(low.array[keep], name), Typed(high.array[keep], name)
    gaps = np.diff(numbers.astype(np.int64))[keep].astype(np.float64)
    assert (distances(low, high) == gaps).all()
    assert measure(low, high).ulp["1"] == gaps.max()
    assert measure(high, low).ulp["1"] == gaps.max()


@pytest.mark.parametrize(
    ("first", "second", "coarser"),
    [
        ("float64", "float32", "float32"),
        ("float16", "float32", "float16"),
        ("bfloat16", "float16", "bfloat16"),
        ("float8_e4m3fn", "float32", "float8_e4m3fn"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
        ("complex128", "float32", "float32"),
        ("complex64", "complex128", "float32"),
        ("int32", "float32", None),
        ("bool", "bool", None),
    ],
)
def test_the_unit_is_that_of_the_coarser_type(first, second, coarser):
    assert unit(first, second) == unit(second, first) == coarser


def test_ulps_of_two_types_are_counted_in_the_coarser_one():
    r = np.array([1.0, 1.0 + 2**-23, 1e300, -1.0])
    c = np.array([1.0, 1.0, 3e38, 1.0], np.float32)
    stats = measure(r[:2], c[:2])
    assert stats.ulp["1"] == 1.0
    stats = measure(np.array([1.0 + 2**-40]), np.array([1.0], np.float32))
    assert stats.ulp["1"] == 0.0
    assert stats.mismatched == 1
    assert stats.max_abs == 2**-40
    assert measure(r[2:3], c[2:3]).ulp["1"] > 0


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_to_a_raw_type_agrees_with_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(1)
    wide = (rng.standard_normal(5000) * 2.0 ** rng.integers(-8, 8, 5000)).astype(np.float32)
    exact = typed(wide.astype(getattr(ml_dtypes, name)))
    assert distances(Typed(wide, "float32"), exact).max() == 0.0


def test_ulps_of_integers_are_empty_and_of_nan_alone_too():
    assert measure(np.array([1, 2]), np.array([1, 3])).ulp == {}
    assert measure(np.array([np.nan]), np.array([np.nan])).ulp == {}


def test_sampled_quantiles_are_near_the_true_ones_and_the_greatest_is_exact():
    rng = np.random.default_rng(2)
    bits = rng.integers(0x3F800000, 0x3F900000, 300_000)
    steps = rng.integers(0, 1000, bits.size)
    steps[77_777] = 123_456
    r, c = bits.astype(np.uint32).view(np.float32), (bits + steps).astype(np.uint32).view(np.float32)
    found = measure(r, c).ulp
    assert found["1"] == 123_456.0
    for name, tolerance in (("0.5", 0.01), ("0.9", 0.006), ("0.99", 0.002)):
        assert abs((steps <= found[name]).mean() - float(name)) < tolerance


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_the_greatest_ulp_distance_survives_the_skipping(name):
    rng = np.random.default_rng(3)
    for seed in range(20):
        r = np.random.default_rng(seed).standard_normal(4000).astype(name)
        c = (r * (1 + rng.choice([0, 1e-3, 1e-2], r.size) * rng.standard_normal(r.size))).astype(name)
        if seed % 2:
            r[::7] = 0
        assert measure(r, c, block=100).ulp["1"] == distances(typed(r), typed(c)).max()


# --- accuracy -------------------------------------------------------------------------------------------------------


def test_sums_over_many_float32_elements_do_not_drift():
    rng = np.random.default_rng(4)
    r = rng.random(3_000_000, dtype=np.float32) + np.float32(1000.1)
    c = r.copy()
    c[::3] = np.nextafter(c[::3], np.float32(0))
    stats = measure(r, c)
    wide, error = r.astype(np.longdouble), r.astype(np.longdouble) - c.astype(np.longdouble)
    assert stats.rms_reference == pytest.approx(float(np.sqrt((wide**2).mean())), rel=1e-6)
    assert stats.rms_candidate == pytest.approx(float(np.sqrt((c.astype(np.longdouble) ** 2).mean())), rel=1e-6)
    assert stats.rel_l2 == pytest.approx(float(np.sqrt((error**2).sum() / (wide**2).sum())), rel=1e-6)
    assert stats.mean_abs == pytest.approx(float(np.abs(error).mean()), rel=1e-6)
    assert stats.mismatched == 1_000_000


@pytest.mark.parametrize("size", [1e-7, 1e-6, 1.5e-5, 1.7e-5, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1e-13, 1e-30, 1e15])
def test_norms_are_accurate_where_rounding_errors_all_go_one_way(size, scale):
    r = np.full(70_000, 1.1 * scale, np.float32)
    c = (r * np.float32(1 + size)).astype(np.float32)
    c[::2] = r[::2] * np.float32(1 - size / 3)
    stats = measure(r, c)
    wide = r.astype(np.longdouble), c.astype(np.longdouble)
    norms = [float(np.sqrt((side**2).mean())) for side in (*wide, wide[0] - wide[1])]
    assert stats.rms_reference == pytest.approx(norms[0], rel=1e-5, abs=0)
    assert stats.rms_candidate == pytest.approx(norms[1], rel=1e-5, abs=0)
    assert stats.rel_l2 == pytest.approx(norms[2] / norms[0], rel=1e-5, abs=0)
    assert 1 - stats.cosine == pytest.approx(float(1 - (wide[0] @ wide[1]) / 70_000 / norms[0] / norms[1]), abs=1e-9)


def test_one_tiny_difference_in_a_large_tensor_is_never_lost():
    r = np.full(2_000_000, 1e5, np.float32)
    r[1_234_567] = 1e-30
    c = r.copy()
    c[1_234_567] = np.nextafter(np.float32(1e-30), np.float32(1))
    stats = measure(r, c)
    assert stats.mismatched == 1
    assert stats.max_abs == float(c[1_234_567]) - float(r[1_234_567])
    assert stats.max_abs_at == stats.max_rel_at == (1_234_567,)
    assert 0.0 < stats.rel_l2 < 1e-40
    assert stats.ulp["1"] == 1.0


@pytest.mark.parametrize("factor", [1.0, -1.0, 1e-3, 1e6])
def test_cosine(factor):
    rng = np.random.default_rng(5)
    r, noise = rng.standard_normal(50_000), rng.standard_normal(50_000)
    c = factor * (r + 0.1 * noise)
    want = float(r @ c / np.linalg.norm(r) / np.linalg.norm(c))
    assert measure(r, c).cosine == pytest.approx(want, abs=1e-12)
    low, high = r.astype(np.float32), c.astype(np.float32)
    wide = low.astype(np.float64), high.astype(np.float64)
    want = float(wide[0] @ wide[1] / np.linalg.norm(wide[0]) / np.linalg.norm(wide[1]))
    assert measure(low, high).cosine == pytest.approx(want, abs=1e-6)


def test_cosine_of_extreme_and_zero_vectors():
    assert measure(np.array([1e-200, 0]), np.array([3e-200, 0])).cosine == pytest.approx(1.0, abs=1e-12)
    assert measure(np.array([1e-200, 0]), np.array([0, 1e200])).cosine == 0.0
    assert measure(np.array([1e200, 1e200]), np.array([0, 1e-200])).cosine == pytest.approx(math.sqrt(0.5))
    assert measure(np.zeros(3), np.zeros(3)).cosine == 1.0
    assert measure(np.zeros(3), np.ones(3)).cosine == 0.0
    assert measure(np.ones(3), np.zeros(3)).cosine == 0.0


def test_zero_reference_gives_the_norm_of_the_error():
    stats = measure(np.zeros(4, np.float32), np.array([0, 3, 4, 0], np.float32))
    assert stats.rel_l2 == 5.0
    assert stats.max_rel == 0.0
    assert stats.max_rel_at is None


def test_where_values_tie_the_first_index_is_named_whatever_the_threads():
    r = np.zeros((100, 300), np.float32)
    r[:] = 4.0
    c = r.copy()
    c[7, 9] = c[50, 3] = c[99, 299] = 5.0
    for threads in (1, 2, 3):
        stats = measure(r, c, threads=threads, block=64)
        assert stats.max_abs_at == stats.max_rel_at == (7, 9)


@pytest.mark.parametrize("kind", ["noise", "zeros", "nan", "scaled", "mixed", "ints"])
def test_the_result_is_the_same_on_any_number_of_threads(kind):
    rng = np.random.default_rng(6)
    r = rng.standard_normal(120_000).astype(np.float32)
    c = r + np.float32(1e-6) * rng.standard_normal(r.size).astype(np.float32)
    if kind == "zeros":
        r[::2], c[::4] = 0, 0
    elif kind == "nan":
        r[::1001] = np.nan
        c[::77] = np.inf
    elif kind == "scaled":
        c = r * np.float32(0.5)
    elif kind == "mixed":
        c = c.astype(np.float64)
    elif kind == "ints":
        r, c = (r * 1e9).astype(np.int64), (c * 1e9).astype(np.int64)
    one = measure(r, c, threads=1, block=500)
    for threads in (2, 3, 8):
        for _ in range(3):
            assert measure(r, c, threads=threads, block=500) == one
    assert one.mismatched > 0


# --- NaN and infinities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_and_infinities_agree_only_with_themselves(dtype):
    nan, inf = np.nan, np.inf
    r = np.array([1, nan, nan, inf, inf, -inf, 2, nan, 3], dtype)
    c = np.array([1, nan, 5.0, inf, -inf, 7.0, inf, inf, 3], dtype)
    stats = measure(r, c)
    assert (stats.mismatched, stats.nan, stats.inf) == (5, 2, 4)
    assert (stats.nan_reference, stats.nan_candidate, stats.inf_reference, stats.inf_candidate) == (3, 1, 3, 4)
    assert (stats.max_abs, stats.rel_l2, stats.count) == (0.0, 0.0, 9)


def test_the_same_nan_and_infinities_are_agreement():
    r = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    stats = measure(r, r.copy())
    assert (stats.mismatched, stats.nan, stats.inf, stats.nan_reference, stats.inf_reference) == (0, 0, 0, 1, 2)
    assert stats.rms_reference == 1.0


# --- shapes, layouts, types -----------------------------------------------------------------------------------------


def test_empty_tensors_count_nothing():
    assert measure(np.zeros((0, 3)), np.zeros((0, 3))) == Stats()
    assert measure(np.zeros((0, 3), np.float32), np.zeros((1, 0, 3), np.int8), atol=1.0) == Stats(exceeding=0)


@pytest.mark.parametrize(("first", "second"), [((), (1,)), ((1, 1), ()), ((2, 3), (1, 2, 1, 3)), ((1,), (1, 1))])
def test_shapes_may_differ_by_axes_of_length_one(first, second):
    n = math.prod(first)
    r = np.arange(n, dtype=np.float32).reshape(first)
    stats = measure(r, (np.arange(n, dtype=np.float32) + 1).reshape(second))
    assert stats.count == stats.mismatched == n
    assert stats.max_abs == 1.0
    assert stats.max_abs_at == (0,) * len(first)


@pytest.mark.parametrize(("first", "second"), [((2, 3), (3, 2)), ((6,), (2, 3)), ((0,), ()), ((0, 3), (0,)), ((2,), (1,))])
def test_other_shapes_are_refused(first, second):
    with pytest.raises(ValueError, match="differ by more than axes of length 1") as caught:
        measure(np.zeros(first), np.zeros(second))
    assert str(first) in str(caught.value)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "flipped": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64])
def test_any_layout_gives_the_same_figures(layout, threads, dtype):
    rng = np.random.default_rng(7)
    r = (rng.standard_normal((61, 97)) * 100).astype(dtype)
    c = r.copy()
    c[5, 7] += 9
    c[60, 96] -= 3
    want = measure(r, c, block=64)
    for first, second in ((LAYOUTS[layout](r), c), (r, LAYOUTS[layout](c)), (LAYOUTS[layout](r), LAYOUTS[layout](c))):
        found = measure(first, second, block=64, threads=threads)
        share = 1e-6 if np.dtype(dtype).itemsize <= 4 else 1e-12
        assert found.cosine == pytest.approx(want.cosine, abs=share)
        assert found == replace(
            want,
            rel_l2=pytest.approx(want.rel_l2, rel=share),
            mean_abs=pytest.approx(want.mean_abs, rel=share),
            cosine=found.cosine,
            rms_reference=pytest.approx(want.rms_reference, rel=share),
            rms_candidate=pytest.approx(want.rms_candidate, rel=share),
        )
    assert want.max_abs_at == (5, 7)
    assert want.mismatched == 2


def test_a_broadcast_zero_is_compared_without_being_expanded():
    stats = measure(np.broadcast_to(np.float32(0), (100, 100)), np.eye(100, dtype=np.float32))
    assert (stats.mismatched, stats.max_abs_at) == (100, (0, 0))


def test_raw_types_are_compared_by_value():
    bits = np.array([0x3F80, 0x3F81, 0x8000, 0x7FC0], np.uint16)  # 1, 1 + 2**-7, -0, NaN
    stats = measure(Typed(bits, "bfloat16"), Typed(np.array([0x3F80, 0x3F80, 0, 0x7FC1], np.uint16), "bfloat16"))
    assert (stats.mismatched, stats.max_abs, stats.nan, stats.nan_reference) == (1, 2**-7, 0, 1)
    assert stats.ulp["1"] == 1.0
    stats = measure(Typed(bits[:2], "bfloat16"), np.array([1.0, 1.0078125]))
    assert stats.mismatched == 0


def test_extension_arrays_are_taken_as_they_are():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    r = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert measure(r, np.array([1.0, 2.0], np.float32)).mismatched == 0


def test_integers_beyond_float64_are_compared_exactly():
    for dtype in (np.int64, np.uint64):
        r = np.array([2**60, 2**60 + 1, 3], dtype)
        stats = measure(r, np.array([2**60 + 1, 2**60 + 1, 3], dtype))
        assert (stats.mismatched, stats.max_abs, stats.max_abs_at) == (1, 1.0, (0,))
    stats = measure(np.array([2**62 + 1]), np.array([2.0**62]))
    assert (stats.mismatched, stats.max_abs) == (1, 1.0)


def test_booleans_and_complex_numbers():
    stats = measure(np.array([True, False, True]), np.array([True, True, True]))
    assert (stats.mismatched, stats.max_abs, stats.ulp) == (1, 1.0, {})
    stats = measure(np.array([3 + 4j, 1j], np.complex64), np.array([0, 1j], np.complex64))
    assert (stats.mismatched, stats.max_abs, stats.max_rel) == (1, 5.0, 1.0)
    assert stats.cosine == pytest.approx(1 / math.sqrt(26))


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.array(["2020"], "datetime64[Y]"), np.zeros(1, "V4")])
def test_arrays_that_hold_no_numbers_are_refused(array):
    with pytest.raises(UnsupportedTensor, match="cannot be recorded"):
        measure(array, array)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"atol": -1.0}, "atol is -1.0\n  where: atol\n  fix:   a tolerance is a finite number of at least 0"),
        ({"rtol": math.nan}, "rtol is nan\n  where: rtol\n  fix:   a tolerance is a finite number of at least 0"),
        ({"rtol": math.inf}, "rtol is inf\n  where: rtol\n  fix:   a tolerance is a finite number of at least 0"),
        ({"threads": 0}, "threads is 0\n  where: threads\n  fix:   at least one thread is needed"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    with pytest.raises(UsageError) as caught:
        measure(np.zeros(1), np.zeros(1), **arguments)
    assert str(caught.value) == message
    assert isinstance(caught.value, ParalignError)


# --- resources ------------------------------------------------------------------------------------------------------


def test_small_tensors_start_no_thread(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a thread pool was made")

    monkeypatch.setattr(sys.modules["paralign.comparison.measure"], "ThreadPoolExecutor", refuse)
    r = np.zeros(250_000, np.float32)
    assert measure(r, r + 1, threads=8).mismatched == r.size
    large = np.zeros(3_000_000, np.float32)
    with pytest.raises(AssertionError, match="a thread pool was made"):
        measure(large, large, threads=2)


def test_inputs_are_not_written_to():
    rng = np.random.default_rng(8)
    for name in ("float64", "float32", "int64", "float16", "complex128"):
        r = (rng.standard_normal(5000) * 10).astype(name)
        c = (r + r.dtype.type(1)).astype(name)
        before = r.copy(), c.copy()
        r.flags.writeable = c.flags.writeable = False
        measure(r, c, atol=0.1)
        assert (r == before[0]).all()
        assert (c == before[1]).all()


def test_memory_stays_bounded_whatever_the_size(tmp_path):
    n = 50_000_000
    paths = [tmp_path / "reference", tmp_path / "candidate"]
    for path in paths:  # sparse files: 200 MB each, on disk nothing
        with path.open("wb") as file:
            file.truncate(4 * n)
    code = """
import sys, tracemalloc, numpy as np
from paralign.comparison import measure
r, c = (np.memmap(p, np.float32, "r+") for p in sys.argv[1:3])
r[123] = 1.0
c[::1000] = 2.0
tracemalloc.start()
stats = measure(r, c, threads=2)
print(stats.mismatched, stats.count, tracemalloc.get_traced_memory()[1])
"""
    ran = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True)
    mismatched, count, peak = map(int, ran.stdout.split())
    assert (mismatched, count) == (n // 1000 + 1, n)
    assert peak < 16e6
    for path in paths:
        path.unlink()


@pytest.mark.parametrize("arrays", ["float64", "nan", "strided", "complex64", "int64"])
def test_memory_stays_bounded_on_the_careful_ways_too(arrays):
    n = 6_000_000
    r = np.zeros(n, "complex64" if arrays == "complex64" else "int64" if arrays == "int64" else "float64")
    c = r.copy()
    if arrays == "nan":
        r[::100] = np.nan
    elif arrays == "int64":
        r += 2**60
    elif arrays == "strided":
        r, c = r.reshape(2000, -1).T, c.reshape(3000, -1)
    tracemalloc.start()
    try:
        measure(r, c, threads=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24e6


def test_a_distance_of_values_that_lie_far_apart_is_a_number():
    """The quotient of two sums of squares is beyond float64 long before its root is."""
    reference, candidate = np.array([4e-87]), np.array([2e69])
    assert measure(reference, candidate).rel_l2 == pytest.approx(5e155, rel=1e-12)
