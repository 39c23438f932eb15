"""The user's TOML files, read within bounds of size and depth, with one kind of error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import Limit, checked_path, open_regular
from paralign.errors import UsageError, quoted, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

#: rules for 10,000 tensors; a project file has some hundred bytes
TOML = Limit("PARALIGN_MAX_TOML", 1 << 20, "bytes")
#: parts of a dotted key, and tables in tables: the parser copies what lies below for each
_DEEPEST = 32
_LARGEST = 2**63
_LONGEST_TEXT = 4096


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The table in a file.

    Args:
        path: the file.
        what: how errors begin, such as ``paralign.toml is no valid TOML``.

    Raises:
        UsageError: it cannot be read, is too large or nested too deeply, or is no TOML.
    """
    return parsed(read_text(path, what), what, str(path))


def read_text(path: Path, what: str) -> str:
    """The text of a TOML file, before it is parsed.

    Raises:
        UsageError: it cannot be read, or is too large or no UTF-8.
    """
    with open_regular(checked_path(path)) as handle:
        data = handle.read(TOML.value + 1)
    TOML.check(len(data), "the file has at least", str(path), UsageError)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise _invalid(what, f"it is no text in UTF-8 (byte {fault.start})", str(path)) from fault


def parsed(text: str, what: str, where: str) -> dict[str, Any]:
    """The table that a text describes.

    Raises:
        UsageError: it is no TOML, is nested too deeply, or holds a number or a text that nothing here takes.
    """
    deepest = depth(text)
    if deepest > _DEEPEST:
        raise _invalid(what, f"it is nested at least {deepest} deep, {_DEEPEST} are allowed", where)
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # ValueError: also of numbers with more digits than Python reads
        raise _invalid(what, shortened(str(fault), 300), where) from fault
    _check(table, "", where)
    return table


def _invalid(what: str, cause: str, where: str) -> UsageError:
    return UsageError(f"{what}: {cause}", where=where, hint="correct the line that the message names")


def depth(text: str) -> int:
    """How many parts the longest dotted key has, or how many brackets are open at once.

    Texts and comments are left out.

    >>> depth("a.b.c = [[1], {x = 2}] # ....."), depth("a = '.......'")
    (3, 1)
    """
    deepest = parts = 1
    opened = place = 0
    while place < len(text):
        letter = text[place]
        if letter in "\"'":
            place = _behind_text(text, place)
            continue
        if letter == "#":
            place = text.find("\n", place)
            if place < 0:
                break
        elif letter == ".":
            parts += 1
        elif letter in "[{":
            opened += 1
        elif letter in "]}":
            opened = max(0, opened - 1)
        if letter in "=,\n#[]{}":
            parts = 1
        deepest = max(deepest, parts, opened)
        place += 1
    return deepest


def _behind_text(text: str, place: int) -> int:
    """Where the text that begins at a quotation mark ends, else the end of everything."""
    mark = text[place]
    end = mark * 3 if text.startswith(mark * 3, place) else mark
    place += len(end)
    while place < len(text):
        if mark == '"' and text[place] == "\\":
            place += 2
        elif text.startswith(end, place):
            return place + len(end)
        elif len(end) == 1 and text[place] == "\n":
            return place
        else:
            place += 1
    return place


def _check(value: Any, key: str, where: str) -> None:
    """Refuse what no setting takes, wherever it stands.

    Numbers beyond 64 bits, texts with a NUL or without end.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            _check(name, key, where)
            _check(inner, f"{key}.{name}" if key else name, where)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, key, where)
    elif isinstance(value, str):
        if "\0" in value or len(value) > _LONGEST_TEXT:
            fault = "a NUL" if "\0" in value else f"{len(value)} characters, at most {_LONGEST_TEXT} are allowed"
            raise UsageError(f"the text {quoted(value)} holds {fault}", where=f"{where}: {shortened(key)}", hint="correct it")
    elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise UsageError(f"{quoted(value)} does not fit into 64 bits", where=f"{where}: {shortened(key)}", hint="give a smaller number")
