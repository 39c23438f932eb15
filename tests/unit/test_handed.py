"""What both models were given, compared before all that follows from it."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.model import DIVERGED, Manifest, Pair, StageResult
from paralign.stages.forward import handed
from paralign.worker.sides.session import DOUBLE, NATIVE

X = np.array([1.0, np.nan, 3.0], np.float32)


@pytest.fixture
def compared(tmp_path):
    def of(reference, candidate):
        captures = []
        for name, values in (("a", reference), ("b", candidate)):
            with CaptureWriter(tmp_path / name, Manifest(stage="forward")) as writer:
                for key, value in values.items():
                    writer.add("input", value, leaf=key, role="input", run=NATIVE)
                writer.add("input", np.zeros(1), role="input", run=DOUBLE)
            captures.append(Capture.open(tmp_path / name))
        result = StageResult("forward", pairs=[Pair("output", None, None)])
        handed.compare(result, *captures)
        return result

    return of


def test_equal_inputs_are_not_worth_a_word(compared):
    result = compared({"x": X, "mask": np.array([True])}, {"x": X, "mask": np.array([True])})
    assert [pair.key for pair in result.pairs] == ["output"]
    assert result.notes == []


@pytest.mark.parametrize("other", [X + 1, X[:2], np.array([1.0, 2.0, 3.0], np.float32), X[::-1]])
def test_inputs_that_differ_come_before_the_outputs(compared, other):
    result = compared({"x": X}, {"x": other})
    assert [pair.key for pair in result.pairs] == ["input.x", "output"]
    assert result.pairs[0].verdict == DIVERGED
    assert "the models were given different inputs: what follows may only follow from that" in result.pairs[0].notes


def test_another_element_type_is_a_note(compared):
    result = compared({"ids": np.arange(3)}, {"ids": np.arange(3, dtype=np.int32)})
    assert [pair.key for pair in result.pairs] == ["output"]
    assert result.notes == ["input.ids: the reference was given int64, the candidate int32"]
