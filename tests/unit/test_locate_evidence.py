"""When an error that falls on the way is evidence, and when the outputs speak against it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from paralign.locate.suspects import patch_evidence


def judged(*errors):
    return SimpleNamespace(outputs=[(None, None, far) for far in errors])


@pytest.mark.parametrize(
    ("before", "after", "spoilt"),
    [
        ([0.1, 0.0], [2.5, 0.0], True),
        ([0.1], [0.2], False),
        ([0.1], [0.01], False),
        ([math.inf], [math.inf], False),
        ([math.inf], [0.5], False),
        ([0.1], [math.inf], True),
        ([0.0], [0.5], False),
        ([], [], False),
    ],
)
def test_outputs_that_are_much_worse_speak_against_a_trial(before, after, spoilt):
    assert patch_evidence._spoils_outputs(judged(*before), judged(*after)) is spoilt
