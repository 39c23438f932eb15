"""Data, metric and infer on live numpy sides: verdicts, the first difference, warnings, notes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from paralign.adapters.numpy import NumpyAdapter
from paralign.api import check
from paralign.dtypes import EPS
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Coverage, Side

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(8, 6).astype("float32")
LABELS = np.arange(8) % 3
W = RANDOM.randn(6, 3).astype("float32")


def model(x):
    return x @ W.astype(x.dtype)


def run(reference, candidate, *stages, **options):
    sides = [Side(framework="numpy", **(s if isinstance(s, dict) else {"model": s})) for s in (reference, candidate)]
    result = check(*sides, stages=list(stages) or ["forward"], **{"inputs": X, "labels": LABELS, **options})
    json.loads(result.to_json())
    return result if len(stages) > 1 else result.stages[0]


# -- data ------------------------------------------------------------------------------------------------------------------------


class Samples(list):
    transform = None

    def __getitem__(self, index):
        x = list.__getitem__(self, index)
        return self.transform(x) if self.transform else x


def scale(x):
    return x / 255


def shift(x):
    return x - 0.5


def samples(count=5, transforms=(scale, shift), wrong=None):
    found = Samples(np.arange(6, dtype=np.float32) + n + (0.5 if n == wrong else 0) for n in range(count))

    def composed(x):
        for transform in transforms:
            x = transform(x)
        return x

    found.transform = composed
    return found


def data(dataset=None, transforms=(scale, shift), loader=None):
    side = {"dataset": lambda _: samples(transforms=transforms) if dataset is None else dataset, "transforms": lambda _: list(transforms)}
    return {**side, **({"dataloader": lambda _: loader} if loader is not None else {})}


def test_equal_data_are_aligned():
    result = run(data(), data(), "data")
    assert (result.verdict, result.method) == (ALIGNED, "rounding")
    assert [p.key for p in result.pairs][:5] == ["length", "sample_0.raw", "sample_0.transform_0", "sample_0.transform_1", "sample_0"]
    assert result.notes[0] == "neither side has build_dataloader(split)"


def test_the_first_transform_that_differs_is_named():
    def shifted(x):
        return x - 0.51

    result = run(data(), data(transforms=(scale, shifted)), "data")
    divergence = result.divergence
    assert (divergence.reference.name, divergence.reference.op, divergence.candidate.op) == ("sample_0.transform_1", "shift", "shifted")
    assert (divergence.reference.code, divergence.candidate.code) == ("return x - 0.5", "return x - 0.51")
    assert divergence.candidate.source == f"{__file__}:{shifted.__code__.co_firstlineno + 1}"
    assert divergence.last_agreeing.startswith(f"scale at {__file__}:")


def test_the_first_sample_that_differs_is_named():
    divergence = run(data(), data(samples(wrong=2)), "data").divergence
    assert (divergence.candidate.name, divergence.last_agreeing) == ("sample_2.raw", "sample_1")


def test_a_shorter_data_set_diverges():
    result = run(data(samples(5)), data(samples(4)), "data")
    pairs = {p.key: p for p in result.pairs}
    assert (result.verdict, pairs["length"].verdict, result.divergence.pair.key) == (DIVERGED, DIVERGED, "length")


def test_a_transform_too_many_diverges():
    result = run(data(), data(transforms=(scale, shift, shift)), "data")
    assert {p.key: p.notes for p in result.pairs}["sample_0.transform_2"] == ["missing in the reference"]


def test_without_transforms_on_one_side_they_are_not_looked_at():
    other = {"dataset": lambda _: samples()}
    result = run(data(), other, "data")
    assert result.verdict == ALIGNED
    assert not any("transform" in p.key or "raw" in p.key for p in result.pairs)


def batches(count=5, last=3, wrong=None):
    return [(np.full((last if n == count - 1 else 4, 2), n + (n == wrong), np.float32), np.arange(4)) for n in range(count)]


@pytest.mark.parametrize(
    ("candidate", "first"),
    [(batches(wrong=1), "dataloader_1.0"), (batches(wrong=4), "dataloader_last.0"), (batches(last=4), "dataloader_last.0"), (batches(4, 4), "dataloader_last.0")],
    ids=["a batch", "the last batch", "its size", "a batch less"],
)  # fmt: skip
def test_the_first_batch_that_differs_is_named(candidate, first):
    result = run(data(loader=batches()), data(loader=candidate), "data")
    assert (result.verdict, result.divergence.pair.key) == (DIVERGED, first)


def test_a_loader_is_followed_to_its_last_batch():
    endless = [(np.zeros((1, 2)), np.zeros(1))] * 100
    result = run(data(loader=endless), data(loader=endless), "data")
    assert result.verdict == ALIGNED
    assert Coverage("batches", 100, 100) in result.coverage


def test_an_empty_data_set_is_an_error_of_its_side():
    result = run(data(), data(samples(0)), "data")
    assert (result.verdict, result.failure["side"]) == (ERROR, "candidate")
    assert "is empty" in result.failure["message"]


def test_texts_and_integers_among_samples_are_exact():
    def rows(name):
        return {"dataset": lambda _: [(np.float32(1), 3, name)]}

    assert run(rows("cat"), rows("cat"), "data").verdict == ALIGNED
    result = run(rows("cat"), rows("dog"), "data")
    assert result.divergence.pair.notes == ["text 'cat' against 'dog'"]


def test_without_data_it_says_what_is_missing():
    result = run(model, model, "data")
    assert (result.verdict, result.notes) == (
        NOT_TESTED,
        ["neither side has build_dataset(split)", "neither side has build_dataloader(split)"],
    )


# -- metric --------------------------------------------------------------------------------------------------------------------


def accuracy(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).mean())}


def metric(function, **more):
    return {"model": model, "metric": function, **more}


def test_equal_metrics_are_aligned():
    result = run(metric(accuracy), metric(accuracy), "metric")
    assert (result.verdict, result.warnings) == (ALIGNED, [])
    assert [p.key for p in result.pairs if p.judged] == ["batch_0.accuracy", "batch_1.accuracy", "all.accuracy"]


def test_a_metric_that_sums_over_batches_is_seen_on_all_joined():
    def summed(outputs, labels):
        return {"accuracy": float((outputs.argmax(1) == labels).sum() / 4)}

    result = run(metric(accuracy), metric(summed), "metric")
    assert result.verdict == DIVERGED
    assert [p.key for p in result.pairs if p.judged and p.verdict == DIVERGED] == ["all.accuracy"]
    assert result.divergence.pair.key == "all.accuracy"


def test_both_metrics_get_the_references_outputs():
    result = run(metric(accuracy), {"model": lambda x: -model(x), "metric": accuracy}, "metric")
    assert result.verdict == ALIGNED


def _uneven(split):
    return [(X[:6], LABELS[:6]), (X[6:], LABELS[6:])]


def _top(least, wrong=0.0):
    def top(outputs, labels):
        if len(outputs) < least:
            raise ValueError(f"{least} of {len(outputs)} samples")
        return {"top": float((outputs.argmax(1) == labels)[:least].mean()) + wrong}

    return top


def test_a_batch_too_small_for_the_metric_is_left_out_and_told():
    result = run(metric(_top(3), dataloader=_uneven), metric(_top(3), dataloader=_uneven), "metric")
    assert result.verdict == ALIGNED
    assert [p.key for p in result.pairs if p.judged] == ["batch_0.top", "all.top"]
    assert [(c.compared, c.total) for c in result.coverage if c.what == "batches with a metric"] == [(1, 2)]
    assert "the reference's metric fails on batch 1 (ValueError: 3 of 2 samples), as the candidate's does: left out" in result.notes


def test_and_what_differs_on_the_others_is_still_found():
    result = run(metric(_top(3), dataloader=_uneven), metric(_top(3, wrong=0.01), dataloader=_uneven), "metric")
    assert result.verdict == DIVERGED


def test_a_metric_that_fails_in_the_port_alone_is_its_failure():
    result = run(metric(_top(1), dataloader=_uneven), metric(_top(3), dataloader=_uneven), "metric")
    assert result.verdict == ERROR
    assert (result.failure["side"], result.failure["message"]) == ("candidate", "3 of 2 samples")


def test_a_metric_that_fails_on_every_batch_is_an_error():
    result = run(metric(_top(9), dataloader=_uneven), metric(_top(9), dataloader=_uneven), "metric")
    assert (result.verdict, result.failure["message"]) == (ERROR, "9 of 2 samples")


def test_inputs_that_are_not_batched_first_are_not_halved():
    def graph(x, edges):
        return x + x[edges[0]].sum() + x[edges[1]].sum()

    edges = np.array([[0, 1, 2], [3, 4, 5]])
    side = {"model": graph, "metric": accuracy}
    result = run(side, side, "metric", inputs={"x": X, "edges": edges}, labels=np.arange(len(X)) % 3)
    assert (result.verdict, result.failure) == (ALIGNED, None)
    assert [p.key for p in result.pairs if p.judged] == ["batch_0.accuracy", "all.accuracy"]


def test_batches_whose_samples_lie_along_another_axis_are_not_joined():
    def turned(x):
        return model(x).T  # classes first

    def by_column(outputs, labels):
        return {"accuracy": float(np.mean([outputs[:, n].argmax() == label for n, label in enumerate(labels)]))}

    class Loader:
        def __iter__(self):
            return iter([(X[:4], LABELS[:4]), (X[4:], LABELS[4:])])

    side = {"model": turned, "metric": by_column, "dataloader": lambda split: Loader()}  # noqa: ARG005 - the name is the contract
    result = run(side, side, "metric")
    assert (result.verdict, result.failure) == (ALIGNED, None)
    assert [p.key for p in result.pairs if p.judged] == ["batch_0.accuracy", "batch_1.accuracy"]


def area(total):
    """The area under the curve by a sum of ranks, in float32."""

    def metric(outputs, labels):
        ranks = np.empty(len(labels), np.float32)
        ranks[np.argsort(outputs[:, 0])] = np.arange(1, len(labels) + 1, dtype=np.float32) / np.float32(len(labels))
        share = np.float32(np.mean(labels))
        return {"area": (total(ranks[labels == 1]) / np.float32(len(labels)) - share * share / 2) / (share * (1 - share))}

    return metric


def test_what_rounding_does_to_the_references_own_metric_is_no_divergence():
    random = np.random.RandomState(1)
    given = {"inputs": random.randn(20_000, 6).astype("float32"), "labels": (random.rand(20_000) < 0.9).astype(int)}
    one_by_one = area(lambda ranks: np.cumsum(ranks, dtype=np.float32)[-1])
    right = run(metric(one_by_one), metric(area(np.sum)), "metric", **given)
    assert right.verdict == ALIGNED, [(p.key, p.error, p.ratio) for p in right.pairs]
    assert any(p.error > 10 * EPS["float32"] for p in right.pairs if p.judged)  # more than one rounding explains
    assert "how far rounding moves the reference's metric" in {p.noise.how for p in right.pairs}
    wrong = run(metric(one_by_one), metric(area(lambda ranks: np.sum(ranks) * np.float32(1.0005))), "metric", **given)
    assert wrong.verdict == DIVERGED


def test_a_decision_between_equal_scores_is_no_rounding():
    result = run(metric(accuracy), metric(last_of_equals), "metric", inputs=np.zeros((40, 6), np.float32), labels=np.zeros(40, int))
    assert result.verdict == DIVERGED


def last_of_equals(outputs, labels):
    return {"accuracy": float((outputs.shape[1] - 1 - outputs[:, ::-1].argmax(1) == labels).mean())}


def test_ties_that_no_real_sample_has_are_said_and_warn_of_nothing():
    result = run(metric(accuracy), metric(last_of_equals), "metric", inputs=np.tile(X, (5, 1)), labels=np.arange(40) % 3)
    assert (result.verdict, result.warnings) == (ALIGNED, [])
    told = next(n for n in result.notes if n.startswith("probe_ties.accuracy: on coarsely rounded scores, many of them equal, the metrics"))
    assert "with these told apart the metrics agree, and none of 40 real samples has equal best scores" in told
    assert not [p for p in result.pairs if p.key.startswith("probe") and p.judged]


def test_metrics_that_part_on_coarse_scores_without_ties_are_warned_about():
    def coarse(outputs, labels):
        near = np.abs(outputs / (np.abs(outputs).max() or 1) * 2 - np.round(outputs / (np.abs(outputs).max() or 1) * 2)).max() < 0.05
        return accuracy(np.roll(outputs, 1, 1) if near else outputs, labels)

    result = run(metric(accuracy), metric(coarse), "metric", inputs=np.tile(X, (5, 1)), labels=np.arange(40) % 3)
    assert any("they also do where no two scores are equal" in w for w in result.warnings), result.warnings


def as_they_are(function):
    """A metric of a model that hands on what it is given."""
    return {**metric(function), "model": lambda x: x}


def top(places):
    """The share of samples whose label is among the best scores."""

    def metric(outputs, labels):
        best = np.argsort(-outputs, axis=1)[:, :places]
        return {"top": float((best == labels[:, None]).any(1).mean())}

    return metric


@pytest.mark.parametrize(("places", "verdict"), [(2, ALIGNED), (3, UNDERPOWERED)])
def test_places_that_no_real_label_tells_apart_are_told_apart_by_ranked_ones(places, verdict):
    scores = np.random.RandomState(2).randn(64, 6).astype("float32")
    result = run(as_they_are(top(2)), as_they_are(top(places)), "metric", inputs=scores, labels=scores.argmax(1))
    assert result.verdict == verdict, [(p.key, p.notes) for p in result.pairs]
    said = [n for n in result.notes if "where the labels are the second, third, … best class, the metrics differ" in n]
    assert bool(said) == (verdict == UNDERPOWERED)


def test_ranked_labels_leave_out_masked_scores_and_labels_that_are_left_out():
    scores = np.random.RandomState(2).randn(64, 6).astype("float32")
    scores[:, 5] = -1e9
    labels = scores.argmax(1)
    labels[:8] = -100

    def mean(outputs, wanted, floor):
        kept = np.asarray(wanted) >= 0
        return {"mean": float(np.maximum(np.asarray(outputs)[kept, wanted[kept]], floor).mean())}

    result = run(
        as_they_are(lambda o, t: mean(o, t, -1e3)), as_they_are(lambda o, t: mean(o, t, -1e4)), "metric", inputs=scores, labels=labels
    )
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.pairs]


def test_ranked_labels_go_to_no_equal_scores_and_to_none_whose_softmax_is_clipped():
    random = np.random.RandomState(4)
    scores = np.maximum(random.randn(64, 40) - 1, 0).astype("float32")  # most are equal
    labels = random.randint(0, 40, 64)
    scores[np.arange(64), labels] += 3

    def first(outputs, wanted, way):
        best = np.argsort(-outputs[:, ::way], axis=1, kind="stable")[:, :5]
        return {"top": float(((best if way == 1 else 39 - best) == wanted[:, None]).any(1).mean())}

    result = run(
        as_they_are(lambda o, t: first(o, t, 1)), as_they_are(lambda o, t: first(o, t, -1)), "metric", inputs=scores, labels=labels
    )
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.pairs]

    def entropy(outputs, wanted, least):
        logarithms = outputs - outputs.max(1, keepdims=True)
        logarithms = np.maximum(logarithms, least) - np.log(np.exp(np.maximum(logarithms, least)).sum(1, keepdims=True))
        return {"entropy": float(-logarithms[np.arange(len(wanted)), wanted].mean())}

    large = (random.randn(64, 10) * 40).astype("float32")
    sides = [as_they_are(lambda o, t, least=least: entropy(np.asarray(o), t, least)) for least in (-1e9, -64.0)]
    result = run(*sides, "metric", inputs=large, labels=large.argmax(1))
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.pairs]


def test_ranked_labels_where_most_scores_are_masked_and_of_complex_results():
    scores = np.random.RandomState(2).randn(64, 8).astype("float32")
    scores[:, 3:] = -1e9

    def mean(outputs, wanted, floor):
        return {
            "mean": float(np.maximum(np.asarray(outputs)[np.arange(len(wanted)), wanted], floor).mean()),
            "whole": complex(len(wanted), 1),
        }

    sides = [as_they_are(lambda o, t, floor=floor: mean(o, t, floor)) for floor in (-1e3, -1e2)]
    result = run(*sides, "metric", inputs=scores, labels=scores.argmax(1))
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.pairs]


def test_ranked_labels_are_not_tried_where_a_class_would_lose_all_its_samples():
    def of_classes(outputs, labels, empty):
        hits = outputs.argmax(1) == labels
        return {"mean": float(np.mean([hits[labels == c].mean() if (labels == c).any() else empty for c in range(3)]))}

    scores = np.eye(3, dtype="float32")[[0, 1, 2, 0, 1, 2]] + np.float32([3, 0, 0])  # the third class is the best of no sample but its own
    result = run(
        as_they_are(lambda o, t: of_classes(o, t, 0)),
        as_they_are(lambda o, t: of_classes(o, t, 1)),
        "metric",
        inputs=scores,
        labels=np.array([0, 1, 2, 0, 1, 2]),
    )
    assert result.verdict == ALIGNED, [(p.key, p.notes) for p in result.pairs]


def test_probes_say_nothing_of_metrics_that_differ_on_the_real_scores():
    def shifted(outputs, labels):
        return {"accuracy": accuracy(outputs, labels)["accuracy"] + 0.5}

    result = run(metric(accuracy), metric(shifted), "metric", inputs=np.tile(X, (5, 1)), labels=np.arange(40) % 3)
    assert (result.verdict, result.warnings) == (DIVERGED, [])


def test_empty_classes_only_warn():
    def mean_of_classes(outputs, labels, empty):
        hits = outputs.argmax(1) == labels
        return {"mean": float(np.mean([hits[labels == c].mean() if (labels == c).any() else empty for c in range(3)]))}

    result = run(
        metric(lambda o, t: mean_of_classes(o, t, 0)),
        metric(lambda o, t: mean_of_classes(o, t, 1)),
        "metric",
        labels=np.array([0, 1, 2, 0, 0, 1, 2, 1]),
    )
    assert result.verdict == ALIGNED
    assert [w for w in result.warnings if w.startswith("probe_one_class.mean: where only one class occurs the metrics differ")]


def refuses_one_class(outputs, labels):
    if len(set(labels.tolist())) == 1:
        raise ValueError("one class")
    return accuracy(outputs, labels)


def test_a_probe_that_neither_side_stands_is_nothing():
    assert run(metric(refuses_one_class), metric(refuses_one_class), "metric").warnings == []


@pytest.mark.parametrize(("sides", "who"), [((accuracy, refuses_one_class), "candidate"), ((refuses_one_class, accuracy), "reference")])
def test_a_probe_that_one_side_refuses_is_warned_about(sides, who):
    result = run(metric(sides[0]), metric(sides[1]), "metric")
    assert result.verdict == ALIGNED
    told = f"the {who}'s metric fails on the probe 'one_class' (ValueError: one class), the other side's does not"
    assert told in result.warnings


def test_a_refused_probe_is_told_once():
    assert len(run(metric(accuracy), metric(refuses_one_class), "metric").warnings) == 1


def test_a_number_that_was_computed_in_float32_is_as_good_as_one_in_float64():
    single = metric(lambda o, t: float((o.argmax(1) == t).astype(np.float32).mean() / np.float32(3)))
    double = metric(lambda o, t: float((o.argmax(1) == t).mean() / 3))
    assert run(single, double, "metric").verdict == ALIGNED


def test_without_labels_it_says_how_to_give_them():
    result = run(metric(accuracy), metric(accuracy), "metric", labels=None)
    assert (result.verdict, result.notes[0][:9]) == (NOT_TESTED, "no labels")


def test_labels_come_from_the_references_loader():
    loader = [(X[:3], LABELS[:3]), (X[3:], LABELS[3:])]
    result = run(metric(accuracy, dataloader=lambda _: loader), metric(accuracy), "metric", inputs=None, labels=None)
    assert result.verdict == ALIGNED
    assert len([p for p in result.pairs if p.key.startswith("batch")]) == 2


# -- infer -----------------------------------------------------------------------------------------------------------------------


def program(scale=1.0, name="cat"):
    def predict(path, network):
        return {"scores": network(X[:2]) * np.float32(scale), "name": name, "size": len(Path(path).read_text())}

    return {"model": model, "predict": predict}


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "one.txt").write_text("1")
    (tmp_path / "two.txt").write_text("22")
    return [str(tmp_path / "one.txt"), str(tmp_path / "two.txt")]


def test_predictions_are_compared_path_by_path(paths):
    result = run(program(), program(1 + 1e-7), "infer", paths=paths)
    assert (result.verdict, result.method) == (ALIGNED, "native")
    assert [p.key for p in result.pairs] == [f"predict_{n}.{k}" for n in (0, 1) for k in ("scores", "name", "size")]


@pytest.mark.parametrize(("candidate", "first"), [(program(1.001), "predict_0.scores"), (program(name="dog"), "predict_0.name")])
def test_another_prediction_diverges(paths, candidate, first):
    result = run(program(), candidate, "infer", paths=paths)
    assert (result.verdict, result.divergence.pair.key) == (DIVERGED, first)


def test_predictions_are_as_noisy_as_the_models_outputs(paths):
    def noisy(x):
        return model(x) * (1 + (1e-3 if x.dtype == np.float32 else 0)) + x.dtype.type(0)

    sides = [{**program(s), "model": noisy} for s in (1, 1.002)]
    assert run(*sides, "infer", paths=paths).verdict == ALIGNED
    assert run(*sides, "infer", paths=paths, inputs=None).verdict == DIVERGED


def test_without_inputs_a_hundred_roundings_are_granted(paths):
    for factor, verdict in ((1 + 5e-6, ALIGNED), (1 + 1e-3, DIVERGED)):
        assert run(program(), program(factor), "infer", paths=paths, inputs=None).verdict == verdict


def test_without_paths_it_says_so():
    result = run(program(), program(), "infer")
    assert result.verdict == NOT_TESTED
    assert "no paths to predict from: set [infer] paths" in result.notes


def test_a_path_that_is_not_there_is_told(tmp_path):
    result = run(program(), program(), "infer", paths=[str(tmp_path / "nowhere.png")])
    assert result.verdict == ERROR
    assert "a path to predict from is not there" in result.failure["message"]


def test_without_predict_and_export_it_says_what_is_missing():
    result = run(model, model, "infer")
    assert (result.verdict, result.notes) == (
        NOT_TESTED,
        ["neither side has predict(path) or predict(path, model)", "neither side has export(model, path)"],
    )


def test_a_framework_without_exported_programs_is_told():
    side = {"model": model, "export": lambda _, path: path}
    result = run(side, side, "infer")
    assert result.verdict == NOT_TESTED
    assert "reference: export: framework numpy has no exported programs" in result.notes


def exporting(monkeypatch, program):
    """Sides of numpy that can run exported programs: ``program(inputs)``."""
    monkeypatch.setattr(NumpyAdapter, "run_exported", lambda _self, _path, inputs: program(*inputs), raising=False)
    return {"model": model, "export": lambda _, path: path}


def only_eight(x):
    if len(x) != 8:
        raise ValueError("Got: 1 Expected: 8")
    return model(x)


@pytest.mark.parametrize(
    ("program", "verdict", "wrong"),
    [
        (model, ALIGNED, []),
        (only_eight, ALIGNED, []),
        (
            lambda x: model(x) * np.float32(1 if len(x) > 1 else 1.01),
            DIVERGED,
            ["reference's export (batch of 1)", "candidate's export (batch of 1)"],
        ),
        (
            lambda x: model(x)[: min(len(x), 2)] if len(x) == 3 else model(x),
            DIVERGED,
            ["reference's export (batch of 3)", "candidate's export (batch of 3)"],
        ),
    ],
    ids=["right", "of one size", "wrong alone", "rows missing"],
)
def test_an_exported_program_is_tried_on_other_batches(monkeypatch, program, verdict, wrong):
    side = exporting(monkeypatch, program)
    result = run(side, side, "infer")
    assert (result.verdict, [p.key for p in result.pairs if p.verdict == DIVERGED]) == (verdict, wrong)
    said = "reference: export: compared" + (
        "; it takes no other batch size than that of the inputs (Got: 1 Expected: 8)" if program is only_eight else ""
    )
    assert said in result.notes
