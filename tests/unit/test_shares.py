"""Which gradients of a rank's step count: those of the backward pass, or those that the step exchanged by hand afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.model import Manifest
from paralign.worker.ranks.share import LEFT, TAKEN, Stepped, gradients_of_ranks

ONE, OTHER = np.array([1.0, -2.0], np.float32), np.array([3.0, 0.5], np.float32)
MEAN = (ONE + OTHER) / 2


def ranks(folder, *steps):
    """A capture of each rank's gradients."""
    found = []
    for number, step in enumerate(steps):
        with CaptureWriter(folder / str(number), Manifest(stage="distributed")) as writer:
            step.record(writer, "module.", rank=number)
        found.append(Capture.open(folder / str(number)))
    return found


@pytest.mark.parametrize(
    ("steps", "which"),
    [
        ([Stepped(None, {"module.w": MEAN}), Stepped(None, {"module.w": MEAN})], LEFT),
        ([Stepped(None, {"module.w": MEAN}, {"module.w": MEAN / 4}), Stepped(None, {"module.w": MEAN}, {"module.w": MEAN / 4})], LEFT),
        (
            [Stepped(None, {"module.w": ONE}, {"module.w": MEAN}), Stepped(None, {"module.w": OTHER}, {"module.w": MEAN * (1 + 1e-7)})],
            TAKEN,
        ),
        ([Stepped(None, {"module.w": ONE}, {"module.w": ONE / 4}), Stepped(None, {"module.w": OTHER}, {"module.w": OTHER / 4})], TAKEN),
        ([Stepped(None, {"module.w": ONE}, {"module.w": MEAN}), Stepped(None, {"module.w": OTHER})], TAKEN),
        ([Stepped(None, {"module.w": ONE}), Stepped(None, {"module.w": OTHER})], LEFT),
        ([Stepped(None, {"module.w": ONE}, {"module.w": MEAN})], LEFT),
    ],
    ids=["wrapped", "wrapped and clipped", "by hand", "clipped, never exchanged", "taken by one", "never exchanged", "one process"],
)
def test_gradients_that_a_step_exchanged_by_hand_are_those_that_the_update_took(tmp_path, steps, which):
    found = ranks(tmp_path, *steps)
    assert gradients_of_ranks(found) == which
    assert {record.name for record in found[0].records} == {"w"}
