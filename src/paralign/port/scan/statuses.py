"""What a use of a callable becomes in Paddle.

The catalogue is asked, then what the installed Paddle offers.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.binding import bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Entry, Outcome, read_all
from paralign.catalogue.lookup import arguments_of, entries_of
from paralign.catalogue.naming import function_of, names, paddle_argument, paddle_name, torch_signature
from paralign.catalogue.parameters import Kind, Signature, stored
from paralign.catalogue.source_fixes import advice
from paralign.port.names.ownership import LIBRARIES
from paralign.port.names.values import Form, Use
from paralign.port.plans.conversions import conversions
from paralign.port.scan.inventory import Basis, Note, Status
from paralign.port.scan.reverse import judge_paddle
from paralign.port.scan.signature_defaults import differing_defaults

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound
    from paralign.catalogue.parameters import Table

#: stands for the object whose method is called
_RECEIVER = ast.Name("x", ast.Load())

#: what to do about a call that nothing is known to replace
_OTHERWISE = (
    "compose it of other calls and let `paralign check` prove it, write a custom operator (paddle.utils.cpp_extension), or file an issue"
)

#: parameters of Paddle's methods that the object itself goes to
_SELF = frozenset({"x", "input", "tensor", "self"})


@dataclass
class Judged:
    """A use's status, its name in Paddle, what the status rests on, and what to know."""

    status: Status
    port: str
    basis: Basis
    notes: list[Note]


def judge(use: Use, paddle: Table) -> Judged:
    """Say what a use becomes in this Paddle."""
    root = use.name.partition(".")[0]
    if root == "paddle":
        status, basis, notes = judge_paddle(use, paddle)
        return Judged(status, use.name, basis, notes)
    if root in LIBRARIES:
        note = Note(Status.SAME, "of no framework: works on both sides")
        return Judged(Status.SAME, use.name, Basis.NAME, [note])
    table = stored(root)
    if table.texts and use.name not in table:
        note = Note(Status.UNKNOWN, f"{table.package} {_short(table.version)} has no public {use.name}")
        return Judged(Status.UNKNOWN, "", Basis.NAME, [note])
    notes = _differences(use)
    port = paddle_name(use.name, paddle)
    if not port:
        notes = [_missing(use.name, paddle), *(note for note in notes if note.status is not Status.MISSING)]
        return Judged(Status.MISSING, "", Basis.SIGNATURES, notes)
    known = arguments_of(use.name)
    written = _written_otherwise(use.name)
    if written:
        notes.append(written)
    elif not _is_replaced(notes) and not _is_unshown(use):
        notes += _arguments(use, port, paddle, known, _handled(notes))
    executed = bool(entries_of(use.name))
    if not executed:
        notes += _defaults(use, port, paddle)
    if port != _same_name(use.name):
        notes.append(Note(Status.RENAMED, f"called {port} in Paddle"))
    return Judged(_first(notes), port, Basis.EXECUTED if executed else Basis.SIGNATURES, notes)


def _is_replaced(notes: list[Note]) -> bool:
    """Whether a fix replaces the call: its arguments are the fix's business then."""
    return any(note.entry in _replacing() for note in notes if note.status in (Status.SILENT, Status.ARGUMENTS))


def _is_unshown(use: Use) -> bool:
    """Whether a use shows no arguments: a mere reference, or a subclass without any."""
    if use.form is Form.REFERENCE:
        return True
    if use.form is not Form.SUBCLASS:
        return False
    return not use.positional and not use.keywords


@cache
def _dropped() -> dict[str, tuple[str, ...]]:
    """Arguments that the fix of an entry leaves out."""
    return {entry.id: entry.fix.drop for entry in read_all()}


def _handled(notes: list[Note]) -> set[str]:
    """Arguments that the fixes of notes rename or leave out."""
    return {name for note in notes for name in _dropped().get(note.entry, ())}


@cache
def _replacing() -> frozenset[str]:
    """Entries whose fix is another call."""
    return frozenset(entry.id for entry in read_all() if entry.fix.code or entry.fix.call)


@cache
def _written_otherwise(name: str) -> Note | None:
    """What is written in another way altogether, such as schedules.

    These take a rate and no optimizer.
    """
    for pattern, words in names().otherwise_written:
        if pattern.match(name):
            return Note(Status.ARGUMENTS, words.en)
    return None


def _short(version: str) -> str:
    return version.partition("+")[0]


def _first(notes: list[Note]) -> Status:
    return next((status for status in Status if any(note.status is status for note in notes)), Status.SAME)


@cache
def _same_name(name: str) -> str:
    """The name in Paddle if nothing but the package were another."""
    for ours, theirs in (("torchvision.", "paddle.vision."), ("torch.", "paddle.")):
        if name.startswith(ours):
            return theirs + name[len(ours) :]
    return name


def _bound(use: Use, name: str) -> Bound:
    """The use's arguments by the parameters of ``name``.

    Its own, or those of the function of the same name as its method.
    """
    receiver = _RECEIVER if use.form is Form.METHOD and name != use.name else None
    bound = bind(torch_signature(name), use.positional, use.keywords, receiver)
    if _is_unshown(use):
        bound.open = True
    return bound


def _differences(use: Use) -> list[Note]:
    """What the catalogue knows of this call."""
    found: list[Note] = []
    for entry in entries_of(use.name):
        if entry.outcome is Outcome.EQUAL:
            continue
        own = use.name == entry.torch or use.name in entry.also
        function = None if own else function_of(use.name)
        bound = _bound(use, function or use.name)
        truth = holds(entry.when, bound)
        if truth is False:
            continue
        note = _difference(entry, bound, certain=truth is True and not entry.data.en)
        if (note.status, note.write) not in {(other.status, other.write) for other in found}:  # one fix for several differences
            found.append(note)
    return found


def _difference(entry: Entry, bound: Bound, *, certain: bool) -> Note:
    text = entry.differs.en
    if not certain:
        text += f" Only {entry.data.en}." if entry.data.en else f" Only when {entry.when}."
    write = advice(entry, bound)
    fix = f"{entry.fix.words.en} → {write}" if write and write not in entry.fix.words.en else entry.fix.words.en
    if not certain:
        status = Status.CONDITIONAL
    elif entry.outcome is Outcome.RAISES:
        status = Status.ARGUMENTS if entry.paddle else Status.MISSING
    else:
        status = Status.SILENT
    return Note(status, text, fix, entry.id)


def _missing(name: str, paddle: Table) -> Note:
    words = names().missing.get(name)
    function = function_of(name)
    if words is None and function is not None:
        words = names().missing.get(function)
    text = f"Paddle {paddle.version} has no counterpart."
    if words is not None:
        return Note(Status.MISSING, text, words.en)
    if function is not None and paddle_name(function, paddle):
        return Note(Status.MISSING, f"Paddle {paddle.version} has no such method.", f"{paddle_name(function, paddle)}(x, …)")
    return Note(Status.MISSING, text, _OTHERWISE)


def _ours(port: str, paddle: Table) -> Signature:
    """The parameters of Paddle's callable; of a method without the object itself."""
    found = paddle.signature(port)
    if port.startswith("paddle.Tensor.") and found.parameters and found.parameters[0].name in _SELF:
        return replace(found, parameters=found.parameters[1:])
    return found


def _arguments(use: Use, port: str, paddle: Table, known: dict[str, str], handled: set[str]) -> list[Note]:
    """Arguments that Paddle's callable names or orders differently, or does not take."""
    signature, ours = torch_signature(use.name), _ours(port, paddle)
    if not signature.known or not ours.known:
        return []
    bound = bind(signature, use.positional, use.keywords)
    named = {keyword.arg for keyword in use.keywords}
    found: list[Note] = []
    for name in bound.given:
        if name in handled:
            continue
        note = _by_keyword(name, ours, known) if name in named else _by_place(name, signature, ours, known)
        if note is not None:
            found.append(note if note.write else replace(note, write=_in_a_template(use.name, name, bound.given[name], ours)))
    strangers = [] if ours.open else [name for name in bound.unknown if name not in handled and not _is_offered(name, ours)]
    if signature.open:  # (*args, **kwargs) names no argument, and refuses none
        found += [_not_offered(name) for name in strangers]
        return found
    found += [Note(Status.ARGUMENTS, f"neither PyTorch's signature nor Paddle's has {name}") for name in strangers]
    if bound.many and _takes_several(signature) and not ours.gathers and not _takes_several(ours):
        found.append(Note(Status.ARGUMENTS, "several numbers are one list in Paddle", "[…]"))
    return found


def _in_a_template(call: str, name: str, given: ast.expr, ours: Signature) -> str:
    """What is written for an argument that Paddle's callable lacks.

    By the tables of conversions, as ``beta1=0.9, beta2=0.98``; '' if nothing.
    """
    way = conversions().calls.get(call)
    parts = re.findall(rf"(\w+)=\{{{re.escape(name)}\}}(?:\[(\d)\])?(?=[,)])", way.template) if way is not None and way.template else []
    elements = given.elts if isinstance(given, ast.Tuple | ast.List) else None
    found = []
    for keyword, place in parts:
        if not _is_offered(keyword, ours):
            continue
        if place and elements is not None:
            if int(place) >= len(elements):
                return ""
            found.append(f"{keyword}={ast.unparse(elements[int(place)])}")
        else:
            found.append(f"{keyword}={ast.unparse(given)}" + (f"[{place}]" if place else ""))
    return ", ".join(dict.fromkeys(found))


def _is_offered(name: str | None, ours: Signature) -> bool:
    """Whether Paddle's callable takes an argument of a name, in its signature or besides."""
    return name in ours.names or name in ours.accepts


def _takes_several(signature: Signature) -> bool:
    """Whether a callable takes any number of arguments by their places."""
    return any(each.kind is Kind.ARGUMENTS for each in signature.parameters)


def _by_keyword(name: str, ours: Signature, known: dict[str, str]) -> Note | None:
    """What to know of one argument that is given by its name."""
    target = paddle_argument(name, known, ours)
    if target is None or not _is_offered(target, ours):
        return None if ours.open else _not_offered(name)
    if target == name or _is_offered(name, ours):
        return None
    return Note(Status.ARGUMENTS, f"the argument {name} is called {target}", f"{target}=")


def _by_place(name: str, signature: Signature, ours: Signature, known: dict[str, str]) -> Note | None:
    """What to know of one argument that is given by its place."""
    target = paddle_argument(name, known, ours)
    if target is not None and target not in ours.names:  # accepted by name only: what it stands for there is named otherwise
        target = next((each for each in names().arguments.get(name, []) if each in ours.names), target)
    theirs = [each.name for each in signature.parameters if each.kind is Kind.PLAIN]
    places = [each.name for each in ours.parameters if each.kind is Kind.PLAIN]
    place = theirs.index(name)
    if ours.gathers:
        return None
    if place < len(places) and (places[place] == target or _free(places[place], theirs, known, ours)):
        return None
    if target is None or target not in ours.names:
        return None if ours.open else _not_offered(name)
    return Note(Status.ARGUMENTS, f"the argument {name} stands at another place", f"{target}=")


def _free(place: str, theirs: list[str], known: dict[str, str], ours: Signature) -> bool:
    """Whether no name of PyTorch is that of a parameter of Paddle.

    It is then the one at its place.
    """
    return all(paddle_argument(name, known, ours) != place for name in theirs)


def _not_offered(name: str) -> Note:
    if name in names().ignored:
        return Note(Status.ARGUMENTS, f"Paddle has no argument {name}; the result does not depend on it", f"without {name}")
    return Note(Status.ARGUMENTS, f"Paddle has no argument {name}")


def _defaults(use: Use, port: str, paddle: Table) -> list[Note]:
    """Defaults that differ by the signatures, for a pair that the catalogue does not execute."""
    bound = _bound(use, use.name)
    found = []
    for each, parameter in differing_defaults(torch_signature(use.name), _ours(port, paddle)):
        if each.name in bound.given:
            continue
        text = f"by the signatures {each.name}={each.default} here and {parameter.name}={parameter.default} in Paddle; not executed"
        found.append(Note(Status.CONDITIONAL, text, f"{parameter.name}={each.default}"))
    return found
