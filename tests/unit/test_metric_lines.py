"""The line of a diverged metric: the first that makes something else of the same values, in the metric or in a helper of it."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

CLASSES = 3
WEIGHT = np.random.RandomState(3).randn(6, CLASSES).astype("float32")


def batches(count=30, size=8):
    random = np.random.RandomState(1)
    x = random.randn(count, 6).astype("float32")
    y = (x @ WEIGHT + random.randn(count, CLASSES)).argmax(1)
    return [(x[i : i + size], y[i : i + size]) for i in range(0, count, size)]


class Model:
    def __init__(self):
        self.parameters = {"weight": WEIGHT}

    def __call__(self, x):
        return x @ self.parameters["weight"]


def recall_of(hits, labels):
    """Share of the samples of each class that were found."""
    found = []
    for kind in range(CLASSES):
        mine = labels == kind
        found.append(hits[mine].mean() if mine.any() else 0.0)
    return np.array(found)


def reference(outputs, labels):
    exponent = np.exp(outputs - outputs.max(1, keepdims=True))
    share = exponent / exponent.sum(1, keepdims=True)
    chosen = np.take_along_axis(share, labels[:, None], 1)[:, 0]
    hits = outputs.argmax(1) == labels
    return {"loss": float(-np.log(chosen).mean()), "recall": float(recall_of(hits, labels).mean())}


def right(outputs, labels):
    """Written in another way, and right."""
    exponent = np.exp(outputs)
    odds = exponent[np.arange(len(labels)), labels] / exponent.sum(-1)
    per_class = [float((outputs.argmax(-1) == labels)[labels == k].mean()) if (labels == k).sum() else 0.0 for k in range(CLASSES)]
    return {"loss": float(np.mean(-np.log(odds))), "recall": float(np.mean(per_class))}


def wrong_axis(outputs, labels):
    exponent = np.exp(outputs - outputs.max(-1, keepdims=True))
    odds = exponent[np.arange(len(labels)), labels] / exponent.sum()  # line: here
    return {"loss": float(np.mean(-np.log(odds))), "recall": float(recall_of(outputs.argmax(1) == labels, labels).mean())}


def wrong_base(outputs, labels):
    exponent = np.exp(outputs)
    odds = exponent[np.arange(len(labels)), labels] / exponent.sum(-1)
    surprise = -np.log2(odds)  # line: here
    return {"loss": float(np.mean(surprise)), "recall": float(recall_of(outputs.argmax(1) == labels, labels).mean())}


def helper_with_a_mistake(hits, labels):
    found = []
    for kind in range(CLASSES):
        mine = labels == kind
        found.append(hits[mine].sum() / len(labels))  # line: here
    return np.array(found)


def wrong_helper(outputs, labels):
    exponent = np.exp(outputs)
    odds = exponent[np.arange(len(labels)), labels] / exponent.sum(-1)
    return {"loss": float(np.mean(-np.log(odds))), "recall": float(helper_with_a_mistake(outputs.argmax(1) == labels, labels).mean())}


def marked(function):
    lines, first = inspect.getsourcelines(function)
    return next(first + n for n, line in enumerate(lines) if "# line: here" in line)


def judged(other):
    sides = [Side(framework="numpy", model=Model(), metric=metric, dataloader=lambda _: batches()) for metric in (reference, other)]
    return check(*sides, stages=["metric"])["metric"]


@pytest.mark.parametrize(("metric", "within"), [(wrong_axis, wrong_axis), (wrong_base, wrong_base), (wrong_helper, helper_with_a_mistake)])
def test_the_line_of_a_wrong_metric_is_named(metric, within):
    result = judged(metric)
    assert result.verdict == DIVERGED
    found = result.divergence.candidate
    assert found.source.endswith(f"test_metric_lines.py:{marked(within)}"), found
    assert found.code.strip().endswith("# line: here")


def test_a_metric_written_in_another_way_is_not_accused():
    assert judged(right).verdict == ALIGNED


def test_a_metric_of_a_library_leaves_the_divergence_where_it_was():
    result = judged(np.vectorize(lambda *_: 0.25, signature="(n,m),(n)->()"))
    assert result.verdict == DIVERGED
    assert result.divergence.pair is not None


def test_a_metric_that_fails_when_it_is_traced_is_a_warning():
    def brittle(outputs, labels):
        if sys.gettrace() is not None:
            raise ValueError("no debugger, please")
        return {"loss": 0.5, "recall": 0.5}

    result = judged(brittle)
    assert result.verdict == DIVERGED
    assert any("could not be traced" in warning and "no debugger" in warning for warning in result.warnings)
