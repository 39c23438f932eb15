"""The other way: calls of Paddle in a port whose defaults or meaning are not PyTorch's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.binding import Bound, bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Entry, Outcome
from paralign.catalogue.lookup import entries_of_paddle
from paralign.catalogue.naming import paddle_argument, paddle_name, torch_signature
from paralign.catalogue.parameters import stored
from paralign.port.names.values import Form, Use
from paralign.port.scan.inventory import Basis, Note, Status
from paralign.port.scan.signature_defaults import differing_defaults

if TYPE_CHECKING:
    from paralign.catalogue.parameters import Signature, Table


def judge_paddle(use: Use, paddle: Table) -> tuple[Status, Basis, list[Note]]:
    """What a call of a port is beside PyTorch's call of that name."""
    if use.name not in paddle:
        return Status.MISSING, Basis.SIGNATURES, [Note(Status.MISSING, f"Paddle {paddle.version} has no public {use.name}")]
    ours = paddle.signature(use.name)
    bound = bind(ours, use.positional, use.keywords)
    if use.form is Form.REFERENCE or (use.form is Form.SUBCLASS and not use.positional and not use.keywords):
        bound.open = True
    found = [Note(Status.ARGUMENTS, f"Paddle {paddle.version} has no argument {name}") for name in bound.unknown if not ours.open]
    entries = entries_of_paddle(use.name)
    for entry in entries:
        note = _note(entry, bound)
        if note is not None and note.text not in {other.text for other in found}:
            found.append(note)
    if not entries:
        found += _defaults(use, bound, ours, paddle)
    status = next((each for each in Status if any(note.status is each for note in found)), Status.SAME)
    return status, Basis.EXECUTED if entries else Basis.SIGNATURES, found


def _note(entry: Entry, bound: Bound) -> Note | None:
    if entry.outcome in (Outcome.EQUAL, Outcome.RAISES):
        return None
    chosen = [name for name in entry.fix.set if name in bound.given]
    if entry.fix.set and len(chosen) == len(entry.fix.set) and not entry.when.startswith("given("):
        return None  # the port says what it wants
    truth = holds(entry.when, _theirs(entry, bound))
    if truth is False:
        return None
    certain = truth is True and not entry.data.en and bool(entry.fix.set) and not chosen and not bound.open
    text = f"{entry.torch}: {entry.differs.en}" + (f" Only {entry.data.en}." if entry.data.en else "")
    return Note(Status.SILENT if certain else Status.CONDITIONAL, text, entry.fix.words.en, entry.id)


def _theirs(entry: Entry, bound: Bound) -> Bound:
    """A call of Paddle as one of PyTorch: its arguments by PyTorch's names."""
    signature = torch_signature(entry.torch)
    found = Bound(signature, open=bound.open)
    for each in signature.parameters:
        name = paddle_argument(each.name, entry.arguments, bound.signature)
        if name is not None and name in bound.given:
            found.given[each.name] = bound.given[name]
    taken = set(map(id, found.given.values()))
    found.unknown = {name: value for name, value in bound.given.items() if id(value) not in taken}
    return found


@cache
def _references(table: Table) -> dict[str, list[str]]:
    """Callables of Paddle, and those of PyTorch that they are the port of."""
    found: dict[str, list[str]] = {}
    for package in ("torch", "torchvision"):
        for name in stored(package).texts:
            port = paddle_name(name, table)
            if port:
                found.setdefault(port, []).append(name)
    return found


def _defaults(use: Use, bound: Bound, ours: Signature, paddle: Table) -> list[Note]:
    """Defaults that differ by the signatures, for a pair that the catalogue does not execute."""
    found = []
    last = use.name.rpartition(".")[2].casefold()
    for reference in _references(paddle).get(use.name, []):
        if reference.rpartition(".")[2].casefold() != last:
            continue
        for each, parameter in differing_defaults(torch_signature(reference), ours):
            if parameter.name in bound.given:
                continue
            text = (
                f"by the signatures {parameter.name}={parameter.default} here and {each.name}={each.default} in {reference}; not executed"
            )
            found.append(Note(Status.CONDITIONAL, text, f"{parameter.name}={each.default}"))
    return found
