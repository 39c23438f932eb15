"""What a side is, and the state of its model: recorded, and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Tuple

import numpy as np

from paralign.adapters.base import Observing, Training
from paralign.dtypes import widen
from paralign.worker.protocol import Describe, Description, Entries, Load, Nothing, Rebuilt, TensorHistory, Weights
from paralign.worker.protocol.wire import encode

if TYPE_CHECKING:
    from paralign.adapters.base import Entry
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session


def describe(session: Session, writer: CaptureWriter, options: Describe, values: Dict[str, Capture]) -> Description:  # noqa: ARG001 - every task has these
    """The side's functions, framework, versions and flags.

    Builds no model where the framework is named.
    """
    adapter = session.adapter
    return Description(
        functions=sorted(session.functions),
        framework=adapter.name,
        versions=adapter.versions(),
        flags=adapter.flags(),
        devices=adapter.devices(),
        device=session.device,
        trains=isinstance(adapter, Training),
        observes=isinstance(adapter, Observing),
        sealed=bool(getattr(adapter, "sealed", False)),
        others=sorted(getattr(session.functions, "others", [])),
    )


def attributes(entry: Entry) -> Dict[str, Any]:
    """What the mapping of weights needs to know of a state entry."""
    return {
        "owner": entry.owner,
        "leaf": entry.leaf,
        "kind": entry.kind,
        "trainable": entry.trainable,
        "shared": entry.shared,
        "persistent": entry.persistent,
        **entry.attrs,
    }


def weights(session: Session, writer: CaptureWriter, options: Weights, values: Dict[str, Capture]) -> Entries:  # noqa: ARG001 - every task has these
    """Every parameter and buffer, aliases included (their values once)."""
    entries = session.entries()
    for entry in entries:
        writer.add(
            entry.name,
            session.adapter.to_array(entry.tensor),
            role=entry.role,
            op=entry.kind,
            attrs=attributes(entry),
            keep=entry.shared is None,
        )
    modules = session.adapter.modules(session.model)
    writer.manifest.settings["built"] = {path: list(session.built[id(module)]) for path, module in modules if id(module) in session.built}
    writer.manifest.settings["history"] = encode(histories(session))
    return Entries(len(entries))


def rebuilt(session: Session, writer: CaptureWriter, options: Rebuilt, values: Dict[str, Capture]) -> Nothing:  # noqa: ARG001 - every task has these
    """Record some tensors of another model, built after another seed: they were drawn."""
    wanted = set(options.names)
    for entry in session.entries(session.rebuilt(options.seed)):
        if entry.name in wanted and entry.shared is None:
            writer.add(entry.name, session.adapter.to_array(entry.tensor), role=entry.role)
    return Nothing()


def histories(session: Session) -> Dict[str, TensorHistory]:
    """Where the values of untrained tensors come from, and the lines that registered them."""
    modules = dict(session.adapter.modules(session.model))
    found = {}
    for entry in session.entries():
        if not entry.trainable and entry.shared is None and entry.owner in modules:
            place = id(modules[entry.owner]), entry.leaf
            lines = session.history.lines.get(place, ()) if session.history is not None else ()
            ran = session.history is not None and place in session.history.ran
            found[entry.name] = TensorHistory(_origin(session, entry, place), list(lines), ran)
    return found


def _origin(session: Session, entry: Entry, place: Tuple[int, str]) -> str:
    history = session.history
    if history is None or id(session.model) not in session.built:
        return "given"
    now = session.adapter.to_array(entry.tensor)
    if place in history.before_load:
        return "constructed" if equal(history.before_load[place], now) else "loaded"
    if entry.role == "buffer" and place not in history.registered:
        return "given"
    if history.replaces and entry.persistent:
        return "loaded"
    if entry.role == "buffer" and not equal(history.registered[place], now):
        return "changed"
    return "constructed"


def equal(one: Typed, other: Typed) -> bool:
    """Whether two values are the same element by element, of any type; NaN equals NaN."""
    first, second = widen(one), widen(other)
    return first.shape == second.shape and bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))


def load(session: Session, writer: CaptureWriter, options: Load, values: Dict[str, Capture]) -> Entries:
    """Load recorded values by the names of this side's state, then record the whole state."""
    given = values["state"]
    session.adapter.load_state(session.model, {r.name: given.value(r) for r in given.records if r.location is not None})
    if not options.record:
        return Entries(len(given.records))
    return weights(session, writer, Weights(), values)
