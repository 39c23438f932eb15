"""What an optimizer of the user's own keeps, as numbers that can be compared."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from paralign.errors import UnsupportedTensor
from paralign.worker.optimization.kept_state import forgotten, kept

SESSION = SimpleNamespace(adapter=SimpleNamespace(is_tensor=lambda _: False))


class Own:
    """An optimizer with all kinds of attributes."""

    def __init__(self, count=0, mean=0.0):
        self.count = count
        self.means = {id(self): np.full(3, mean)}
        self.history = [np.float32(mean), (mean, "text")]
        self.objects = np.array([object()], dtype=object)
        self.around = self

    def step(self):
        """Make an update."""


def test_what_is_not_brought_back_is_named():
    saved = kept(SESSION, Own(3, 0.5))
    assert forgotten(saved, kept(SESSION, Own(3, 0.5))) == []
    assert forgotten(saved, kept(SESSION, Own(0, 0.5))) == ["count"]
    assert forgotten(saved, kept(SESSION, Own(3, 0.25))) == ["history", "means"]
    assert forgotten(saved, {}) == ["around", "count", "history", "means", "objects"]


def test_objects_without_attributes_keep_nothing():
    class Slots:
        __slots__ = ()

        def step(self):
            """Make an update."""

    assert kept(SESSION, Slots()) == {}


def test_lists_that_hold_themselves_end():
    own = Own()
    own.history = [own.history]
    own.history.append(own.history)
    assert "history" in kept(SESSION, own)


def test_what_the_frameworks_keep_and_what_is_no_number_is_not_told():
    own, other = Own(mean=float("nan")), Own(mean=float("nan"))
    own._opt_called, own._accumulators, own.scale = True, {"moment": {}}, float("nan")
    other.scale = float("nan")
    assert forgotten(kept(SESSION, own), kept(SESSION, other)) == []


def test_a_tensor_without_values_counts_by_its_class():
    def refuse(_):
        raise UnsupportedTensor("sparse")

    session = SimpleNamespace(adapter=SimpleNamespace(is_tensor=lambda value: isinstance(value, Own), to_array=refuse))
    assert kept(session, Own())["around"] == "Own"
