"""What a side is, and the state of its model: recorded, and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from paralign.adapters.base import Observing, Training

if TYPE_CHECKING:
    from paralign.adapters.base import Entry
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.session import Session


def describe(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
    """The side's functions, framework, versions and flags; builds no model where the framework is named."""
    adapter = session.adapter
    return {
        "functions": sorted(session.functions),
        "framework": adapter.name,
        "versions": adapter.versions(),
        "flags": adapter.flags(),
        "devices": adapter.devices(),
        "device": session.device,
        "trains": isinstance(adapter, Training),
        "observes": isinstance(adapter, Observing),
    }


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


def weights(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
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
    return {"entries": len(entries)}


def load(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:
    """Load recorded values by the names of this side's state, then record the whole state as it now is.

    Options: ``record`` (True where it is not given) whether the state is recorded.
    """
    given = values["state"]
    session.adapter.load_state(session.model, {r.name: given.value(r) for r in given.records if r.location is not None})
    if not options.get("record", True):
        return {"entries": len(given.records)}
    return weights(session, writer, options, values)
