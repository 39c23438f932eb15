"""Training steps judged, on captures written by hand: a torch reference and a paddle candidate that nobody has to run."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import weights as mapping
from paralign.capture import Capture, CaptureWriter
from paralign.context import Context
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Manifest, Pair, Record, StageResult, Stats
from paralign.run.project import Settings
from paralign.stages.backward import stage as backward
from paralign.stages.backward import step_pairs, untrained, where_it_starts
from paralign.stages.backward.step_pairs import Steps
from paralign.stages.backward.where_it_starts import first_wrong
from paralign.stages.common.judging import FLOAT64
from paralign.stages.steps import update_explaining
from paralign.worker.protocol import Description, LoweredPlaces
from paralign.worker.sides.session import DOUBLE, NATIVE

RANDOM = np.random.RandomState(0)
WEIGHT, BIAS = RANDOM.randn(8, 12), RANDOM.randn(8)
OLD = 1 + RANDOM.rand(70)
BATCH = 2 + RANDOM.rand(70)  # the batch's variance, biased
MOMENTUM = 0.1

STATE = {
    "torch": [
        ("fc.weight", "parameter", "Linear", WEIGHT, {}),
        ("fc.bias", "parameter", "Linear", BIAS, {}),
        ("bn.running_var", "buffer", "BatchNorm2d", OLD, {"momentum": MOMENTUM}),
    ],
    "paddle": [
        ("fc.weight", "parameter", "Linear", WEIGHT.T, {}),
        ("fc.bias", "parameter", "Linear", BIAS, {}),
        ("bn._variance", "buffer", "BatchNorm2D", OLD, {"momentum": 1 - MOMENTUM}),
    ],
}
NAMES = {"running_var": {"torch": "bn.running_var", "paddle": "bn._variance"}}


class Canned:
    """A recorder of one side whose captures were made beforehand."""

    def __init__(self, captures):
        self.captures, self.asked = captures, []

    def record(self, name, order, values=None, *, prelude=False):
        if order.task == "lowered":  # these float64 runs compute in float64 throughout
            return SimpleNamespace(answer=LoweredPlaces([]))
        self.asked.append((name, order, values, prelude))
        return self.captures[name]


class Bench:
    """Writes captures of both sides and gives the context and the steps."""

    def __init__(self, folder):
        self.folder, self.count = folder, iter(range(1000))

    def write(self, stage, rows, **settings):
        manifest = Manifest(stage=stage, settings=settings)
        folder = self.folder / str(next(self.count))
        with CaptureWriter(folder, manifest) as writer:
            for name, value, fields in rows:
                writer.add(name, value, **fields)
        return Capture.open(folder)

    def state(self, framework):
        rows = []
        for name, role, kind, value, more in STATE[framework]:
            owner, _, leaf = name.rpartition(".")
            attrs = {"owner": owner, "leaf": leaf, "kind": kind, "trainable": True, "shared": None, "persistent": True, **more}
            rows.append((name, np.asarray(value, np.float32), {"role": role, "op": kind, "attrs": attrs}))
        return self.write("weights", rows)

    def training(self, framework, trace, *, noise=1e-6, runs=None, failed=None, random=None, modes=("eval",)):
        """``trace`` maps ``loss``, ``lr``, ``gradient``, ``parameter`` and ``buffer`` to what is recorded at every step."""
        turned = framework == "paddle"
        runs = [f"{run}:{mode}" for run in (NATIVE, DOUBLE) for mode in modes] if runs is None else runs
        rows = []
        for run in runs:
            for step, values in enumerate(trace):
                own = 0.0 if run.startswith(DOUBLE) else noise[step] if isinstance(noise, list) else noise
                fields = {"run": run, "step": step}
                scalars = {"loss": 1 + own, "lr": 1.0}
                rows += [(n, np.float64(values[n] * wobble), {"role": "scalar", **fields}) for n, wobble in scalars.items() if n in values]
                for role in ("gradient", "parameter"):
                    for name, value in values.get(role, {}).items():
                        laid = value.T if turned and value is not None and value.ndim == 2 else value
                        wobble = 0 if value is None else own * np.sign(laid)
                        rows.append((name, None if value is None else laid + wobble * np.abs(laid), {"role": role, **fields}))
                for name, (value, attrs) in values.get("buffer", {}).items():
                    rows.append(
                        (
                            NAMES[name][framework],
                            value,
                            {"role": "buffer", "attrs": {"owner": "bn", "leaf": NAMES[name][framework][3:], **attrs}, **fields},
                        )
                    )
        return self.write("backward", rows, answer={"runs": runs, "failed": failed or {}, "random": random or {}})

    def context(self, reference, candidate, frameworks=("torch", "paddle"), **settings):
        states = self.state("torch"), self.state("paddle")
        about = [Description(["build_model", "loss", "build_optimizer"], f, trains=True) for f in frameworks]
        return Context(
            Canned({"backward": reference, "backward-perturbed": reference, "steps anew train": reference}),
            Canned({"backward": candidate, "steps anew train": candidate}),
            Settings(**{"steps": 1, "modes": ["eval"], **settings}),
            about=dict(zip(("reference", "candidate"), about, strict=True)),
            weights=states[0],
            plan=mapping.plan(states[0].records, states[1].records, "torch", "paddle"),
        )

    def steps(self, reference, candidate, mode="eval", frameworks=("torch", "paddle"), noise=1e-6, **settings):
        """Steps of two traces."""
        captures = self.training("torch", reference, modes=(mode,), noise=noise), self.training("paddle", candidate, modes=(mode,))
        return Steps(self.context(*captures, frameworks, **settings), *captures, FLOAT64, mode)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def step(weight=WEIGHT, bias=BIAS, loss=2.0, rate=0.1):
    return {"loss": loss, "lr": rate, "gradient": {"fc.weight": weight, "fc.bias": bias}}


def change(weight=-0.1 * WEIGHT, bias=-0.1 * BIAS):
    """What the steps before changed, as recorded at the last of them."""
    return {"parameter": {"fc.weight": weight, "fc.bias": bias}}


def verdicts(pairs):
    return {p.key: p.verdict for p in pairs}


# -- loss and rates ------------------------------------------------------------------------------------------------------------


def test_loss_and_rates_of_a_step(bench):
    pairs = bench.steps([step()], [step(loss=2.0 * (1 + 1e-7))]).scalars(0)
    assert verdicts(pairs) == {"loss_0": ALIGNED, "lr_0": ALIGNED}
    pairs = bench.steps([step()], [step(loss=2.0 * (1 + 1e-4), rate=0.1 * (1 + 1e-5))]).scalars(0)
    assert verdicts(pairs) == {"loss_0": DIVERGED, "lr_0": DIVERGED}


def test_a_loss_is_as_noisy_as_it_ever_was(bench):
    steps = bench.steps([step(), step()], [step(), step(loss=2.0 * (1 + 5e-7))])
    steps.scalars(0)
    assert steps.loss_noise == pytest.approx(1e-6, rel=1e-3)
    assert verdicts(steps.scalars(1))["loss_1"] == ALIGNED


def test_train_mode_is_named_in_the_key(bench):
    assert set(verdicts(bench.steps([step()], [step()], "train").scalars(0))) == {"loss_0 (train)", "lr_0 (train)"}


# -- gradients -----------------------------------------------------------------------------------------------------------------


def test_gradients_are_paired_by_the_plan_and_turned_back(bench):
    pairs = bench.steps([step()], [step()]).gradients(0)
    assert verdicts(pairs) == {"gradient_0 fc.weight": ALIGNED, "gradient_0 fc.bias": ALIGNED}
    assert pairs[0].transform == "transpose(1, 0)"
    assert pairs[0].error == 0
    assert (pairs[0].reference.shape, pairs[0].candidate.shape) == ((8, 12), (12, 8))


def test_a_gradient_that_was_not_turned_diverges(bench):
    wrong = WEIGHT.copy()
    wrong[0, 1], wrong[1, 0] = wrong[1, 0], wrong[0, 1]
    assert verdicts(bench.steps([step()], [step(weight=wrong)]).gradients(0)) == {
        "gradient_0 fc.weight": DIVERGED,
        "gradient_0 fc.bias": ALIGNED,
    }


def test_a_missing_gradient_diverges_unless_it_is_zero(bench):
    (_, gone) = bench.steps([step()], [{**step(), "gradient": {"fc.weight": WEIGHT, "fc.bias": None}}]).gradients(0)
    assert (gone.verdict, gone.notes) == (DIVERGED, ["a gradient against no gradient"])
    (_, zero) = bench.steps([step(bias=0 * BIAS)], [{**step(), "gradient": {"fc.weight": WEIGHT, "fc.bias": None}}]).gradients(0)
    assert zero.verdict == ALIGNED


def untrained_pairs(bench, ours, theirs, changes):
    """Gradients of one step and the changes after it, of which what is not trained has been left out."""
    steps = bench.steps([{**step(), "gradient": ours, **changes[0]}], [{**step(), "gradient": theirs, **changes[1]}])
    found = steps.gradients(0) + steps.changes(0)
    untrained.excuse(found, strict=False)
    return {p.key: (p.verdict, p.judged) for p in found}, found


def test_what_is_frozen_in_different_ways_is_no_divergence(bench):
    none = {"fc.weight": WEIGHT, "fc.bias": None}
    both = {"fc.weight": WEIGHT, "fc.bias": BIAS}
    still = change(bias=0 * BIAS)
    verdicts_, found = untrained_pairs(bench, none, both, (still, still))
    assert verdicts_["gradient_0 fc.bias"] == (ALIGNED, False)
    told = StageResult("backward", pairs=found)
    backward._say_unjudged(told)
    assert told.notes == ["frozen on both sides, each in its own way: no step changes it: fc.bias"]
    moved, _ = untrained_pairs(bench, none, both, (still, change()))
    assert moved["gradient_0 fc.bias"] == moved["update fc.bias"] == (DIVERGED, True)
    nothing = change(weight=0 * WEIGHT, bias=0 * BIAS)
    idle, _ = untrained_pairs(bench, none, both, (nothing, nothing))
    assert idle["gradient_0 fc.bias"] == (DIVERGED, True)


def test_what_nothing_of_the_batch_reached_may_decay_on_one_side(bench):
    none, zeros = {"fc.weight": WEIGHT, "fc.bias": None}, {"fc.weight": WEIGHT, "fc.bias": 0 * BIAS}
    found, pairs = untrained_pairs(bench, none, zeros, (change(bias=0 * BIAS), change()))
    assert found["update fc.bias"] == (ALIGNED, False)
    assert [p.notes[-1].startswith("inherent: nothing of the batch reached it") for p in pairs if not p.judged] == [True]
    same, _ = untrained_pairs(bench, zeros, zeros, (change(bias=0 * BIAS), change()))
    assert same["update fc.bias"] == (DIVERGED, True)


def test_a_gradient_that_was_not_recorded_diverges(bench):
    (_, gone) = bench.steps([step()], [{**step(), "gradient": {"fc.weight": WEIGHT}}]).gradients(0)
    assert (gone.verdict, gone.notes) == (DIVERGED, ["missing in the candidate"])


def rounding_noise(bench, size, candidate):
    """A bias whose gradient is noise of the reference: its float64 and native runs differ by more than it is."""
    steps = bench.steps([step(bias=size * BIAS)], [step(bias=candidate)], noise=2.0)
    return {p.key.split()[1]: p for p in steps.gradients(0)}["fc.bias"]


def test_a_vanishing_gradient_is_excused_when_the_reference_does_not_know_it(bench):
    found = rounding_noise(bench, 1e-9, 3e-9 * BIAS[::-1])
    assert (found.judged, found.verdict) == (False, ALIGNED)
    assert "vanishes but for rounding: not judged" in found.notes


def test_a_gradient_that_is_not_small_is_not_excused_though_the_reference_is_unsure(bench):
    assert rounding_noise(bench, 1e-2, 3e-2 * BIAS).judged


def test_a_small_gradient_that_the_candidate_makes_large_is_not_excused(bench):
    found = rounding_noise(bench, 1e-9, BIAS)
    assert (found.judged, found.verdict) == (True, DIVERGED)


def test_a_small_gradient_that_the_reference_knows_is_judged(bench):
    steps = bench.steps([step(bias=1e-9 * BIAS)], [step(bias=2e-9 * BIAS)])
    found = steps.gradients(0)[1]
    assert (found.judged, found.verdict) == (True, DIVERGED)


# -- changes -------------------------------------------------------------------------------------------------------------------


def changes(bench, candidate, reference=None, noise=1e-6, gradient_noise=None):
    """The pairs of what two steps changed, whose gradients agreed."""
    steps = bench.steps([step(), reference or change()], [step(), candidate], noise=noise, steps=2)
    assert set(verdicts(steps.gradients(0)).values()) == {ALIGNED}
    if gradient_noise is not None:
        steps.gradient_noise = dict.fromkeys(steps.gradient_noise, gradient_noise)
    return steps.changes(1)


def test_changes_are_judged_beside_their_gradients_noise(bench):
    pairs = changes(bench, change())
    assert verdicts(pairs) == {"update fc.weight": ALIGNED, "update fc.bias": ALIGNED}
    assert pairs[0].noise.value == pytest.approx(1e-6, rel=1e-2)
    assert pairs[0].noise.how == "the noise of the gradients that made the change"
    assert pairs[0].transform == "transpose(1, 0)"


@pytest.mark.parametrize("factor", [1.0001, 0.5, -1.0])
def test_a_wrong_update_from_right_gradients_diverges(bench, factor):
    found = changes(bench, change(-0.1 * factor * WEIGHT, -0.1 * factor * BIAS))
    assert set(verdicts(found).values()) == {DIVERGED}


@pytest.mark.parametrize(("factor", "verdict"), [(1 + 3e-6, ALIGNED), (1 + 6e-6, DIVERGED)])
def test_what_several_steps_changed_is_granted_what_their_gradients_are(bench, factor, verdict):
    """Each optimizer keeps its rates in float32, and later gradients carry that: the noise is 1e-6, granted four times."""
    found = changes(bench, change(-0.1 * factor * WEIGHT, -0.1 * factor * BIAS))
    assert set(verdicts(found).values()) == {verdict}


def test_what_storing_a_parameter_in_float32_explains_is_no_noise_of_the_change(bench):
    """A change of 1e-7 of a weight is known to some percent only; a wrong learning rate must show all the same."""
    tiny, other = (change(-rate * WEIGHT, -rate * BIAS) for rate in (1e-6, 1.01e-6))
    assert verdicts(changes(bench, other, tiny, noise=0.2, gradient_noise=1e-6))["update fc.weight"] == DIVERGED


def test_a_changes_own_noise_counts_where_storing_does_not_explain_it(bench):
    pairs = changes(bench, change(-0.101 * WEIGHT, -0.101 * BIAS), noise=0.05, gradient_noise=1e-6)
    assert pairs[0].noise.value == pytest.approx(0.05, rel=1e-2)
    assert verdicts(pairs)["update fc.weight"] == ALIGNED


def test_noise_of_a_frozen_parameter_is_its_own(bench):
    still = change(0 * WEIGHT, 0 * BIAS)
    assert set(verdicts(changes(bench, still, still)).values()) == {UNDERPOWERED}, "gradients that move nothing prove nothing"
    assert verdicts(changes(bench, change(1e-3 * WEIGHT, 0 * BIAS), still))["update fc.weight"] == DIVERGED


def kept(size):
    """What a change of a part of the parameters leaves in them, once it is stored: rounded to what is beside them."""
    return change(*((w + size * np.cos(w)) - w for w in (WEIGHT.astype(np.float32).astype(float), BIAS.astype(np.float32).astype(float))))


@pytest.mark.parametrize(("size", "verdict"), [(1e-9, ALIGNED), (1e-11, ALIGNED), (1e-13, ALIGNED), (1e-16, UNDERPOWERED)])
def test_changes_are_known_as_far_as_they_can_be_stored(bench, size, verdict):
    """Two right sides differ by the last bits of the parameters; where these are most of the change, nothing was seen of it."""
    parameters = kept(size)["parameter"]
    ulps = {n: v + 2.0**-53 * np.sign(WEIGHT if v.ndim == 2 else BIAS) for n, v in parameters.items()}
    found = changes(bench, {"parameter": ulps}, {"parameter": parameters}, noise=1e-6, gradient_noise=1e-7)
    assert set(verdicts(found).values()) == {verdict}
    assert all(p.judged for p in found)


@pytest.mark.parametrize("size", [1e-9, 1e-11, 1e-13])
def test_a_wrong_rate_shows_in_small_changes(bench, size):
    assert set(verdicts(changes(bench, kept(2 * size), kept(size), noise=1e-6, gradient_noise=1e-7)).values()) == {DIVERGED}


def test_a_change_that_cannot_be_seen_is_left_out_where_others_can(bench):
    mixed = {"parameter": {**kept(1e-6)["parameter"], "fc.bias": kept(1e-16)["parameter"]["fc.bias"]}}
    found = changes(bench, mixed, mixed)
    assert [(p.judged, p.verdict) for p in found] == [(True, ALIGNED), (False, ALIGNED)]


def test_a_gradient_and_the_change_of_the_same_parameter_at_the_same_step_are_two_things(bench):
    """The last step records both under one name: the noise of either is its own."""
    both = {**step(), **change()}
    steps = bench.steps([both], [both])
    assert steps.gradients(0)[0].noise.value == pytest.approx(1e-6, rel=1e-2)
    assert steps.changes(0)[0].noise.value == pytest.approx(1e-6, rel=1e-2)


# -- buffers -------------------------------------------------------------------------------------------------------------------


def running(new, momentum=MOMENTUM):
    return (1 - momentum) * OLD + momentum * new


def buffers(bench, reference, candidate, frameworks=("torch", "paddle"), momentum=MOMENTUM, **settings):
    traces = [
        [{**step(), "buffer": {"running_var": (value, {"momentum": kept})}}]
        for value, kept in ((reference, momentum), (candidate, 1 - MOMENTUM))
    ]
    (pair,) = bench.steps(*traces, "train", frameworks, **settings).buffers(0)
    return pair


N = 5  # elements a channel


def test_equal_buffers_are_aligned_and_judged(bench):
    pair = buffers(bench, running(BATCH), running(BATCH))
    assert (pair.key, pair.verdict, pair.judged, pair.notes) == ("buffer_0 bn.running_var (train)", ALIGNED, True, [])


@pytest.mark.parametrize("n", [2, 5, 100, 4 * 16 * 16])
def test_the_unbiased_variance_is_inherent(bench, n):
    pair = buffers(bench, running(BATCH * n / (n - 1)), running(BATCH))
    assert (pair.verdict, pair.judged) == (ALIGNED, False)
    assert pair.notes[-1].startswith(
        "inherent: PyTorch keeps the unbiased running variance, Paddle the biased one: a factor of n / (n - 1)"
    )


def test_the_other_way_round_it_is_inherent_too(bench):
    steps = bench.steps([step()], [step()], "train")
    pair = buffers(bench, running(BATCH), running(BATCH * N / (N - 1)), ("paddle", "torch"), momentum=1 - MOMENTUM)
    assert (pair.verdict, pair.judged) == (ALIGNED, False)
    assert steps.buffers(0) == []


def test_strict_excuses_nothing(bench):
    pair = buffers(bench, running(BATCH * N / (N - 1)), running(BATCH), strict=True)
    assert (pair.verdict, pair.judged) == (DIVERGED, True)


WRONG = {
    "momentum 0.1 taken for 0.9": lambda: running(BATCH, 0.9),
    "momentum slightly off": lambda: running(BATCH, 0.11),
    "another variance": lambda: running(BATCH[::-1]),
    "one channel wrong": lambda: running(np.where(np.arange(70) == 3, BATCH * 1.01, BATCH)),
    "a factor below one": lambda: running(BATCH * 1.5),
    "a factor above two": lambda: running(BATCH / 2),
    "not updated": lambda: OLD,
}


@pytest.mark.parametrize("what", WRONG)
def test_no_other_difference_is_inherent(bench, what):
    pair = buffers(bench, running(BATCH * N / (N - 1)), WRONG[what]())
    assert (pair.verdict, pair.judged, pair.notes) == (DIVERGED, True, [])


@pytest.mark.parametrize("factor", [1.7, 1.3])
def test_a_factor_that_no_whole_n_gives_is_not_inherent(bench, factor):
    assert buffers(bench, running(BATCH * factor), running(BATCH)).verdict == DIVERGED


def test_between_equal_frameworks_nothing_is_inherent(bench):
    assert buffers(bench, running(BATCH * N / (N - 1)), running(BATCH), ("torch", "torch")).verdict == DIVERGED


def later_buffers(bench, reference, candidate, noise=1e-6, **settings):
    """The pairs of buffers of every step, whose values are given by step."""
    traces = [
        [{**step(), "buffer": {"running_var": (value, {"momentum": kept})}} for value in values]
        for values, kept in ((reference, MOMENTUM), (candidate, 1 - MOMENTUM))
    ]
    steps = bench.steps(*traces, "train", noise=noise, **settings)
    return [pair for number in range(len(reference)) for pair in steps.buffers(number)]


def test_whole_numbers_that_part_after_the_first_step_diverge(bench):
    places, stuck = ([np.full(70, place) for place in order] for order in ((8, 0, 8), (8, 8, 8)))
    pairs = later_buffers(bench, places, stuck, strict=True)
    assert [(pair.key, pair.verdict) for pair in pairs] == [
        ("buffer_0 bn.running_var (train)", ALIGNED),
        ("buffer_1 bn.running_var (train)", DIVERGED),
        ("buffer_2 bn.running_var (train)", ALIGNED),
    ]


@pytest.mark.parametrize(("factor", "verdict"), [(1 + 1e-9, ALIGNED), (1.01, DIVERGED)])
def test_statistics_of_the_last_step_are_judged_beside_noise(bench, factor, verdict):
    values = [running(BATCH), running(running(BATCH))]
    pairs = later_buffers(bench, values, [values[0], values[1] * factor], strict=True)
    assert [pair.verdict for pair in pairs] == [ALIGNED, verdict]


def test_unbiased_variances_of_later_steps_are_inherent(bench):
    values = [running(BATCH), running(running(BATCH))]
    pairs = later_buffers(bench, [values[0], values[1] * 1.01], values)
    assert [(pair.verdict, pair.judged) for pair in pairs] == [(ALIGNED, True), (ALIGNED, False)]


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """Whether the update was to be explained, and with what: the sides of this file cannot be run."""
    found = []
    monkeypatch.setattr(update_explaining, "explain", lambda _context, _result, _gradients, *, agreed: found.append(agreed))
    return found


# -- the whole stage -------------------------------------------------------------------------------------------------------------


def run(bench, reference, candidate, modes=("eval",), reference_options=None, candidate_options=None, *, optimizer=True, **settings):
    options = {"modes": modes}
    captures = (
        bench.training("torch", reference, **{**options, **(reference_options or {})}),
        bench.training("paddle", candidate, **{**options, **(candidate_options or {})}),
    )
    context = bench.context(*captures, modes=list(modes), **{"steps": len(reference), **settings})
    context.inputs = context.labels = SimpleNamespace()
    for about in context.about.values() if not optimizer else ():
        about.functions = ["build_model", "loss"]
    outputs = bench.write(
        "forward",
        [("output", WEIGHT, {"role": "output", "run": DOUBLE}), ("output", np.float32(WEIGHT), {"role": "output", "run": NATIVE})],
        answer={"runs": [NATIVE, DOUBLE], "failed": {}},
    )
    context.artifacts["forward"] = outputs, outputs
    return backward.run(context)


def test_equal_steps_are_aligned(bench, asked):
    result = run(bench, [step(), {**step(), **change()}], [step(), {**step(), **change()}])
    assert (result.verdict, result.method, result.divergence) == (ALIGNED, "float64", None)
    assert asked == []
    keys = [p.key for p in result.pairs]
    assert keys[:4] == ["loss_0", "lr_0", "gradient_0 fc.weight", "gradient_0 fc.bias"]
    assert keys[-2:] == ["update fc.weight", "update fc.bias"]


def test_a_vanishing_gradient_is_counted_in_a_note(bench):
    vanishing = step(bias=1e-9 * BIAS)
    result = run(bench, [vanishing], [step(bias=2e-9 * BIAS[::-1])], reference_options={"noise": 2.0})
    assert "gradients that vanish but for rounding (as that of a bias before a normalisation does) and were not judged: 1" in result.notes


def test_of_wrong_gradients_the_one_nearest_to_the_loss_is_named(bench, asked):
    result = run(bench, [step()], [step(weight=2 * WEIGHT, bias=2 * BIAS)])
    assert result.verdict == DIVERGED
    assert result.divergence.pair.key == "gradient_0 fc.bias"
    assert asked == [False]
    assert (result.divergence.reference.name, result.divergence.last_agreeing) == ("fc.bias", "lr_0")


def test_a_wrong_rate_comes_before_the_updates_that_it_spoils(bench, asked):
    result = run(bench, [step()], [step(rate=0.2)])
    assert result.divergence.pair.key == "lr_0"
    assert asked == [True]
    assert result.divergence.last_agreeing == "loss_0"


def test_the_inherent_difference_is_told_once_and_does_not_diverge(bench):
    def buffered(value, kept):
        return [{**step(), "buffer": {"running_var": (value, {"momentum": kept})}}]

    result = run(bench, buffered(running(BATCH * N / (N - 1)), MOMENTUM), buffered(running(BATCH), 1 - MOMENTUM), ("train",))
    assert result.verdict == ALIGNED
    assert len([n for n in result.notes if n.startswith("inherent")]) == 1


def test_steps_that_the_reference_does_not_know_itself_are_left_out_and_told(bench):
    off = step(2.2 * WEIGHT, 1.1 * BIAS)
    result = run(bench, [step(), step(2 * WEIGHT), step()], [step(), off, step()], reference_options={"noise": [1e-6, 0.5, 0.5]})
    assert result.verdict == ALIGNED
    assert [p.key for p in result.pairs if not p.judged] == ["gradient_1 fc.weight", "gradient_1 fc.bias"]
    assert result.warnings[0].startswith(
        "from step 1 on in eval mode the reference's own rounding has grown to the size of its values there"
    )


def test_a_first_step_that_the_reference_does_not_know_proves_nothing(bench):
    result = run(bench, [step()], [step(1.1 * WEIGHT)], reference_options={"noise": 0.5})
    assert (result.verdict, result.warnings) == (UNDERPOWERED, [])
    assert [n for n in result.notes if n.startswith("too weak to tell right from wrong: ") and "the reference's own noise is 0." in n]


def test_what_is_wrong_beyond_any_noise_counts_in_later_steps_too(bench):
    result = run(bench, [step(), step()], [step(), step(9 * WEIGHT)], reference_options={"noise": [1e-6, 0.5]})
    assert result.verdict == DIVERGED
    assert result.divergence.pair.key == "gradient_1 fc.weight"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_side_that_is_random_in_train_mode_is_told_and_not_judged(bench, side):
    options = {f"{side}_options": {"random": {DOUBLE: "two passes differ"}, "runs": [f"{NATIVE}:eval", f"{DOUBLE}:eval"]}}
    result = run(bench, [step()], [step()], ("eval", "train"), **options)
    assert result.verdict == ALIGNED
    (warning,) = result.warnings
    assert (
        warning
        == "steps in train mode were not compared: the model draws random numbers there, and what is random cannot be watched on both sides"
    )
    assert not any("(train)" in p.key for p in result.pairs)


def test_a_schedule_alone_does_not_make_steps_aligned_that_were_not_compared():
    result = StageResult("backward", ALIGNED)
    backward._require_steps(result, {})
    assert result.verdict == UNDERPOWERED
    assert any("no training step was compared" in warning for warning in result.warnings)


def test_a_candidate_without_float64_in_train_mode_alone_is_judged_there_in_another_way(bench):
    options = {"runs": [f"{DOUBLE}:eval", f"{NATIVE}:eval", f"{NATIVE}:train"], "failed": {f"{DOUBLE}:train": "RuntimeError: no kernel"}}
    result = run(bench, [step()], [step()], ("eval", "train"), candidate_options=options)
    assert result.verdict == ALIGNED, {p.key: p.notes for p in result.pairs if p.verdict == DIVERGED}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"functions": ["build_model", "build_optimizer"]}, "neither side has loss(outputs, labels)"),
        ({"trains": False}, "the reference's framework torch has no gradients"),
    ],
)
def test_what_the_stage_needs_is_told(bench, change, told):
    context = bench.context(None, None)
    for about in context.about.values():
        vars(about).update(change)
    result = backward.run(context)
    assert result.verdict == NOT_TESTED
    assert told in result.notes


def test_without_an_optimizer_one_pass_is_judged(bench):
    aligned, wrong = (run(bench, [step()], [trace], optimizer=False, steps=3) for trace in (step(), step(2 * WEIGHT)))
    assert aligned.verdict == ALIGNED
    assert wrong.verdict == DIVERGED
    assert "neither side has build_optimizer(model): no update was tested" in aligned.notes
    assert not any(p.key.startswith("gradient_1") for p in aligned.pairs)


def test_without_inputs_it_says_how_to_give_them(bench):
    result = backward.run(bench.context(None, None))
    assert result.verdict == NOT_TESTED
    assert result.notes == ["no inputs: define inputs() in the reference, or set [inputs]"]


def test_weights_must_have_been_carried_over(bench):
    context = bench.context(None, None)
    context.plan = None
    with pytest.raises(AssertionError, match="carried over"):
        Steps(context, None, None, FLOAT64, "eval")


# -- where it starts -------------------------------------------------------------------------------------------------------------


def pair(key, verdict, *, counted=True):
    what, _, rest = key.partition("_")
    step, _, name = rest.partition(" ")
    role = "gradient" if what == "gradient" else "scalar"
    record = Record(0, name or what, "backward", role, "float32", (), run=f"{DOUBLE}:eval", step=int(step))
    return Pair(key, record, None, verdict=verdict, judged=counted)


def test_gradients_of_the_first_wrong_step_are_searched_from_the_loss():
    pairs = [
        pair("loss_0", ALIGNED),
        pair("gradient_0 a", DIVERGED),
        pair("gradient_0 b", DIVERGED),
        pair("gradient_0 c", ALIGNED),
        pair("gradient_1 d", DIVERGED),
    ]
    found = first_wrong(StageResult("backward", pairs=pairs))
    assert found.pair.key == "gradient_0 b"
    assert found.last_agreeing == "loss_0"
    assert found.candidate is None


def test_the_first_wrong_of_many_steps_is_no_other_whose_number_begins_alike():
    later = [pair("lr_1", ALIGNED), *(pair(f"loss_{n}", DIVERGED) for n in (10, 11, 12))]
    assert where_it_starts._steps_before(StageResult("backward"), later) == 10
    assert (
        where_it_starts._steps_before(StageResult("backward"), [*later, pair("gradient_10 fc", DIVERGED), pair("gradient_2 fc", DIVERGED)])
        == 2
    )
    assert where_it_starts._steps_before(StageResult("backward"), [*later, pair("gradient_0 fc", DIVERGED)]) == 0
    assert where_it_starts._steps_before(StageResult("backward"), [pair("lr_1", DIVERGED)]) is None


def test_pairs_that_are_not_judged_start_nothing():
    assert first_wrong(StageResult("backward", pairs=[pair("loss_0", DIVERGED, counted=False), pair("lr_0", ALIGNED)])) is None


def test_the_norm_of_a_pair():
    stats = Stats(count=4, rms_reference=3.0)
    assert step_pairs._norm(Pair("x", None, None, stats=stats)) == 3.0 * math.sqrt(4)
    assert step_pairs._norm(Pair("x", None, None)) == 0
