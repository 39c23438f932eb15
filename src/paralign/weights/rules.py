"""Renamings and routes as a short table of rules: learned, saved, edited, applied.

A pattern is a path in which ``{a}``, ``{b}``, … stand for whole numbers; in the candidate's pattern ``{a+1}`` is the number
after. ``encoder.layer.{a}.*`` speaks of everything below.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paralign.errors import UsageError, quoted
from paralign.run.toml import parsed
from paralign.weights.transforms import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FIELD = re.compile(r"\{([a-z])([+-]\d+)?\}")
_BELOW = ".*"


@dataclass(frozen=True)
class Rename:
    """Modules or tensors of the reference and what the candidate calls them.

    ``count`` of them were seen.
    """

    reference: str
    candidate: str
    count: int = 0

    def applied(self, path: str) -> str | None:
        """What the candidate calls a path; None where the rule does not speak of it.

        >>> Rename("layer.{a}.fc1.*", "blocks.{a+1}.up.*").applied("layer.3.fc1.weight")
        'blocks.4.up.weight'
        """
        found = _compiled(self.reference).fullmatch(path)
        if found is None:
            return None
        named = found.groupdict()

        def number(match: re.Match[str]) -> str:
            return str(int(named[match.group(1)]) + int(match.group(2) or 0))

        below = named.get("below") or ""
        return _FIELD.sub(number, self.candidate.removesuffix(_BELOW)) + (below if self.candidate.endswith(_BELOW) else "")


@dataclass(frozen=True)
class Route:
    """A tensor whose values take a way of their own, as parts of packed weights do.

    ``shape`` is that of the candidate's tensor where only a part of it is filled: without a model, nothing else tells it.
    """

    reference: str
    candidate: str
    transform: str | None = None
    into: str | None = None
    count: int = 0
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Drop:
    """Tensors of one side that need no twin."""

    side: str
    name: str


@dataclass(frozen=True)
class Rules:
    """What a plan follows, or what the user wants it to follow.

    ``others`` is ``keep`` where what no route speaks of is laid out alike on both sides; without a model, nothing else tells that.
    """

    renames: tuple[Rename, ...] = ()
    routes: tuple[Route, ...] = ()
    drops: tuple[Drop, ...] = ()
    others: str = ""

    def rows(self) -> list[tuple[str, str, str, int]]:
        """The table: reference, candidate, way, how many it was seen for."""
        found = [(r.reference, r.candidate, "", r.count) for r in self.renames]
        for route in self.routes:
            way = route.transform or ""
            if route.into:
                way += f" into {route.into}"
            found.append((route.reference, route.candidate, way, route.count))
        return found


def learn(pairs: Iterable[tuple[str, str]], *, shorten: bool = True) -> list[Rename]:
    """Regular renamings behind pairs of paths.

    Pairs of equal paths need none. With ``shorten``, equal ends become ``.*``.

    >>> learn([("enc.0.attn.q", "l.0.q"), ("enc.1.attn.q", "l.1.q"), ("enc.0.ln", "l.0.norm"), ("enc.1.ln", "l.1.norm")])
    [Rename(reference='enc.{a}.attn.*', candidate='l.{a}.*', count=2), Rename(reference='enc.{a}.ln', candidate='l.{a}.norm', count=2)]
    """
    exact = [rename for members in alike((one, other) for one, other in pairs if one != other) for rename in regular(members)]
    return _shortened(exact) if shorten else exact


def alike(pairs: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Pairs of paths in groups whose members differ only in their numbers.

    >>> alike([("a.0", "b.0"), ("c", "d"), ("a.1", "b.1")])
    [[('a.0', 'b.0'), ('a.1', 'b.1')], [('c', 'd')]]
    """
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for one, other in pairs:
        groups[re.sub(r"\d+", "#", one), re.sub(r"\d+", "#", other)].append((one, other))
    return list(groups.values())


def regular(members: Sequence[tuple[str, str]]) -> list[Rename]:
    """One rename for pairs that are :func:`alike`, if their numbers correspond.

    Else one for each.
    """
    ours = [[int(n) for n in re.findall(r"\d+", one)] for one, _ in members]
    theirs = [[int(n) for n in re.findall(r"\d+", other)] for _, other in members]
    letters: dict[int, str] = {}
    parts: list[str] = []
    for position in range(len(theirs[0])):
        column = [numbers[position] for numbers in theirs]
        if len(set(column)) == 1:
            parts.append(str(column[0]))
            continue
        from_ = _following(ours, column)
        if from_ is None:
            return [Rename(one, other, 1) for one, other in members]
        index, offset = from_
        letter = letters.setdefault(index, string.ascii_lowercase[len(letters) % 26])
        parts.append(f"{{{letter}{offset:+d}}}" if offset else f"{{{letter}}}")
    for index in range(len(ours[0])):
        if index not in letters and len({numbers[index] for numbers in ours}) > 1:
            return [Rename(one, other, 1) for one, other in members]
    fields = [f"{{{letters[i]}}}" if i in letters else str(n) for i, n in enumerate(ours[0])]
    return [Rename(_filled(members[0][0], fields), _filled(members[0][1], parts), len(members))]


def _following(ours: list[list[int]], column: list[int]) -> tuple[int, int] | None:
    """Which number of the reference's paths another one follows, and at what distance."""
    found = []
    for index in range(len(ours[0])):
        offsets = {theirs - numbers[index] for numbers, theirs in zip(ours, column, strict=True)}
        if len(offsets) == 1:
            found.append((abs(min(offsets)), index, min(offsets)))
    return min(found)[1:] if found else None


def _filled(path: str, fields: Sequence[str]) -> str:
    values = iter(fields)
    return re.sub(r"\d+", lambda _: next(values), path)


def _shortened(renames: list[Rename]) -> list[Rename]:
    """Renames that share what stands before equal ends, as one, where nothing contradicts it."""
    stripped: dict[tuple[str, str], list[Rename]] = defaultdict(list)
    for rename in renames:
        stripped[_stems(rename)].append(rename)
    answers: dict[str, set[str]] = defaultdict(set)
    for ours, theirs in stripped:
        answers[ours].add(theirs)
    found: list[Rename] = []
    for (ours, theirs), members in stripped.items():
        if len(answers[ours]) > 1 or not ours or (len(members) == 1 and ours == members[0].reference):
            found += members
        else:
            found.append(Rename(ours + _BELOW, theirs + _BELOW, sum(m.count for m in members)) if theirs else members[0])
            found += members[1:] if not theirs else []
    return found


def _stems(rename: Rename) -> tuple[str, str]:
    ours, theirs = rename.reference.split("."), rename.candidate.split(".")
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return ".".join(ours), ".".join(theirs)


@lru_cache(maxsize=10_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    body, below = (pattern[: -len(_BELOW)], r"(?P<below>\..+)?") if pattern.endswith(_BELOW) else (pattern, "")
    seen: set[str] = set()
    text, at = "", 0
    for match in _FIELD.finditer(body):
        letter = match.group(1)
        text += re.escape(body[at : match.start()]) + (f"(?P={letter})" if letter in seen else rf"(?P<{letter}>\d+)")
        seen.add(letter)
        at = match.end()
    return re.compile(text + re.escape(body[at:]) + below)


def to_toml(rules: Rules) -> str:
    """Rules as text that :func:`rules_from_toml` reads.

    >>> print(to_toml(Rules((Rename("a.{a}", "b.{a}"),))), end="")
    [[rename]]
    reference = "a.{a}"
    candidate = "b.{a}"
    """
    blocks: list[tuple[str, dict[str, Any]]] = [("rename", {"reference": r.reference, "candidate": r.candidate}) for r in rules.renames]
    blocks += [
        ("route", {"reference": r.reference, "candidate": r.candidate, "transform": r.transform, "into": r.into, "shape": r.shape})
        for r in rules.routes
    ]
    blocks += [("drop", {"side": d.side, "name": d.name}) for d in rules.drops]
    texts = []
    if rules.others:
        texts.append(f"others = {_quoted(rules.others)}")
    for kind, entry in blocks:
        lines = [f"{key} = {_written(value)}" for key, value in entry.items() if value is not None]
        texts.append("\n".join([f"[[{kind}]]", *lines]))
    if not texts:
        return ""
    return "\n\n".join(texts) + "\n"


def _written(value: str | tuple[int, ...]) -> str:
    return _quoted(value) if isinstance(value, str) else str(list(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


#: table -> (keys that must be there, keys that may be)
_TABLES = {
    "rename": ({"reference", "candidate"}, set[str]()),
    "route": ({"reference", "candidate"}, {"transform", "into", "shape"}),
    "drop": ({"side", "name"}, set[str]()),
}


def rules_from_toml(text: str, source: str = "rules.toml") -> Rules:
    """Rules that the user wrote or edited.

    Raises:
        UsageError: no TOML (with the line), an unknown table or key, a value that is no text, a pattern or transform that is none.
    """
    content = parsed(text, "the rules are no TOML", source)
    others = content.pop("others", "")
    if others not in ("", "keep"):
        raise UsageError(
            f"others = {quoted(others)} is not a choice", where=source, hint='write others = "keep" at the top, or leave it out'
        )
    found: dict[str, list[Any]] = {table: [] for table in _TABLES}
    for table, entries in content.items():
        if table not in _TABLES or not isinstance(entries, list):
            raise UsageError(
                f"unknown entry {quoted(table)} among the rules",
                where=source,
                hint='there are [[rename]], [[route]] and [[drop]], and others = "keep" above them',
            )
        for number, entry in enumerate(entries, 1):
            found[table].append(_entry(table, entry, f"{source}: [[{table}]] number {number}"))
    return Rules(tuple(found["rename"]), tuple(found["route"]), tuple(found["drop"]), others)


def _entry(table: str, entry: Any, where: str) -> Rename | Route | Drop:
    needed, possible = _TABLES[table]
    keys = set(entry) if isinstance(entry, dict) else set()
    wrong = sorted(needed - keys) or sorted(keys - needed - possible)
    if wrong:
        raise UsageError(
            f"{'missing' if wrong[0] in needed else 'unknown'} key {wrong[0]!r}",
            where=where,
            hint="the keys are " + ", ".join(sorted(needed | possible)),
        )
    shape = entry.get("shape")
    if shape is not None and not (isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)):
        raise UsageError("shape must be a list of whole numbers", where=where, hint="write shape = [768, 256]")
    for key, value in entry.items():
        if key != "shape" and (not isinstance(value, str) or not value):
            raise UsageError(f"{key} must be a text", where=where, hint="write it in quotes")
    if table == "drop":
        if entry["side"] not in ("reference", "candidate"):
            raise UsageError(f"{entry['side']!r} is no side", where=where, hint="choose reference or candidate")
        return Drop(entry["side"], entry["name"])
    _check_fields(entry["reference"], entry["candidate"], where)
    if table == "rename":
        return Rename(entry["reference"], entry["candidate"])
    for key in ("transform", "into"):
        _check_steps(entry.get(key), f"{where}, {key}")
    return Route(
        entry["reference"], entry["candidate"], entry.get("transform"), entry.get("into"), shape=None if shape is None else tuple(shape)
    )


def _check_steps(transform: str | None, where: str) -> None:
    try:
        steps(transform)
    except UsageError as error:
        raise UsageError(error.what, where=where, hint=error.hint) from error


def _check_fields(reference: str, candidate: str, where: str) -> None:
    known = {m.group(1) for m in _FIELD.finditer(reference)}
    unknown = sorted({m.group(1) for m in _FIELD.finditer(candidate)} - known)
    if unknown:
        raise UsageError(
            f"the candidate's pattern uses {{{unknown[0]}}}, which the reference's has not",
            where=where,
            hint="name numbers {a}, {b}, … in the reference's pattern first",
        )
    if reference.endswith(_BELOW) != candidate.endswith(_BELOW):
        raise UsageError("one pattern ends in .* and the other does not", where=where, hint="end both in .* or neither")
