"""Metrics in depth: probes as measured, each side's own evaluation, and metrics that keep a state."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.worker.sides.stateful import instance, is_stateful

WEIGHT = np.random.RandomState(3).randn(6, 3).astype("float32")


def samples(count=30):
    random = np.random.RandomState(1)
    x = random.randn(count, 6).astype("float32")
    return x, (x @ WEIGHT + random.randn(count, 3)).argmax(1)


def batches(count=30, size=8):
    x, y = samples(count)
    return [(x[i : i + size], y[i : i + size]) for i in range(0, count, size)]


class Model:
    def __init__(self, scale=1.0):
        self.parameters = {"weight": WEIGHT * scale}

    def __call__(self, x):
        return x @ self.parameters["weight"]


def accuracy(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).mean()) if len(labels) else 0.0}


def side(metric=accuracy, loader=batches, labels=None, **more):
    given = [(x, labels(y)) for x, y in loader()] if labels else loader()
    return Side(framework="numpy", model=Model(), metric=metric, dataloader=lambda _: given, **more)


def judged(one, other):
    return check(one, other, stages=["metric"])["metric"]


# -- probes ------------------------------------------------------------------------------------------------------------------------


def fixed_size(outputs, labels):
    """Divides by a batch size that was written down."""
    return {"accuracy": float((outputs.argmax(1) == labels).sum() / (len(labels) if len(labels) in (30, 8, 6) else 32))}


def squeezed(outputs, labels):
    """A squeeze too much, which shows on one sample."""
    outputs = outputs.squeeze()
    return {"accuracy": float(np.mean(np.atleast_1d(outputs.argmax(-1) == labels))) if outputs.ndim > 1 else 0.5}


def overflowing(outputs, labels):
    with np.errstate(all="ignore"):
        share = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    return {"loss": float(-np.log(share[np.arange(len(labels)), labels] + np.float32(1e-30)).mean()) if len(labels) else 0.0}


def stable(outputs, labels):
    shifted = outputs - outputs.max(1, keepdims=True) if len(labels) else outputs
    share = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    return {"loss": float(-np.log(share[np.arange(len(labels)), labels] + np.float32(1e-30)).mean()) if len(labels) else 0.0}


def hides_nan(outputs, labels):
    return {"mean": float(np.nanmean(outputs)) + 0 * len(labels)}


def shows_nan(outputs, labels):
    return {"mean": float(np.mean(outputs)) + 0 * len(labels)}


@pytest.mark.parametrize(
    ("one", "other", "verdict", "told"),
    [
        (accuracy, fixed_size, DIVERGED, "probe_partial_batch.accuracy: on a batch that is not full"),
        (accuracy, squeezed, ALIGNED, "probe_one_sample.accuracy: on a single sample"),
        (stable, overflowing, ALIGNED, "probe_extreme.loss: on scores so large that exp() of them overflows"),
        (shows_nan, hides_nan, ALIGNED, "probe_nan.mean: where one output is NaN"),
    ],
)
def test_what_only_rare_batches_show_is_found_by_a_probe(one, other, verdict, told):
    stage = judged(side(one), side(other))
    assert stage.verdict == verdict
    assert any(text.startswith(told) for text in [*stage.warnings, *stage.notes]), (stage.warnings, stage.notes)


def chosen(bound):
    """The share of scores above a bound."""

    def metric(outputs, labels):
        return {"share": float((outputs[:, 1] > bound).mean()) if len(labels) else 0.0}

    return metric


def gap():
    """Two bounds between which no real score lies, the widest apart."""
    scores = np.sort((samples()[0] @ WEIGHT)[:, 1])
    place = int(np.argmax(np.diff(scores)))
    return float(scores[place]) + 1e-3, float(scores[place + 1]) - 1e-3


def test_thresholds_that_no_real_score_lies_between_are_told_apart():
    low, high = gap()
    stage = judged(side(chosen(low)), side(chosen(high)))
    assert any(said.startswith("probe_sized.share: on scores of several sizes") for said in stage.warnings), stage.warnings
    assert not judged(side(chosen(low)), side(chosen(low))).warnings


def test_probabilities_are_not_made_larger():
    def outputs(bound):
        class Shares(Model):
            def __call__(self, x):
                share = np.exp(x @ self.parameters["weight"])
                return share / share.sum(1, keepdims=True)

        return Side(framework="numpy", model=Shares(), metric=chosen(bound), dataloader=lambda _: batches())

    stage = judged(outputs(0.5), outputs(0.5))
    assert stage.verdict == ALIGNED
    assert not any("probe_sized" in pair.key for pair in stage.pairs)


def ignoring(value):
    def metric(outputs, labels):
        keep = labels != value
        return {"accuracy": float((outputs.argmax(1) == labels)[keep].mean()) if keep.any() else 0.0}

    return metric


def test_samples_to_be_ignored_are_probed_with_the_labels_own_number():
    def some(y):
        return np.where(np.arange(len(y)) == 2, -100, y)

    right = judged(side(ignoring(-100), labels=some), side(ignoring(-100), labels=some))
    assert (right.verdict, right.warnings) == (ALIGNED, [])
    assert any(p.key == "probe_mostly_ignored.accuracy" for p in right.pairs)
    assert judged(side(ignoring(-100), labels=some), side(accuracy, labels=some)).verdict == DIVERGED


@pytest.mark.parametrize("metric", [accuracy, stable, hides_nan, squeezed])
def test_right_ports_are_not_warned_about(metric):
    stage = judged(side(metric), side(metric))
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])


def test_outputs_with_time_first_are_not_probed_and_it_is_said():
    def first(count=3):
        x = np.random.RandomState(0).randn(count, 7, 4, 6).astype("float32")
        return [(x[n], np.arange(4) % 3) for n in range(count)]

    def metric(outputs, labels):
        return float((outputs.mean(0).argmax(1) == labels).mean())

    stage = judged(side(metric, loader=first), side(metric, loader=first))
    assert (stage.verdict, stage.warnings) == (ALIGNED, [])
    assert "the metric was not probed: the samples do not lie along the first axis of all outputs and labels" in stage.notes


# -- own evaluations ---------------------------------------------------------------------------------------------------------------


def test_each_sides_own_evaluation_stands_beside_the_other_with_its_samples():
    stage = judged(side(), side())
    assert any(note.startswith("each side's own evaluation (reference / candidate): accuracy 0.") for note in stage.notes)
    assert [p.reference.text for p in stage.pairs if p.key == "own_samples"] == ["30"]
    assert "30 samples evaluated" in [str(c) for c in stage.coverage]


def groups(swapped=False, dropped=0):
    """Batches with a label for each of eight elements and one for each pair of them, the leaves in either order."""
    found = []
    for x, y in batches(32)[: 4 - dropped]:
        labels = {"pair": y[::2], "element": y}
        found.append((x, dict(reversed(labels.items())) if swapped else labels))
    return found


def of_groups(outputs, labels):
    guess = outputs.argmax(1)
    return {"element": float((guess == labels["element"]).mean()), "pair": float((guess[::2] == labels["pair"]).mean())}


@pytest.mark.parametrize(("dropped", "verdict"), [(0, ALIGNED), (1, DIVERGED)])
def test_labels_of_several_lengths_may_stand_in_another_order(dropped, verdict):
    stage = judged(side(of_groups, loader=groups), side(of_groups, loader=lambda: groups(swapped=True, dropped=dropped)))
    assert stage.verdict == verdict, stage.findings
    told = [(p.reference.text, p.candidate.text) for p in stage.pairs if p.key == "own_samples"]
    assert told == [("16", str(16 - 4 * dropped))]


def test_labels_of_one_leaf_fewer_are_seen_among_several():
    def fewer():
        return [(x, {**labels, "pair": labels["pair"][:-1]}) for x, labels in groups(swapped=True)]

    def first_pairs(outputs, labels):
        return {"pair": float((outputs.argmax(1)[::2][: len(labels["pair"])] == labels["pair"]).mean())}

    stage = judged(side(first_pairs, loader=groups), side(first_pairs, loader=fewer))
    assert [(p.reference.text, p.candidate.text) for p in stage.pairs if p.key == "own_samples"] == [("16", "12")]
    assert stage.verdict == DIVERGED


def test_a_loader_that_drops_samples_is_found_by_their_number():
    stage = judged(side(), side(loader=lambda: batches()[:-1]))
    assert stage.verdict == DIVERGED
    assert next(f.rule for f in stage.findings) == "metric/samples"
    assert "30 samples in the reference, 24 in the candidate" in stage.findings[0].cause


def test_another_normalisation_in_the_candidates_loader_shows_in_its_evaluation():
    stage = judged(side(), side(loader=lambda: [(-x, y) for x, y in batches()]))
    assert stage.verdict == DIVERGED
    assert [f.rule for f in stage.findings] == ["metric/evaluation"]
    assert "agree on the reference's outputs" in stage.findings[0].cause


def halved(outputs, labels):
    return {"accuracy": accuracy(outputs, labels)["accuracy"] / 2}


def test_an_own_evaluation_that_one_side_cannot_do_is_an_error_and_hides_nothing():
    narrow = [(x[:, :5], y) for x, y in batches()]
    stage = judged(side(), side(loader=lambda: narrow))
    assert stage.verdict == ERROR
    assert (stage.failure["side"], stage.failure["type"]) == ("candidate", "ValueError")
    wrong = judged(side(), side(loader=lambda: narrow, metric=halved))
    assert wrong.verdict == DIVERGED


def ragged(wrong=None, count=4):
    """Sequences of another length in every batch, as padding makes them; ``wrong`` is the number of one with other inputs."""
    random = np.random.RandomState(5)
    found = []
    for number in range(count):
        x = random.randn(3, 4 + number, 6).astype("float32")
        found.append((-x if number == wrong else x, (x @ WEIGHT).argmax(-1)))
    return found


def hits(outputs, labels):
    return {"hits": float((outputs.argmax(-1) == labels).mean()) if labels.size else 0.0}


def test_batches_that_cannot_be_joined_are_compared_one_by_one_and_counted():
    right = judged(side(hits, ragged), side(hits, ragged))
    assert right.verdict == ALIGNED, (right.failure, right.warnings)
    assert [str(part) for part in right.coverage if "evaluated" in part.what] == ["4 batches evaluated one by one", "12 samples evaluated"]
    assert any("means of 4 batches" in note for note in right.notes)
    assert any("hits 1 / 1, over 12 / 12 samples" in note for note in right.notes)
    for number in range(4):
        stage = judged(side(hits, ragged), side(hits, lambda number=number: ragged(number)))
        assert stage.verdict == DIVERGED, number


def test_a_batch_without_a_figure_is_not_counted():
    def refusing(outputs, labels):
        if labels.shape[-1:] == (5,):
            raise ValueError("five are not counted")
        return hits(outputs, labels)

    stage = judged(side(refusing, ragged), side(refusing, ragged))
    assert "3 of 4 batches evaluated one by one" in [str(part) for part in stage.coverage]
    assert "9 samples evaluated" in [str(part) for part in stage.coverage]


class Drawing(Model):
    """Adds noise in eval mode too; ``waste`` numbers of the generator are drawn first, as another framework's stream differs."""

    def __init__(self, noise=0.3, waste=0, bias=0.0):
        super().__init__()
        self.noise, self.waste, self.bias = noise, waste, bias

    def __call__(self, x):
        np.random.rand(self.waste)  # noqa: NPY002 - what sides are seeded with
        return super().__call__(x) + self.noise * np.random.randn(len(x), 3) + self.bias  # noqa: NPY002


def error(outputs, labels):
    return {"error": float(np.mean(np.asarray(outputs)[np.arange(len(labels)), labels])) if len(labels) else 0.0}


def drawn(one, other):
    sides = [Side(framework="numpy", model=model, metric=error, dataloader=lambda _: batches()) for model in (one, other)]
    return judged(*sides)


def test_evaluations_of_models_that_draw_in_eval_mode_are_judged_by_their_own_spread():
    stage = drawn(Drawing(), Drawing(waste=1))
    assert stage.verdict == ALIGNED
    assert any(note.startswith("the model draws random numbers in eval mode: 5 evaluations a side") for note in stage.notes)


@pytest.mark.parametrize("other", [Drawing(waste=1, bias=0.5), Drawing(noise=0.0, bias=0.5), Drawing(waste=1, bias=np.nan)])
def test_a_wrong_model_that_draws_is_not_excused(other):
    assert drawn(Drawing(), other).verdict == DIVERGED


def test_shuffled_batches_that_cannot_be_joined_are_told_as_the_loaders_doing():
    def loader(waste):
        np.random.rand(waste)  # noqa: NPY002 - what programs draw from
        x, y = samples()
        order = np.random.permutation(len(x)).reshape(5, 6)  # noqa: NPY002 - as above
        return [(x[some], {"class": y[some], "width": np.zeros((6, n + 1))}) for n, some in enumerate(order)]

    def metric(outputs, labels):
        return error(outputs, labels["class"])

    sides = [Side(framework="numpy", model=Model(), metric=metric, dataloader=lambda _, w=waste: loader(w)) for waste in (0, 3)]
    stage = check(*sides, stages=["forward", "metric"], inputs=samples()[0])["metric"]
    assert stage.verdict == ALIGNED, stage.findings
    assert any(note.startswith("the model draws nothing in eval mode, but its loader gives other batches: 5") for note in stage.notes), (
        stage.notes
    )


# -- metrics that keep a state -----------------------------------------------------------------------------------------------------


class Torches:
    """As torchmetrics: update, compute, reset; callable."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.right = self.count = 0

    def update(self, preds, target):
        self.right += int((preds.argmax(1) == target).sum())
        self.count += len(target)

    def compute(self):
        return np.float64(self.right / max(1, self.count))

    def __call__(self, preds, target):
        raise AssertionError("forward keeps a state of its own")


class Paddles:
    """As paddle.metric: compute, update, accumulate, reset, name; not callable."""

    forgetful = False

    def __init__(self):
        self.reset()

    def reset(self):
        self.shares, self.counts = [], []

    def compute(self, pred, label):
        return pred.argmax(1) == label

    def update(self, correct):
        self.shares.append(correct.mean() if len(correct) else 0.0)
        self.counts.append(len(correct))

    def accumulate(self):
        weights = np.ones(len(self.counts)) if self.forgetful else np.array(self.counts)
        return [float((np.array(self.shares) * weights).sum() / max(1, weights.sum()))]

    def name(self):
        return ["accuracy"]


class MeanOfBatches(Paddles):
    forgetful = True


def named(outputs, labels):
    return {"accuracy": accuracy(outputs, labels)["accuracy"]}


def make():
    return Paddles()


@pytest.mark.parametrize("metric", [Paddles(), Paddles, make])
def test_an_object_a_class_and_a_function_that_makes_one_are_taken(metric):
    assert type(instance(metric)) is Paddles


def test_plain_functions_are_no_stateful_metrics():
    assert instance(accuracy) is None
    assert instance(lambda: 3) is None
    assert not is_stateful({})


def test_stateful_metrics_of_both_kinds_are_compared_over_the_batches():
    class Both(Torches):
        def compute(self):
            return {"accuracy": super().compute()}

    stage = judged(side(Both()), side(Paddles()))
    assert stage.verdict == ALIGNED, [(p.key, p.verdict, p.notes) for p in stage.pairs]
    assert any(p.key == "running.accuracy" and p.judged for p in stage.pairs)
    assert stage.warnings == []


def test_a_state_that_averages_over_batches_is_found_where_single_batches_agree():
    stage = judged(side(Paddles()), side(MeanOfBatches()))
    assert stage.verdict == DIVERGED
    wrong = [p.key for p in stage.pairs if p.verdict == DIVERGED and p.judged]
    assert "running.accuracy" in wrong
    assert not [key for key in wrong if key.startswith("batch_")]
