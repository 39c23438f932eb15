"""How stages judge: the method, the reference's noise, small tensors, the verdict. On captures written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.comparison import compare_pair
from paralign.dtypes import EPS, typed
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Manifest, Noise, Pair, Record, StageResult, Tolerance
from paralign.stages.common import judging
from paralign.stages.common.judging import (
    AGAINST,
    FLOAT64,
    PARTLY,
    PERTURBATION,
    PERTURBED,
    ROUNDING,
    Noises,
    choose,
    conclude,
    doubt_whole_numbers,
    final,
    floor,
    paired,
)
from paralign.worker.sides.session import DOUBLE, NATIVE

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(100)


@pytest.fixture
def made(tmp_path):
    """Writes a capture: ``{run: values}`` or a list of (name, run, values, fields), and the answer of the task."""
    count = iter(range(100))

    def write(outputs, runs=None, failed=None, stage="forward"):
        manifest = Manifest(stage=stage)
        outputs = [("output", run, value, {}) for run, value in outputs.items()] if isinstance(outputs, dict) else outputs
        runs = list(dict.fromkeys(run for _, run, _, _ in outputs)) if runs is None else runs
        folder = tmp_path / str(next(count))
        with CaptureWriter(folder, manifest) as writer:
            for name, run, value, fields in outputs:
                writer.add(name, value, run=run, **{"role": "output", **fields})
            manifest.settings["answer"] = {"runs": runs, "failed": failed or {}}
        return Capture.open(folder)

    return write


def f32(values):
    return np.asarray(values, np.float32)


# -- the method --------------------------------------------------------------------------------------------------------------


def test_float64_on_both_sides_is_best(made):
    capture = made({NATIVE: f32(X), DOUBLE: X})
    assert choose(capture, capture) == (FLOAT64, [])


def test_a_candidate_that_computes_lower_within_its_float64_run_is_named(made):
    reference = made({NATIVE: f32(X), DOUBLE: X})
    module = {"attrs": {"module": True}}
    candidate = made(
        [("output", DOUBLE, X, {}), ("conv", DOUBLE, f32(X), module), ("ids", DOUBLE, np.arange(3), module), ("", DOUBLE, f32(X), module)]
    )
    method, notes = choose(reference, candidate)
    assert method == PARTLY
    assert notes == ["the candidate computes in lower precision even where everything is float64, in conv (float32), the model (float32)"]


def test_what_is_low_outside_the_float64_run_or_no_output_does_not_count(made):
    reference = made({NATIVE: f32(X), DOUBLE: X})
    candidate = made([("output", DOUBLE, X, {}), ("x", DOUBLE, f32(X), {"role": "input"}), ("conv", NATIVE, f32(X), {})])
    assert choose(reference, candidate)[0] == FLOAT64


def test_a_candidate_without_float64_is_held_against_the_references(made):
    reference, candidate = made({NATIVE: f32(X), DOUBLE: X}), made({NATIVE: f32(X)}, failed={DOUBLE: "RuntimeError: no kernel"})
    assert choose(reference, candidate) == (AGAINST, ["the candidate does not run in float64: RuntimeError: no kernel"])


def test_a_reference_without_float64_needs_perturbation_whatever_the_candidate_can(made):
    candidate = made({NATIVE: f32(X), DOUBLE: X})
    reference = made({NATIVE: f32(X)}, failed={DOUBLE: "E: no"})
    assert choose(reference, candidate) == (PERTURBATION, ["the reference does not run in float64: E: no"])
    assert choose(reference, reference)[1] == [
        "the reference does not run in float64: E: no",
        "the candidate does not run in float64: E: no",
    ]


def test_modes_belong_to_their_run_and_have_methods_of_their_own(made):
    reference = made({f"{run}:{mode}": X for run in (DOUBLE, NATIVE) for mode in ("eval", "train")})
    candidate = made([("loss", f"{DOUBLE}:eval", X, {}), ("loss", f"{NATIVE}:train", f32(X), {})], failed={f"{DOUBLE}:train": "E: no"})
    assert choose(reference, reference)[0] == FLOAT64
    assert choose(reference, candidate, "eval") == (FLOAT64, [])
    assert choose(reference, candidate, "train") == (AGAINST, ["the candidate does not run in float64: E: no"])


def test_a_reason_is_told_once(made):
    capture = made({f"{NATIVE}:eval": f32(X)}, failed={f"{DOUBLE}:{mode}": "E: no" for mode in ("eval", "train")})
    assert choose(made({DOUBLE: X}), capture)[1] == ["the candidate does not run in float64: E: no"]


# -- noise -------------------------------------------------------------------------------------------------------------------


def test_the_floor_is_half_a_unit_and_what_constants_in_float32_cause():
    assert floor("bfloat16") == 2.0**-8
    assert floor("float16") == 2.0**-11
    assert floor("float32") == floor("float64") == 2 * EPS["float32"]
    assert floor("int64") == floor("bool") == 0


def test_noise_is_the_distance_of_the_references_runs(made):
    capture = made({DOUBLE: X, NATIVE: f32(X * (1 + 1e-4))})
    noise = Noises(capture, FLOAT64).of(capture.select(run=DOUBLE)[0])
    assert noise.value == pytest.approx(1e-4, rel=1e-2)
    assert noise.how == "the reference's float64 run against its native run"


def test_the_greatest_of_several_perturbations_counts(made):
    runs = {NATIVE: f32(X), **{run: f32(X * (1 + size)) for run, size in zip(PERTURBED, (1e-5, 1e-3, 1e-4), strict=True)}}
    capture = made(runs)
    noise = Noises(capture, PERTURBATION).of(capture.select(run=NATIVE)[0])
    assert noise.value == pytest.approx(1e-3, rel=1e-2)
    assert noise.how == "inputs moved by one unit in the last place"


@pytest.mark.parametrize(("dtype", "least"), [("float32", 2 * EPS["float32"]), ("float16", 2.0**-11)])
def test_noise_is_never_below_the_floor_of_the_native_type(made, dtype, least):
    values = np.arange(100).astype(float)
    capture = made({DOUBLE: values, NATIVE: values.astype(dtype)})
    assert Noises(capture, FLOAT64).of(capture.select(run=DOUBLE)[0]).value == least


def test_without_a_twin_the_least_is_granted_and_said(made):
    other_shape = made([("output", DOUBLE, X, {}), ("output", NATIVE, f32(X[:5]), {})])
    other_step = made([("output", DOUBLE, X, {"step": 1}), ("output", NATIVE, f32(X * 2), {"step": 0})])
    module = made([("output", DOUBLE, X, {}), ("output", NATIVE, f32(X * 2), {"attrs": {"module": True}})])
    for capture in (made({DOUBLE: X}), other_shape, other_step, module):
        noise = Noises(capture, FLOAT64).of(capture.select(run=DOUBLE)[0])
        assert noise == Noise(floor("float32"), "the least that is granted to float64")


@pytest.mark.parametrize(("native", "verdict"), [([3, 1, 2], DIVERGED), ([3, 1, 4], UNDERPOWERED)])
def test_whole_numbers_that_rounding_decides_are_undecided(made, native, verdict):
    ours = made({DOUBLE: np.array([3, 1, 2]), NATIVE: np.array(native)})
    theirs = made({DOUBLE: np.array([3, 0, 2])})
    pairs = paired(ours, theirs, [(ours.records[0], theirs.records[0], "name")], FLOAT64, Tolerance())
    doubt_whole_numbers(pairs, Noises(ours, FLOAT64))
    assert [pair.verdict for pair in pairs] == [verdict]
    assert bool(pairs[0].notes) == (verdict == UNDERPOWERED)


@pytest.mark.parametrize("candidate", [[3.0, 1.0, 2.0], [3.0, 1.5, 2.0]])
def test_other_runs_of_floating_values_leave_their_verdict_alone(made, candidate):
    ours = made({DOUBLE: np.array([3.0, 1.0, 2.0]), NATIVE: f32([3.0, 1.0, 2.1])})
    theirs = made({DOUBLE: np.array(candidate)})
    pairs = paired(ours, theirs, [(ours.records[0], theirs.records[0], "name")], FLOAT64, Tolerance())
    before = pairs[0].verdict
    doubt_whole_numbers(pairs, Noises(ours, FLOAT64))
    assert pairs[0].verdict == before


def test_modes_are_kept_apart(made):
    records = [("loss", f"{DOUBLE}:{mode}", X, {}) for mode in ("eval", "train")]
    records += [("loss", f"{NATIVE}:eval", f32(X * 1.01), {}), ("loss", f"{NATIVE}:train", f32(X * 1.1), {})]
    capture = made(records)
    values = [Noises(capture, FLOAT64).of(capture.select(run=f"{DOUBLE}:{mode}")[0]).value for mode in ("eval", "train")]
    assert values == pytest.approx([0.01, 0.1], rel=1e-3)


def test_values_made_once_have_one_rounding_of_their_type_and_of_float32_at_least(made):
    capture = made(
        [
            ("a", "", f32(X), {}),
            ("b", "", X, {}),
            ("h", "", X.astype(np.float16), {}),
            ("c", "", np.arange(3), {}),
            ("d", "", "text", {}),
            ("e", "", None, {}),
        ]
    )
    noises = [Noises(capture, ROUNDING).of(r) for r in capture.records]
    single = Noise(EPS["float32"], "one rounding of float32")
    assert noises == [single, single, Noise(EPS["float16"], "one rounding of float16"), None, None, None]


def test_values_that_were_not_kept_have_no_noise(made):
    capture = made([("a", DOUBLE, X, {"keep": False})])
    assert Noises(capture, FLOAT64).of(capture.records[0]) is None


# -- pairs, measured and judged --------------------------------------------------------------------------------------------------


def judged(reference, candidate, method, tolerance=Tolerance()):  # noqa: B008 - never changed
    sides = final(reference, run=method.reference_run), final(candidate, run=method.candidate_run)
    return paired(reference, candidate, judging.points_of(*sides), method, tolerance)


@pytest.mark.parametrize(("error", "verdict"), [(0.5e-4, ALIGNED), (2e-4, DIVERGED)])
def test_float64_is_aligned_up_to_the_noise(made, error, verdict):
    reference = made({DOUBLE: X, NATIVE: f32(X * (1 + 1e-4))})
    (pair,) = judged(reference, made({DOUBLE: X * (1 + error)}), FLOAT64)
    assert (pair.verdict, pair.ratio) == (verdict, pytest.approx(error / 1e-4, rel=1e-2))


@pytest.mark.parametrize("method", [PARTLY, AGAINST])
@pytest.mark.parametrize(("error", "verdict"), [(9e-4, ALIGNED), (11e-4, DIVERGED)])
def test_other_methods_are_aligned_up_to_ten_times_the_noise(made, method, error, verdict):
    reference = made({DOUBLE: X, NATIVE: f32(X * (1 + 1e-4))})
    (pair,) = judged(reference, made({DOUBLE: X * (1 + error), NATIVE: f32(X * (1 + error))}), method)
    assert pair.verdict == verdict


@pytest.mark.parametrize(("error", "verdict"), [(9e-6, ALIGNED), (2e-5, DIVERGED)])
def test_perturbation_is_aligned_up_to_ten_times_its_noise(made, error, verdict):
    reference = made({NATIVE: f32(X), **{run: f32(X * (1 + 1e-6)) for run in PERTURBED}})
    (pair,) = judged(reference, made({NATIVE: f32(X * (1 + error))}), PERTURBATION)
    assert pair.verdict == verdict


def test_the_users_ratio_and_absolute_tolerance_come_first(made):
    reference, candidate = made({DOUBLE: X, NATIVE: f32(X * (1 + 1e-4))}), made({DOUBLE: X * (1 + 5e-4)})
    verdicts = [
        judged(reference, candidate, FLOAT64, t)[0].verdict for t in (Tolerance(6), Tolerance(4), Tolerance(atol=0.1), Tolerance(rtol=1e-4))
    ]
    assert verdicts == [ALIGNED, DIVERGED, ALIGNED, DIVERGED]


def test_loud_noise_is_underpowered_unless_the_error_is_small(made):
    reference = made({DOUBLE: X, NATIVE: f32(X * 1.5)})
    assert judged(reference, made({DOUBLE: X * 1.2}), FLOAT64)[0].verdict == UNDERPOWERED
    assert judged(reference, made({DOUBLE: X * (1 + 1e-9)}), FLOAT64)[0].verdict == ALIGNED
    assert judged(reference, made({DOUBLE: X * 2}), FLOAT64)[0].verdict == DIVERGED


def test_integers_booleans_and_text_are_exact(made):
    records = [("n", "", np.arange(5), {}), ("b", "", np.array([True]), {}), ("t", "", "cat", {})]
    assert {p.verdict for p in judged(made(records), made(records), ROUNDING)} == {ALIGNED}
    changed = [("n", "", np.arange(5) + (np.arange(5) == 4), {}), ("b", "", np.array([False]), {}), ("t", "", "dog", {})]
    assert [p.verdict for p in judged(made(records), made(changed), ROUNDING)] == [DIVERGED] * 3


def test_nan_and_infinities_diverge_whatever_the_noise(made):
    reference = made({DOUBLE: X, NATIVE: f32(X * 3)})
    for wrong in (np.nan, np.inf, -np.inf):
        (pair,) = judged(reference, made({DOUBLE: np.where(np.arange(100) == 7, wrong, X)}), FLOAT64)
        assert pair.verdict == DIVERGED
        assert pair.ratio == np.inf


def test_what_only_one_side_has_diverges(made):
    both = [("a", "", f32(X), {}), ("b", "", f32(X), {})]
    one = judged(made(both), made(both[:1]), ROUNDING)
    other = judged(made(both[:1]), made(both), ROUNDING)
    assert [(p.key, p.verdict, p.notes) for p in one] == [("a", ALIGNED, []), ("b", DIVERGED, ["missing in the candidate"])]
    assert [(p.key, p.verdict, p.notes) for p in other] == [("a", ALIGNED, []), ("b", DIVERGED, ["missing in the reference"])]


def test_other_names_are_paired_in_order(made):
    reference = made([("logits", "", f32(X), {}), ("boxes", "", f32(X + 1), {})])
    candidate = made([("out", "", f32(X), {}), ("rest", "", f32(X + 1), {})])
    assert [(p.key, p.how, p.verdict) for p in judged(reference, candidate, ROUNDING)] == [
        ("logits", "structure", ALIGNED),
        ("boxes", "structure", ALIGNED),
    ]


# -- small tensors ---------------------------------------------------------------------------------------------------------------


def pair(key, count, noise, error=0.0):
    first = typed(np.linspace(1, 2, count))
    record = Record(0, key, "x", "output", "float64", (count,))
    found = compare_pair(key, record, record, first, typed(first.array * (1 + error)))
    found.noise = None if noise is None else Noise(noise, "measured")
    return found


def test_a_small_tensor_has_at_least_the_usual_noise_of_the_larger():
    pairs = [pair("a", 64, 1e-6), pair("b", 100, 1e-4), pair("c", 1000, 1e-2), pair("small", 63, 1e-9, 5e-5), pair("loud", 3, 1e-1)]
    judging.settle(pairs, FLOAT64, Tolerance())
    assert [p.noise.value for p in pairs] == [1e-6, 1e-4, 1e-2, 1e-4, 1e-1]
    assert pairs[3].noise.how == "the usual noise of the stage's larger tensors"
    assert [p.verdict for p in pairs] == [ALIGNED] * 5


def test_without_larger_tensors_small_ones_keep_their_own_noise():
    pairs = [pair("a", 3, 1e-6, 1e-5), pair("b", 5, 1e-4)]
    judging.settle(pairs, FLOAT64, Tolerance())
    assert [(p.noise.value, p.verdict) for p in pairs] == [(1e-6, DIVERGED), (1e-4, ALIGNED)]


def test_the_least_that_is_asked_for_counts_for_small_tensors_only():
    pairs = [pair("loss_0", 1, 1e-7, 1e-5), pair("a", 64, 1e-7, 1e-5), pair("lr_0", 1, 1e-7, 1e-5), pair("lr_head", 1, 1e-7, 1e-5)]
    pairs[2].reference.role, pairs[2].reference.name = "scalar", "lr"
    judging.settle(pairs, FLOAT64, Tolerance(), least=1e-4)
    assert [(p.noise.value, p.verdict) for p in pairs] == [(1e-4, ALIGNED), (1e-7, DIVERGED), (1e-7, DIVERGED), (1e-4, ALIGNED)]


def test_what_has_no_noise_is_given_none_and_judged_exactly():
    pairs = [pair("n", 3, None), pair("m", 3, None, 1e-12), pair("a", 100, 1e-3)]
    judging.settle(pairs, FLOAT64, Tolerance())
    assert [p.noise for p in pairs[:2]] == [None, None]
    assert [p.verdict for p in pairs] == [ALIGNED, DIVERGED, ALIGNED]


# -- the stage's verdict -----------------------------------------------------------------------------------------------------------


def concluded(*pairs):
    result = StageResult("x", pairs=list(pairs))
    assert conclude(result, FLOAT64) is result
    assert result.method == "float64"
    return result


def of(verdict, how="name", *, counted=True):
    return Pair("k", None, None, how=how, verdict=verdict, judged=counted)


def test_the_worst_judged_pair_decides():
    assert concluded(of(ALIGNED), of(UNDERPOWERED)).verdict == UNDERPOWERED
    assert concluded(of(ALIGNED), of(UNDERPOWERED), of(DIVERGED)).verdict == DIVERGED
    assert concluded(of(ALIGNED), of(DIVERGED, counted=False)).verdict == ALIGNED


@pytest.mark.parametrize("pairs", [[], [of(NOT_TESTED)], [of(ALIGNED, counted=False)]], ids=["none", "empty tensors", "none judged"])
def test_nothing_judged_is_not_tested_and_says_so(pairs):
    result = concluded(*pairs)
    assert (result.verdict, result.notes) == (NOT_TESTED, ["nothing was compared"])


def test_pairing_in_order_is_said_where_it_may_be_the_cause():
    assert concluded(of(DIVERGED, "structure")).notes == ["names differ between the sides; their values were paired in order"]
    assert concluded(of(ALIGNED, "structure")).notes == []
    assert concluded(of(DIVERGED)).notes == []
