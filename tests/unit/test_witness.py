"""The first operation of a step that makes what is not finite of what is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.worker.trainings.witness import Witness


def operation(op, value):
    return SimpleNamespace(op=op, module="net", stack=["net.py:3"], outputs=[np.array([value])])


@pytest.mark.parametrize("unset", ["aten.empty_like.default", "empty", "aten.new_empty.default"])
def test_memory_that_nothing_was_written_to_is_no_witness(unset):
    adapter = SimpleNamespace(to_array=lambda value: Typed(value, str(value.dtype)))
    witness = Witness(SimpleNamespace(adapter=adapter))
    witness.before([np.ones(3)])
    witness.after(operation(unset, np.nan))
    assert witness.found is None
    witness.before([np.zeros(3)])
    witness.after(operation("aten.log.default", -np.inf))
    assert (witness.found.op, witness.found.lines) == ("aten.log.default", ["net.py:3"])
