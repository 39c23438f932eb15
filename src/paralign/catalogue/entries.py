"""Known differences between two frameworks, read from ``differences/*.toml``.

They are data, never code.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from paralign.catalogue.conditions import parsed
from paralign.errors import CaptureFormatError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: folder of the entries, one file a topic
DIFFERENCES = Path(__file__).parent / "differences"

#: greatest difference that counts as equal, absolute, on values near 1 in float32
TOLERANCE = 1e-5


class Scope(Enum):
    """What an entry is about.

    A call's result, weights that are copied into a layer, or how a layer starts.
    """

    CALL = "call"
    WEIGHTS = "weights"
    START = "start"


class Outcome(Enum):
    """What the port with the same name and arguments does, beside the reference."""

    EQUAL = "equal"
    SILENT = "silent"
    TYPE = "type"
    RAISES = "raises"


@dataclass(frozen=True)
class Words:
    """A text in English and Chinese."""

    en: str = ""
    zh: str = ""

    def of(self, language: str) -> str:
        """The text in ``en`` or ``zh``; English where there is no Chinese."""
        if language == "zh" and self.zh:
            return self.zh
        return self.en


@dataclass(frozen=True)
class Fix:
    """How to write the call so that it is the reference's.

    ``set`` gives arguments to add or replace, ``drop`` those to leave out, ``call`` another callable, ``code`` a whole replacement.
    In texts ``{name}`` stands for the reference's argument of that name.
    """

    words: Words = field(default_factory=Words)
    set: dict[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    call: str = ""
    code: str = ""

    @property
    def mechanical(self) -> bool:
        """Whether a program can apply it."""
        return bool(self.set or self.drop or self.call or self.code)


@dataclass(frozen=True)
class Example:
    """What is executed: expressions over arrays that ``setup`` makes.

    ``naive`` is empty where it is written as the reference is.
    """

    setup: str = ""
    reference: str = ""
    naive: str = ""
    fixed: str = ""
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Measured:
    """Greatest absolute difference before and after the fix: a number, or what else differed."""

    before: float | str = ""
    after: float | str = ""


@dataclass(frozen=True)
class Entry:
    """One pair of calls, and how they differ.

    ``when`` is a condition on arguments, ``data`` a condition that only a run can tell. ``also`` names callables of the reference that
    differ in the same way.
    """

    id: str
    topic: str
    torch: str
    paddle: str
    outcome: Outcome
    differs: Words
    fix: Fix
    example: Example
    measured: Measured
    also: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    when: str = ""
    data: Words = field(default_factory=Words)
    scope: Scope = Scope.CALL

    @property
    def naive(self) -> str:
        """The expression of the naive port."""
        return self.example.naive or self.example.reference


#: keys of an entry in a file
KEYS = frozenset({
    "id", "torch", "paddle", "also", "outcome", "differs", "differs_zh", "when", "data", "data_zh", "arguments", "fix", "fix_zh", "set",
    "drop", "call", "code", "scope", "setup", "reference", "naive", "fixed", "tolerance", "before", "after",
})  # fmt: skip

_EQUAL = Words("No difference: equal results on the same input.", "无差异：相同输入下结果相等。")  # noqa: RUF001


@cache
def read_all(folder: Path = DIFFERENCES) -> tuple[Entry, ...]:
    """All entries, by topic and in the order of their files.

    Raises:
        CaptureFormatError: a file or an entry of another form.
    """
    found: list[Entry] = []
    for path in sorted(folder.glob("*.toml")):
        found += read(path)
    seen: set[str] = set()
    for entry in found:
        if entry.id in seen:
            raise CaptureFormatError(f"two entries have the id {entry.id}", where=str(folder))
        seen.add(entry.id)
    return tuple(found)


def read(path: Path) -> list[Entry]:
    """The entries of one file.

    Raises:
        CaptureFormatError: it is no TOML, or an entry lacks or has what it may not.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CaptureFormatError(f"no catalogue: {error}", where=str(path)) from error
    return [_entry(raw, path) for raw in content.get("entry", [])]


def _entry(raw: dict[str, Any], path: Path) -> Entry:
    where = f"{path.name}: {raw.get('id', '?')}"
    unknown = sorted(set(raw) - KEYS)
    lacking = sorted({"id", "torch", "outcome"} - set(raw))
    if unknown or lacking:
        text = f"unknown keys {unknown}" if unknown else f"keys {lacking} are missing"
        raise CaptureFormatError(f"an entry of another form: {text}", where=where, hint=f"keys are {', '.join(sorted(KEYS))}")
    try:
        outcome, scope = Outcome(raw["outcome"]), Scope(raw.get("scope", "call"))
        parsed(raw.get("when", "") or "True")
    except ValueError as error:
        raise CaptureFormatError(str(error), where=where) from error
    differs = Words(raw.get("differs", ""), raw.get("differs_zh", ""))
    if not differs.en:
        if outcome is not Outcome.EQUAL:
            raise CaptureFormatError("the difference is not described", where=where)
        differs = _EQUAL
    return Entry(
        id=raw["id"],
        topic=path.stem,
        torch=raw["torch"],
        paddle=raw.get("paddle", ""),
        outcome=outcome,
        differs=differs,
        fix=_fix(raw),
        example=Example(**_only(Example, raw)),
        measured=Measured(raw.get("before", ""), raw.get("after", "")),
        also=tuple(raw.get("also", ())),
        arguments=dict(raw.get("arguments", {})),
        when=raw.get("when", ""),
        data=Words(raw.get("data", ""), raw.get("data_zh", "")),
        scope=scope,
    )


def _fix(raw: dict[str, Any]) -> Fix:
    words = Words(raw.get("fix", ""), raw.get("fix_zh", ""))
    return Fix(words, dict(raw.get("set", {})), tuple(raw.get("drop", ())), raw.get("call", ""), raw.get("code", ""))


def _only(kind: type, raw: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {key: value for key, value in raw.items() if key in names}
