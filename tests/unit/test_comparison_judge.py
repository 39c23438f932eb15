"""Pairs: what is noted about two records, word by word, and the verdict on what was measured."""

import math

import numpy as np
import pytest

from paralign.comparison import compare_pair, judge
from paralign.dtypes import typed
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Noise, Pair, Record, Stats, Tolerance


def record(value=None, *, role="output", text=None, shape=None):
    if text is not None:
        return Record(0, "point", "forward", role, "str", (), text=text)
    if value is None:
        return Record(0, "point", "forward", role, "none", ()) if shape is None else Record(0, "point", "forward", role, "float32", shape)
    return Record(0, "point", "forward", role, typed(value).dtype, np.shape(value))


def paired(reference, candidate, **settings):
    """The pair of two arrays, texts (str), missing values (None) or records without values."""
    records, arrays = [], []
    role = settings.pop("role", "output")
    for side in (reference, candidate):
        if isinstance(side, Record):
            records.append(side)
        else:
            records.append(record(text=side, role=role) if isinstance(side, str) else record(side, role=role))
        arrays.append(typed(side) if isinstance(side, np.ndarray) else None)
    return compare_pair("point", records[0], records[1], arrays[0], arrays[1], **settings)


F = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
NAN = F.copy()
NAN[0, 1] = np.nan
INF = F.copy()
INF[1] = np.inf


# --- notes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "candidate", "notes", "verdict"),
    [
        (F, F.copy(), [], ALIGNED),
        (F, F + 1, ["the candidate's values are the reference's, shifted by 1"], DIVERGED),
        (F, F.astype(np.float64), ["dtype float32 against float64"], ALIGNED),
        (F.astype(np.int32), F, ["dtype int32 against float32"], ALIGNED),
        (np.array(F[0, 0]), F[:1, 0], ["shape () against (1,)"], ALIGNED),
        (F, F[None], ["shape (2, 3) against (1, 2, 3)"], ALIGNED),
        (F, F[0], ["shape (2, 3) against (3,)"], DIVERGED),
        (
            F,
            F.T,
            ["shape (2, 3) against (3, 2)", "the candidate's values are the reference's, transposed (1, 0)"],
            DIVERGED,
        ),
        (
            F,
            F.reshape(3, 2),
            ["shape (2, 3) against (3, 2)", "the candidate's values are the reference's, reshaped"],
            DIVERGED,
        ),
        (
            F,
            F.reshape(6).astype(np.float16),
            ["dtype float32 against float16", "shape (2, 3) against (6,)", "the candidate's values are the reference's, reshaped"],
            DIVERGED,
        ),
        (F, F * 2, ["the candidate's values are the reference's, scaled by 2"], DIVERGED),
        (F, NAN, ["NaN at 1 place of the candidate only"], DIVERGED),
        (NAN, F, ["NaN at 1 place of the reference only"], DIVERGED),
        (NAN, NAN.copy(), ["NaN at the same 1 place of both", "compared as numbers: 5 of 6 elements"], ALIGNED),
        (
            NAN,
            NAN[::-1].copy(),
            [
                "NaN at 1 place of the reference only",
                "NaN at 1 place of the candidate only",
                "the candidate's values are the reference's, flipped along axis 0",
            ],
            DIVERGED,
        ),
        (F, INF, ["infinities differ at 3 places"], DIVERGED),
        (INF, -INF, ["infinities differ at 3 places"], DIVERGED),
        (INF, INF.copy(), ["the same infinities at 3 places of both", "compared as numbers: 3 of 6 elements"], ALIGNED),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), ["nothing to compare: the tensors are empty"], NOT_TESTED),
        (np.zeros((0, 3)), np.zeros((3, 0)), ["shape (0, 3) against (3, 0)"], DIVERGED),
        ("a", "a", [], ALIGNED),
        ("a", "b", ["text 'a' against 'b'"], DIVERGED),
        ("", "b", ["text '' against 'b'"], DIVERGED),
        ("x" * 70, "x" * 60, ["text differs from character 60: 'xxxxxxxxxx' against ''"], DIVERGED),
        ("ab" + "x" * 50, "aB" + "x" * 50, [f"text differs from character 1: 'b{'x' * 39}…' against 'B{'x' * 39}…'"], DIVERGED),
        ("a", F, ["text against a tensor of type float32"], DIVERGED),
        (F, "a", ["a tensor of type float32 against text"], DIVERGED),
        (None, "a", ["a tensor of type none against text"], DIVERGED),
        (None, None, [], ALIGNED),
        (None, F, ["no tensor against a tensor"], DIVERGED),
        (F * 0, None, ["a tensor of zeros against no tensor"], ALIGNED),
        (record(shape=(2, 3)), F, ["the values of the reference were not kept"], NOT_TESTED),
        (
            record(shape=(2, 3)),
            record(shape=(2, 3)),
            ["the values of the reference were not kept", "the values of the candidate were not kept"],
            NOT_TESTED,
        ),
        (F, record(shape=(3, 2)), ["the values of the candidate were not kept"], DIVERGED),
    ],
)
def test_what_is_noted_and_what_it_comes_to(reference, candidate, notes, verdict):
    pair = paired(reference, candidate)
    assert pair.notes == notes
    assert pair.verdict == NOT_TESTED
    assert judge(pair, limit=10.0, exact=True) == pair.verdict == verdict
    assert judge(pair, limit=10.0) == verdict  # no noise is known: bit by bit as well
    assert pair.notes == notes


@pytest.mark.parametrize(
    ("reference", "candidate", "note", "verdict"),
    [
        (None, F * 0, "no gradient against a gradient of zeros", ALIGNED),
        (F * 0, None, "a gradient of zeros against no gradient", ALIGNED),
        (None, F, "no gradient against a gradient", DIVERGED),
        (F, None, "a gradient against no gradient", DIVERGED),
        (None, NAN * 0, "no gradient against a gradient", DIVERGED),
        (None, np.zeros((0,), np.float32), "no gradient against an empty gradient", NOT_TESTED),
    ],
)
def test_a_missing_gradient_counts_as_zeros(reference, candidate, note, verdict):
    pair = paired(reference, candidate, role="gradient")
    assert pair.notes == [note]
    pair.noise = Noise(1e-3, "test")
    assert judge(pair, limit=1e9) == verdict


def test_a_missing_record_diverges():
    for records, note in (((None, record(F)), "missing in the reference"), ((record(F), None), "missing in the candidate")):
        pair = compare_pair("k", *records, None, None)
        assert pair.notes == [note]
        assert judge(pair, limit=math.inf, tolerance=Tolerance(atol=1e9)) == DIVERGED
    with pytest.raises(ValueError, match="pair 'k' has neither a reference nor a candidate"):
        compare_pair("k", None, None, None, None)


def test_slight_differences_are_not_looked_into():
    pair = paired(F, F + np.float32(1e-5))
    assert pair.notes == []
    assert pair.stats is not None
    assert pair.stats.mismatched == 6


def test_key_how_and_measures_are_kept():
    pair = paired(F, F + 1, how="content", atol=1.5, threads=1)
    assert (pair.key, pair.how, pair.stats.exceeding, pair.stats.max_abs) == ("point", "content", 0, 1.0)
    assert pair.error == pair.stats.rel_l2
    with pytest.raises(UsageError, match="atol is -1"):
        paired(F, F, atol=-1)


# --- verdicts -------------------------------------------------------------------------------------------------------


def measured(rel_l2=0.0, noise=None, **stats):
    stats = {"count": 6, "mismatched": int(rel_l2 > 0), "rel_l2": rel_l2} | stats
    return Pair("k", record(F), record(F), stats=Stats(**stats), noise=None if noise is None else Noise(noise, "test"))


@pytest.mark.parametrize(
    ("error", "noise", "limit", "verdict"),
    [
        (0.0, None, 10, ALIGNED),
        (1e-30, None, 1e30, DIVERGED),
        (1e-6, 1e-6, 10, ALIGNED),
        (1e-5, 1e-6, 10, DIVERGED),
        (1e-5, 1e-6, 11, ALIGNED),
        (0.0, 0.0, 10, ALIGNED),
        (1e-300, 0.0, 10, DIVERGED),
        (0.05, 0.1, 10, ALIGNED),
        (0.05, 0.11, 10, UNDERPOWERED),
        (0.001, 0.11, 10, ALIGNED),
        (0.0011, 0.11, 10, UNDERPOWERED),
        (0.0, 0.11, 10, ALIGNED),
        (5.0, 0.11, 10, DIVERGED),
        (0.05, math.inf, 10, UNDERPOWERED),
        (0.1, math.nan, 10, UNDERPOWERED),
        (0.1, 0.01, math.nan, DIVERGED),
    ],
)
def test_error_beside_noise(error, noise, limit, verdict):
    pair = measured(error, noise)
    if (error, noise) == (1e-5, 1e-6) and limit == 10:
        pair = measured(1.01e-5, noise)
    assert judge(pair, limit=limit) == pair.verdict == verdict


def test_loud_noise_is_noted_once():
    pair = measured(0.05, 0.35)
    for _ in range(2):
        assert judge(pair, limit=10) == UNDERPOWERED
    assert pair.notes == ["the reference's own noise is 0.35 of its values: agreement within it proves nothing"]
    pair = measured(0.05, math.nan)
    assert judge(pair, limit=10) == UNDERPOWERED
    assert pair.notes == ["the reference's own noise is not a number: nothing can be proven"]


def test_exact_ignores_the_noise():
    assert judge(measured(1e-9, 1e-6), limit=10, exact=True) == DIVERGED
    assert judge(measured(0.0, 1.0), limit=10, exact=True) == ALIGNED


def test_integers_are_exact_without_being_asked():
    pair = paired(np.array([1, 2, 3]), np.array([1, 2, 4]))
    pair.noise = Noise(0.09, "test")
    assert judge(pair, limit=1e9) == DIVERGED
    pair = paired(np.array([True]), np.array([True]))
    pair.noise = Noise(0.5, "test")
    assert judge(pair, limit=1e9) == ALIGNED


@pytest.mark.parametrize("tolerance", [None, Tolerance(ratio=1e9), Tolerance(atol=1e9)])
def test_nan_and_infinities_on_one_side_diverge_whatever_is_allowed(tolerance):
    for stats in ({"nan": 1}, {"inf": 1}):
        assert judge(measured(0.0, 1e-3, **stats), limit=1e9, tolerance=tolerance) == DIVERGED


def test_the_users_ratio_comes_before_the_limit():
    assert judge(measured(1e-4, 1e-6), limit=10, tolerance=Tolerance(ratio=1000.0)) == ALIGNED
    assert judge(measured(1e-6, 1e-6), limit=10, tolerance=Tolerance(ratio=0.5)) == DIVERGED


def test_the_users_tolerance_decides_element_by_element():
    r, c = np.array([1.0, 100.0]), np.array([1.05, 100.5])
    for atol, rtol, verdict in (
        (0.0, 0.06, ALIGNED),
        (0.0, 0.01, DIVERGED),
        (0.1, None, DIVERGED),
        (0.6, None, ALIGNED),
        (0.1, 0.01, ALIGNED),
    ):
        pair = paired(r, c, atol=atol, rtol=rtol)
        pair.noise = Noise(1e-16, "test")
        assert judge(pair, limit=1.0, tolerance=Tolerance(atol=atol, rtol=rtol)) == verdict
        assert judge(pair, limit=1.0, tolerance=Tolerance(atol=atol, rtol=rtol), exact=True) == verdict


def test_stored_pairs_are_judged_again_where_the_numbers_allow_it():
    pair = paired(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    assert judge(pair, limit=1.0, tolerance=Tolerance(atol=0.5)) == ALIGNED
    assert judge(pair, limit=1.0, tolerance=Tolerance(atol=0.4, rtol=0.0)) == DIVERGED
    with pytest.raises(UsageError) as caught:
        judge(pair, limit=1.0, tolerance=Tolerance(rtol=0.1))
    assert str(caught.value) == (
        "the pair was measured without the tolerance that it is to be judged by\n  where: point\n"
        "  fix:   measure it again with the same atol and rtol"
    )


# --- nothing finite ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [np.full((2, 3), np.nan, np.float32), np.full((2, 3), -np.inf), np.where(F > 3, np.inf, np.nan)])
def test_what_is_nowhere_finite_proves_nothing(values):
    pair = paired(values, values.copy())
    pair.noise = Noise(1e-7, "test")
    assert judge(pair, limit=10.0) == UNDERPOWERED
    assert pair.notes[-1].startswith("nothing finite was compared")
    tolerance = Tolerance(atol=1.0)
    assert judge(paired(values, values.copy(), atol=1.0), limit=10.0, tolerance=tolerance) == UNDERPOWERED
    assert judge(paired(values, values.copy()), limit=0.0, exact=True) == ALIGNED  # equal bits are asked for
