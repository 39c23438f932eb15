"""What is measured for a verdict alone: the same numbers as with everything, and nothing said that was not measured."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.comparison import compare_pair, complete, measure
from paralign.comparison import kernel as kernels
from paralign.dtypes import STORAGE, Typed
from paralign.model import Record

EXACT = (
    "count", "mismatched", "max_abs", "max_abs_at", "exceeding", "nan", "inf", "nan_reference", "nan_candidate", "inf_reference",
    "inf_candidate",
)  # fmt: skip
SUMS = ("rel_l2", "cosine", "rms_reference", "rms_candidate")


@st.composite
def sides(draw):
    """Two arrays of any types, from nearly equal to unlike, NaN and infinities among them."""
    names = draw(st.tuples(*[st.sampled_from(sorted(STORAGE))] * 2).map(lambda two: two if draw(st.booleans()) else (two[0], two[0])))
    n = draw(st.integers(0, 60))
    made = []
    for name in names:
        raw = draw(hnp.arrays(np.uint8, n * STORAGE[name].itemsize))
        made.append(Typed((raw & 1 if name == "bool" else raw).view(STORAGE[name]), name))
    if names[0] == names[1]:
        share = draw(st.sampled_from([0.0, 0.1, 1.0]))
        mask = np.random.default_rng(draw(st.integers(0, 99))).random(n) < share
        made[1] = Typed(np.where(mask, made[1].array, made[0].array), names[0])
    return made


def same(reference, candidate, **options):
    full = measure(reference, candidate, **options)
    needed = measure(reference, candidate, shown=False, **options)
    for name in EXACT:
        assert getattr(needed, name) == getattr(full, name), name
    for name in SUMS:
        assert getattr(needed, name) == pytest.approx(getattr(full, name), rel=2e-5, abs=1e-300, nan_ok=True), name
    if needed.mismatched:
        assert (needed.mean_abs, needed.max_rel, needed.max_rel_at, needed.ulp) == (None, None, None, {})
    else:
        assert needed == full
    return needed


@settings(max_examples=400, deadline=None)
@given(sides(), st.sampled_from([1, 7, 64]), st.sampled_from([{}, {"atol": 0.5}, {"rtol": 0.25, "atol": 0.0}]))
@example([Typed(np.array([1e38, 1.0], np.float32), "float32"), Typed(np.array([-3e38, 1.0], np.float32), "float32")], 64, {})
@example([Typed(np.zeros(9, np.float32), "float32"), Typed(np.zeros(9, np.float32), "float32")], 7, {})
@example([Typed(np.full(9, np.nan, np.float16), "float16"), Typed(np.full(9, np.nan, np.float16), "float16")], 7, {})
def test_a_verdict_is_told_the_numbers_that_a_person_is_shown(two, block, tolerance):
    same(*two, block=block, **tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e15])
def test_errors_of_any_size_in_many_blocks(dtype, size, scale):
    if dtype == "float16" and scale != 1.0:
        scale = 2.0
    rng = np.random.default_rng(0)
    reference = (rng.standard_normal(30_000) * scale).astype(dtype)
    candidate = (reference * (1 + size * rng.standard_normal(reference.size))).astype(dtype)
    candidate[7::1001] = 0  # a relative error of one beside small ones: float32 rounds such differences
    reference[11::997] *= np.dtype(dtype).type(1e-4)
    for threads in (1, 3):
        same(reference, candidate, block=4096, threads=threads)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 7)])
@pytest.mark.parametrize("away", [0, 1])
def test_any_shape_and_any_layout(shape, away):
    reference = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1
    candidate = np.asfortranarray(reference + np.float32(away))
    assert same(reference, candidate).mismatched == away * reference.size
    strided = np.repeat(reference.reshape(-1), 2)[::2].reshape(shape)
    same(strided, candidate)


def test_the_greatest_error_is_exact_where_float32_rounds_differences():
    """The two greatest differences are one in float32, and the later one is greater."""
    reference = np.full(5000, 1000.0, np.float32)
    candidate = reference.copy()
    reference[10], candidate[10] = 1.0, 2.0**-25
    reference[20], candidate[20] = 1.0, 2.0**-26
    found = measure(reference, candidate, shown=False)
    assert (found.max_abs, found.max_abs_at) == (1.0 - 2.0**-26, (20,))
    assert (found.max_abs, found.max_abs_at) == (measure(reference, candidate).max_abs, (20,))


def test_equal_values_take_no_pass_over_their_differences(monkeypatch):
    def refuse(*_):
        raise AssertionError("the differences of equal values were taken")

    monkeypatch.setenv("PARALIGN_KERNEL", "0")
    monkeypatch.setattr(kernels.Kernel, "_singles", refuse)
    array = np.random.default_rng(1).standard_normal(200_000).astype(np.float32)
    assert measure(array, array.copy()).mismatched == 0
    with pytest.raises(AssertionError, match="were taken"):
        measure(array, array + 1)


def test_a_pair_is_completed_where_it_is_shown():
    reference = np.random.default_rng(2).standard_normal(500).astype(np.float32)
    values = Typed(reference, "float32"), Typed(reference + np.float32(1e-3), "float32")
    record = Record(id=0, stage="forward", name="x", role="output", dtype="float32", shape=(500,))
    pair = compare_pair("x", record, record, *values, shown=False)
    assert pair.stats is not None
    assert pair.stats.mean_abs is None
    complete(pair, *values)
    assert pair.stats == measure(*values)
    before = pair.stats
    complete(pair, None, None)  # there is nothing left to measure
    assert pair.stats == before
