"""Averaged weights, teachers and target networks: tensors that no output depends on follow those that they are copies of."""

from __future__ import annotations

from paralign.model import Record
from paralign.weights import Option, follow_copies, plan


def state(*entries):
    records = []
    for number, (name, kind, shape) in enumerate(entries):
        owner, _, leaf = name.rpartition(".")
        attrs = {"owner": owner, "leaf": leaf, "kind": kind, "trainable": True, "shared": None, "persistent": True}
        records.append(Record(number, name, "weights", "parameter", "float64", shape, attrs=attrs))
    return records


def network(prefix, names):
    return [entry for name in names for entry in ((f"{prefix}.{name}.weight", "Linear", (4, 4)), (f"{prefix}.{name}.bias", "Linear", (4,)))]


OURS = state(*network("net", ("a", "b")), *network("ema", ("a", "b")))
THEIRS = state(*network("online", ("one", "two")), *network("shadow", ("one", "two")))
RULES = {"net.a": "online.one", "net.b": "online.two", "ema.a": "shadow.one", "ema.b": "shadow.two"}
HIDDEN = {r.name for r in OURS if r.name.startswith("ema.")}


def always(one, other):
    """Every tensor is equal to that of the same name in the other network."""
    return one.partition(".")[2] == other.partition(".")[2]


def placed(found):
    return {m.reference.name: m.candidate.name for m in found.moves}


def planned():
    """Everything in its right place; names say nothing of it."""
    made = plan(OURS, THEIRS, "torch", "paddle")
    at = {m.reference.name: m.slot for m in made.moves}
    wanted = {}
    for name, slot in at.items():
        owner, _, leaf = name.rpartition(".")
        wanted[f"{RULES[owner]}.{leaf}", None] = slot
    return made.choose(Option("", {to: origin for to, origin in wanted.items() if to != origin}))


def exchanged(right):
    """The layers of the copy the wrong way round."""
    ends = [("shadow.one", "shadow.two"), ("shadow.two", "shadow.one")]
    return right.choose(Option("", {(f"{a}.{leaf}", None): (f"{b}.{leaf}", None) for a, b in ends for leaf in ("weight", "bias")}))


def test_what_stands_right_is_left_and_said_to_follow():
    right = planned()
    found, copies = follow_copies(right, HIDDEN, (always, always))
    assert placed(found) == placed(right)
    assert [(c.reference, c.candidate, set(c.names)) for c in copies] == [(("ema", "net"), ("shadow", "online"), HIDDEN)]
    assert copies[0].told().startswith("4 tensors of ema have the places in shadow that those of net have in online")


def test_what_stands_elsewhere_is_moved_to_where_the_original_stands():
    wrong = exchanged(planned())
    assert placed(wrong)["ema.a.weight"] == "shadow.two.weight"
    found, copies = follow_copies(wrong, HIDDEN, (always, always))
    assert placed(found) == placed(planned())
    assert {m.how for m in found.moves if m.reference.name in HIDDEN} == {"copy"}
    assert len(copies) == 1


def test_without_equal_values_on_either_side_nothing_follows():
    for equal in ((lambda *_: False, always), (always, lambda *_: False)):
        assert follow_copies(planned(), HIDDEN, equal)[1] == []


def test_an_original_whose_own_places_are_open_tells_nothing():
    open_ = HIDDEN | {"net.a.weight", "net.b.weight"}
    assert follow_copies(planned(), open_, (always, always))[1] == []


def test_what_is_no_copy_in_the_candidate_does_not_follow():
    theirs = state(*network("online", ("one", "two")), *network("shadow", ("one", "three")))
    made = plan(OURS, theirs, "torch", "paddle")
    found, copies = follow_copies(made, HIDDEN, (always, always))
    assert all(c.reference[0] != "ema" for c in copies)
    assert len(found.moves) == len(OURS)
