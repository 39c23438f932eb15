"""Where a value stands in a file of settings: JSON, YAML, TOML, INI or key lines."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: how the names of files of settings end
ENDINGS = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".env", ".txt")

#: how files of data may end too: these are looked at last
DATA = ".txt"

#: lines of a file that are known again
LINES = 2_000

#: bytes of a file, and files, beyond which none is looked at: such files hold data
LARGEST, MOST = 1 << 18, 64

#: characters of a value
LONGEST = 4_000

#: entries of a file that are looked at, and levels of them that are told apart
ENTRIES, DEEPEST = 5_000, 20

#: characters of a line from which on it is known again
SHORTEST = 4

#: words of YAML, TOML and INI that are no text
_WORDS: dict[str, Any] = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None}

#: stands for a value that was not read
_UNREAD: Any = object()

#: a key at the beginning of a line or of an entry in braces, and what separates it from its value
_KEY = re.compile(r"""(?:^[ \t]*(?:-[ \t]+)?|[{,][ \t]*)(["']?)([A-Za-z_][\w.-]*)\1[ \t]*(?::(?=\s|$)|=|(?<=["']):)[ \t]*""", re.MULTILINE)

#: a line of a key and a value with nothing but blanks between them
_BARE = re.compile(r"^[ \t]*([A-Za-z_][\w.-]*)[ \t]+(\S+)[ \t]*$", re.MULTILINE)

#: the head of a section of TOML or INI
_SECTION = re.compile(r"^\[{1,2}([^\[\]\n]{1,200})\]", re.MULTILINE)

#: a number as JSON, YAML and TOML write it
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?$")

#: what stands behind a key whose entries follow on lines of their own
_OPENING = ("", "[", "{")

#: an entry of a list of YAML on a line of its own
_DASH = re.compile(r"[ \t]*\n[ \t]*-[ \t]+([^\n#]+)")


@dataclass(frozen=True)
class Entry:
    """A key and its value in a file, with the line and the keys or sections around it."""

    file: str
    line: int
    key: str
    value: Any
    around: tuple[str, ...] = ()


class SettingsFiles:
    """The entries of a side's files of settings.

    Args:
        files: that the side has read, of any kind; those that are no settings are left out.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.entries: dict[str, list[Entry]] = {}
        self._lines: dict[str, Entry | None] = {}
        named = sorted((p for p in files if p.lower().endswith(ENDINGS)), key=lambda p: (p.lower().endswith(DATA), p))
        for path in named[:MOST]:
            text = text_of(Path(path))
            for entry in entries_of(Path(path), text):
                self.entries.setdefault(entry.key, []).append(entry)
            for number, line in enumerate(text.splitlines()[:LINES], 1):
                told = line.strip()
                self._lines[told] = None if told in self._lines else Entry(path, number, "", told)

    def line(self, text: str) -> Entry | None:
        """The one line of all files that is a text, but for blanks around it."""
        return self._lines.get(text.strip()) if len(text) >= SHORTEST else None

    def has(self, key: str, value: Any) -> bool:
        """Whether some entry has a key and a value."""
        return any(is_value(entry.value, value) for entry in self.entries.get(key, ()))

    def place(self, key: str, value: Any, around: Iterable[str] = (), turns: Iterable[tuple[int, int]] = ()) -> Entry | None:
        """The one entry with a key and a value.

        Several are told apart by what is around them, then by their order: ``turns`` has, for loops that the value came through, the
        number of the turn and how many there were.
        """
        named, words = self.entries.get(key, ()), set(around)
        found = _nearest([entry for entry in named if is_value(entry.value, value)], words)
        if len(found) == 1:
            return found[0]
        alike = [entry for entry in named if found and entry.file == found[0].file and entry.around == found[0].around]
        numbers = {number for number, count in turns if count == len(alike) and is_value(alike[number].value, value)}
        return alike[numbers.pop()] if len(numbers) == 1 else None

    def turn(self, entry: Entry) -> tuple[tuple[str, ...], int, int] | None:
        """What is around an entry, its number among those of its key, and their count.

        None of a line that has no key.
        """
        alike = [other for other in self.entries.get(entry.key, ()) if other.file == entry.file and other.around == entry.around]
        return next(((entry.around, number, len(alike)) for number, other in enumerate(alike) if other is entry), None)


def _nearest(entries: list[Entry], words: set[str]) -> list[Entry]:
    """Those around which most of some words stand."""
    shared = [len(words.intersection(entry.around)) for entry in entries]
    most = max(shared, default=0)
    return [entry for entry, count in zip(entries, shared, strict=True) if count == most]


def is_value(written: Any, value: Any) -> bool:
    """Whether what a file says is a value: a number may be written as text, a list as a tuple."""
    if isinstance(value, (list, tuple)):
        return isinstance(written, list) and len(written) == len(value) and all(map(is_value, written, value))
    if isinstance(written, list) or isinstance(value, bool) != isinstance(written, bool):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(written, str):
        written = _plain(written)
        if isinstance(written, bool):
            return False
    return type(written) in (bool, int, float, str, type(None)) and bool(written == value)


def text_of(path: Path) -> str:
    """What a file holds; nothing of one that is large, no text, or not there."""
    try:
        return path.read_text(encoding="utf-8-sig") if path.is_file() and path.stat().st_size <= LARGEST else ""
    except (OSError, ValueError):
        return ""


def entries_of(path: Path, text: str) -> Iterator[Entry]:
    """The entries of a file's text, in their order."""
    found = _of_json(path, text) if path.suffix.lower() == ".json" else _of_lines(path, text)
    for count, entry in enumerate(found):
        if count == ENTRIES:
            return
        yield entry


def _of_json(path: Path, text: str) -> Iterator[Entry]:
    decoder = json.JSONDecoder()
    around: list[tuple[int, str]] = []
    line, failed = _line_counter(text), 0
    for match in re.finditer(r'"((?:[^"\\\n]|\\.){0,200})"\s{0,9}:\s{0,9}', text):
        around = [held for held in around if held[0] > match.start()]
        if len(around) > DEEPEST:
            continue
        try:
            value, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            failed += 1
            if failed > DEEPEST:
                return
            continue
        yield Entry(str(path), line(match.start(1)), match[1], value, tuple(key for _, key in around))
        if isinstance(value, (dict, list)):
            around.append((end, match[1]))


def _of_lines(path: Path, text: str) -> Iterator[Entry]:
    heads = [(match.start(), match[1].strip()) for match in _SECTION.finditer(text)]
    around: list[tuple[int, str]] = []
    line = _line_counter(text)
    for match in _KEY.finditer(text):
        start = match.start(2)
        depth = start - (text.rfind("\n", 0, start) + 1)
        around = [held for held in around if held[0] < depth][-DEEPEST:]
        while len(heads) > 1 and heads[1][0] < start:
            del heads[0]
        section = [name for place, name in heads[:1] if place < start]
        yield Entry(str(path), line(start), match[2], _value(text, match.end()), (*section, *(key for _, key in around)))
        end = text.find("\n", match.end())
        rest = text[match.end() : end if end >= 0 else None].partition("#")[0].strip()
        if rest in _OPENING:
            around.append((depth, match[2]))
    for bare in _BARE.finditer(text):
        yield Entry(str(path), line(bare.start(1)), bare[1], _plain(bare[2]))


def _line_counter(text: str) -> Callable[[int], int]:
    """Gives the line of a place in a text, counted from 1."""
    ends = [match.start() for match in re.finditer("\n", text)]
    return lambda place: bisect_left(ends, place) + 1


def _value(text: str, start: int) -> Any:
    """What stands behind a separator: a plain value, or a list in brackets or dashes."""
    rest = text[start : start + LONGEST]
    if rest.startswith("["):
        inner = rest[1 : rest.find("]")]
        return [_plain(part) for part in inner.split(",") if part.strip()] if "[" not in inner else _UNREAD
    if rest.startswith(('"', "'")):
        return rest[1:].partition(rest[0])[0]
    dashed = []
    match = _DASH.match(rest)
    while match is not None:
        dashed.append(_plain(match[1]))
        match = _DASH.match(rest, match.end())
    if dashed:
        return dashed
    found = re.match(r"[^\n,}#;]*", rest)
    return _plain(found[0]) if found is not None and found[0].strip() else _UNREAD


def _plain(text: str) -> Any:
    """A number, a truth value, nothing, or the text itself without quotes."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _NUMBER.match(text):
        return float(text) if set(text) & set(".eE") else int(text)
    try:
        known = ast.literal_eval(text) if text.startswith(("'", '"')) else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return known
