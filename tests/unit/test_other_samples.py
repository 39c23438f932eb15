"""Own evaluations that saw other samples: told by digests, and only where most are the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.model import StageResult
from paralign.stages.metric.evaluating import _saw_others
from paralign.worker.evaluation import metrics
from paralign.worker.protocol.metric_tasks import OwnEvaluated

ROWS = [f"{number:016x}" for number in range(10)]


def seen(*sides):
    return [OwnEvaluated(samples=len(side or ()), batches=5, seen=side) for side in sides]


@pytest.mark.parametrize(
    ("first", "second", "excused"),
    [
        (ROWS, [*ROWS[:0:-1], "another"], True),
        (ROWS, [*ROWS[:9], "another"], False),  # in one order: a wrong sample
        (ROWS, [*ROWS[:2:-1], "two", "are", "wrong"], False),  # more than a batch
        (ROWS, ROWS[::-1], False),  # the same in another order
        (ROWS, ["another"] * 10, False),  # another form of the same samples, perhaps
        (ROWS, ROWS[:9], False),  # counted elsewhere
        (ROWS, None, False),
        ([], [], False),
    ],
)
def test_results_are_left_out_where_a_few_samples_are_others(first, second, excused):
    result = StageResult("metric")
    assert _saw_others(result, seen(first, second), ["kendall"]) is excused
    assert any("1 of 10 samples" in note and "kendall" in note for note in result.notes) is excused
    assert not _saw_others(result, seen(first, second), [])


def test_a_sample_has_one_digest_on_both_sides():
    adapter = SimpleNamespace(is_tensor=lambda leaf: isinstance(leaf, np.ndarray), to_array=lambda leaf: SimpleNamespace(array=leaf))
    session = SimpleNamespace(adapter=adapter)
    images, labels = np.random.RandomState(0).rand(4, 3, 2), np.arange(4)
    one = metrics._with_rows(session, [], (images.astype("float32"), labels))
    other = metrics._with_rows(session, [], (images.astype("float32")[::-1], {"y": labels.astype("int32")[::-1]}))
    assert one == other[::-1]
    assert len(set(one)) == 4
    assert metrics._with_rows(session, [], (images, labels[:3])) is None
    assert metrics._with_rows(session, None, (images, labels)) is None
