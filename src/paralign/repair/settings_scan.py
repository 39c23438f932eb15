"""The values of a settings file with their places: JSON, TOML, INI, YAML, properties.

Only what can be replaced without touching anything else is told. Comments, block texts, anchors and what is not understood are passed over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

#: levels of lists and tables: deeper ones are generated
DEEPEST = 40

#: values of a file: more is a table of data
MOST = 4_000

#: characters of a line: longer ones are data
LONGEST = 4_000

#: words that are truth values, in JSON and TOML the first two alone
TRUTHS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}

#: words that say that there is no value
_NOTHING = frozenset({"null", "none", "~"})

_NUMBER = re.compile(r"[+-]?(?:\d[\d_]{0,300}(?:\.[\d_]{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,4})?$")
_DOUBLE = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SINGLE = re.compile(r"'[^'\n]*'")
_LINES = {'"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), "'": re.compile(r"'(?:[^']|'')*'")}
_ENDS = {'"""': re.compile(r'\\.|"""', re.DOTALL), "'''": re.compile("'''")}
_GAP = re.compile(r"(?:[\s,]|#[^\n]*)*")
_WHITE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[^,\[\](){}\r\n#]+")
_FLOW_KEY = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w.\- ]{1,200}?)\s*[:=]\s*""")

_TOML_HEAD = re.compile(r"(\[\[?)([^\[\]\r\n]{1,200})\]\]?")
_TOML_KEY = re.compile(r"""((?:"[^"\n]*"|'[^'\n]*'|[\w-]+)(?:[ \t]*\.[ \t]*(?:"[^"\n]*"|'[^'\n]*'|[\w-]+))*)[ \t]*=[ \t]*""")
_KEY_PART = re.compile(r""""([^"\n]*)"|'([^'\n]*)'|([\w-]+)""")

_INI_HEAD = re.compile(r"[ \t]*\[([^\[\]\r\n]+)\][ \t]*(?:[#;].*)?$")
_INI_KEY = re.compile(r"([ \t]*)([^\s=:#;!\[][^=:\r\n]{0,200}?)[ \t]*[=:][ \t]*")
_PLAIN_KEY = re.compile(r"([ \t]*)([A-Za-z_][\w.-]*)[ \t]+(?=\S)")

_YAML_DASH = re.compile(r"-(?:[ \t]+|(?=\r?$))")
_YAML_KEY = re.compile(r"""("[^"\n]*"|'[^'\n]*'|[^\s#:,\[\]{}&*!|>'"%@`-][^#:\r\n]{0,200}?|-[\w-]+)[ \t]*:(?:[ \t]+|(?=\r?$))""")


@dataclass(frozen=True, eq=False)
class Entry:
    """A value of a settings file.

    Args:
        keys: the keys and sections that lead to it, and its places in lists.
        start: its first character.
        end: the character behind its last one.
        value: a number, a text, a truth value, None, or a list of such; Ellipsis of what is not understood.
        items: how many entries a list has; -1 of what is none.
    """

    keys: tuple[str | int, ...]
    start: int
    end: int
    value: Any
    items: int = -1

    @property
    def name(self) -> str:
        """The last key that is no place in a list."""
        return next((str(key) for key in reversed(self.keys) if isinstance(key, str)), "")


class Unscanned(ValueError):
    """A text that is not of the format that its name tells."""


def scanned(text: str, suffix: str) -> list[Entry]:
    """The values of a text in the order in which they stand.

    A list comes before its entries.

    Args:
        text: of the file.
        suffix: its name's, as ``.toml``.

    Raises:
        Unscanned: brackets or quotes do not close, or there is too much of it.
    """
    scan = _Scan(text, strict=suffix in (".json", ".toml"))
    start = 1 if text.startswith("\ufeff") else 0
    if suffix == ".json":
        scan.flow(_GAP.match(text, start).end(), (), 0)  # type: ignore[union-attr]
    elif suffix == ".toml":
        _toml(scan, start)
    elif suffix in (".yaml", ".yml"):
        _Yaml(scan).run(start)
    else:
        _ini(scan, start, bare=suffix in (".conf", ".cfg", ".properties"))
    return scan.ordered()


class _Scan:
    """A text and the values that were found in it so far.

    Args:
        text: of a file.
        strict: words for truth values are those of JSON alone.
    """

    def __init__(self, text: str, *, strict: bool) -> None:
        self.text, self.strict = text, strict
        self.found: list[Entry] = []

    def ordered(self) -> list[Entry]:
        """The entries by their place, the outer ones first."""
        return sorted(self.found, key=lambda each: (each.start, -each.end))

    def add(self, keys: tuple[str | int, ...], start: int, end: int, value: Any, items: int = -1) -> None:
        """Note a value."""
        if len(self.found) >= MOST:
            raise Unscanned("too many values")
        self.found.append(Entry(keys, start, end, value, items))

    def flow(self, at: int, keys: tuple[str | int, ...], depth: int) -> tuple[int, Any]:
        """A value in brackets, in quotes or bare; gives its end and the value."""
        char = self.text[at : at + 1]
        if depth > DEEPEST or not char:
            raise Unscanned("too deep, or the end of the file")
        if char in "[(":
            return self._list(at, keys, depth)
        if char == "{":
            return self._table(at, keys, depth)
        if char in "\"'":
            return self.quoted(at, keys)
        bare = _BARE.match(self.text, at)
        if bare is None:
            raise Unscanned(f"no value at character {at}")
        return self.bare(at, at + len(bare[0].rstrip()), keys)

    def _list(self, at: int, keys: tuple[str | int, ...], depth: int) -> tuple[int, Any]:
        start, close = at, ")" if self.text[at] == "(" else "]"
        values: list[Any] = []
        at = self._gap(at + 1)
        while self.text[at : at + 1] != close:
            at, value = self.flow(at, (*keys, len(values)), depth + 1)
            values.append(value)
            at = self._gap(at)
        self.add(keys, start, at + 1, values, len(values))
        return at + 1, values

    def _table(self, at: int, keys: tuple[str | int, ...], depth: int) -> tuple[int, Any]:
        at = self._gap(at + 1)
        while self.text[at : at + 1] != "}":
            key = _FLOW_KEY.match(self.text, at)
            if key is None:
                raise Unscanned(f"no key at character {at}")
            at, _ = self.flow(self._gap(key.end()), (*keys, *_parts(key[1], dotted=not self.strict)), depth + 1)
            at = self._gap(at)
        return at + 1, ...

    def _gap(self, at: int) -> int:
        return _GAP.match(self.text, at).end()  # type: ignore[union-attr]

    def quoted(self, at: int, keys: tuple[str | int, ...]) -> tuple[int, Any]:
        """A text in quotes; of one in three quotes only the end is looked for."""
        for three in ('"""', "'''"):
            if self.text.startswith(three, at):
                close = next((each for each in _ENDS[three].finditer(self.text, at + 3) if each[0] == three), None)
                if close is None:
                    raise Unscanned("a quote that does not close")
                end = close.end()
                while self.text[end : end + 1] == three[0]:
                    end += 1
                return end, ...
        match = (_DOUBLE if self.text[at] == '"' else _SINGLE).match(self.text, at)
        if match is None:
            raise Unscanned("a quote that does not close")
        inner = match[0][1:-1]
        value: Any = inner
        if match[0][0] == '"' and "\\" in inner:
            try:
                value = json.loads(match[0])
            except ValueError:
                value = ...
        self.add(keys, at, match.end(), value)
        return match.end(), value

    def bare(self, start: int, end: int, keys: tuple[str | int, ...]) -> tuple[int, Any]:
        """A value without quotes between two places."""
        value = typed(self.text[start:end], strict=self.strict)
        self.add(keys, start, end, value)
        return end, value

    def line(self, start: int, end: int, keys: tuple[str | int, ...], comment: str, *, lists: bool) -> int:
        """The value in the rest of a line; gives its end, or that of the line.

        Args:
            start: where the value begins.
            end: of the line.
            keys: of the value.
            comment: letters that begin a comment behind blanks.
            lists: several entries are a list whatever they are; else only numbers.
        """
        if self.text[start:end].startswith(("[", "{")) or (lists and self.text[start:end].startswith("(")):
            return self._in_brackets(start, end, keys)
        if self.text[start:end].startswith(('"', "'")):
            return self._in_quotes(start, end, keys, comment, lists=lists)
        note = re.search(rf"(?:^|[ \t])[{comment}]", self.text[start:end])
        end_of_value = start + len(self.text[start : start + note.start() if note else end].rstrip())
        if end_of_value <= start:
            return end
        found, at = [], start
        for part in self.text[start:end_of_value].split(","):
            first = at + len(part) - len(part.lstrip())
            found += [(first, first + len(part.strip()))] if part.strip() else []
            at += len(part) + 1
        if len(found) == 1 and lists:
            parts = [(start + each.start(), start + each.end()) for each in re.finditer(r"\S+", self.text[start:end_of_value])]
            found = parts if all(self._is_number(*each) for each in parts) else found
        if len(found) > 1 and (lists or all(self._is_number(*each) for each in found)):
            values = [self.bare(*each, (*keys, number))[1] for number, each in enumerate(found)]
            self.add(keys, found[0][0], found[-1][1], values, len(values))
        else:
            self.bare(start, end_of_value, keys)
        return end

    def _in_brackets(self, start: int, end: int, keys: tuple[str | int, ...]) -> int:
        """A list or a table, if it closes: some formats have other texts that begin so."""
        known = len(self.found)
        try:
            return max(end, self.flow(start, keys, 0)[0])
        except Unscanned:
            del self.found[known:]
            return end

    def _in_quotes(self, start: int, end: int, keys: tuple[str | int, ...], comment: str, *, lists: bool) -> int:
        """A text in quotes, if nothing but a comment follows; gives the end of its line.

        In YAML one may go on over lines; in other formats a value may begin with an apostrophe.

        Raises:
            Unscanned: a quote that must close does not.
        """
        known = len(self.found)
        try:
            after = self.quoted(start, keys)[0]
        except Unscanned:
            if lists:
                return end
            whole = _LINES[self.text[start]].match(self.text, start)
            if whole is None:
                raise
            return whole.end()
        if after <= end and re.match(rf"[ \t]*(?:$|[ \t][{comment}])", self.text[after:end]) is None:
            del self.found[known:]
            whole = None if lists else _LINES[self.text[start]].match(self.text, start)
            after = after if whole is None else whole.end()
        return max(end, after)

    def _is_number(self, start: int, end: int) -> bool:
        return _NUMBER.match(self.text[start:end]) is not None

    def end_of_line(self, at: int) -> tuple[int, int]:
        """Where the line around a place ends, and where the next one begins."""
        end = self.text.find("\n", at)
        end = len(self.text) if end < 0 else end
        return end - (self.text[max(at, end - 1) : end] == "\r"), end + 1


def typed(text: str, *, strict: bool) -> Any:
    """A number, a truth value, None or a text.

    Ellipsis of what is none of these in a strict format.
    """
    lower = text.lower()
    if _NUMBER.match(text) is not None:
        plain = text.replace("_", "")
        return float(plain) if set(plain) & set(".eE") else int(plain)
    if strict:
        return {"true": True, "false": False, "null": None}.get(text, ...)
    if lower in TRUTHS:
        return TRUTHS[lower]
    return None if lower in _NOTHING else text


def _parts(key: str, *, dotted: bool = True) -> tuple[str, ...]:
    """The parts of a dotted key; of one in quotes, the key itself."""
    if not dotted or (key[:1] in ('"', "'") and key[-1] == key[0] and key.count(key[0]) == 2):  # noqa: PLR2004 - one pair of quotes
        return (key.strip("\"'"),)
    return tuple(str(one or two or three) for one, two, three in _KEY_PART.findall(key)) or (key,)


def _toml(scan: _Scan, at: int) -> None:
    text = scan.text
    table: tuple[str | int, ...] = ()
    tables: dict[tuple[str | int, ...], int] = {}
    while (at := _GAP.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        head = _TOML_HEAD.match(text, at)
        if head is not None:
            table = _parts(head[2].strip())
            if head[1] == "[[":
                tables[table] = tables.get(table, -1) + 1
                table = (*table, tables[table])
            at = head.end()
            continue
        key = _TOML_KEY.match(text, at)
        if key is None:
            raise Unscanned(f"no key at character {at}")
        at = scan.flow(key.end(), (*table, *_parts(key[1])), 0)[0]


def _ini(scan: _Scan, at: int, *, bare: bool) -> None:
    """Sections, keys and values; a line that is set in goes on with the value above."""
    section: tuple[str, ...] = ()
    above: tuple[int, tuple[str | int, ...]] | None = None
    further = 0
    while at < len(scan.text):
        start, (end, at) = at, scan.end_of_line(at)
        line = scan.text[start:end]
        told = line.lstrip()
        depth = len(line) - len(told)
        if not told or told[0] in "#;!" or len(line) > LONGEST:
            continue
        if above is not None and depth > above[0]:
            scan.line(start + depth, end, (*above[1], further), "#;", lists=True)
            further += 1
            continue
        above = None
        head = _INI_HEAD.match(line)
        if head is not None:
            section = (head[1].strip(),)
            continue
        key = _INI_KEY.match(line) or (_PLAIN_KEY.match(line) if bare else None)
        if key is not None:
            above, further = (depth, (*section, key[2])), 0
            if key.end() < len(line):
                at = scan.end_of_line(scan.line(start + key.end(), end, above[1], "#;", lists=True))[1]


class _Yaml:
    """Block style by its indentation; values in brackets as they stand."""

    def __init__(self, scan: _Scan) -> None:
        self.scan = scan
        self.around: list[tuple[int, tuple[str | int, ...]]] = []
        self.counts: dict[tuple[int, tuple[str | int, ...]], int] = {}
        self.block = -1

    def run(self, at: int) -> None:
        """Read all lines."""
        while at < len(self.scan.text):
            end, following = self.scan.end_of_line(at)
            last = self._line(at, end)
            at = following if last is None else self.scan.end_of_line(last)[1]

    def _line(self, start: int, end: int) -> int | None:
        """Read a line; gives the place behind its value, where it has one."""
        line = self.scan.text[start:end]
        told = line.lstrip(" ")
        depth = len(line) - len(told)
        if self.block >= 0:
            if not told or depth > self.block:
                return None
            self.block = -1
        if not told or told[0] in "#%\t" or len(line) > LONGEST:
            return None
        if told.startswith(("---", "...")):
            self.around = []
            return None
        keys, at = self._key(line, depth)
        text = line[at:]
        if text.startswith(("|", ">")):
            self.block = depth
            return None
        if not text or text[0] in "#&*!@`%" or not keys:
            return None
        if len(self.around) > DEEPEST:
            raise Unscanned("too deep")
        return self.scan.line(start + at, end, keys, "#", lists=False)

    def _key(self, line: str, at: int) -> tuple[tuple[str | int, ...], int]:
        """The keys that lead to a line's value, and where that begins."""
        while (dash := _YAML_DASH.match(line, at)) is not None:
            keys = self._keys(at, dashed=True)
            number = self.counts[at, keys] = self.counts.get((at, keys), -1) + 1
            self.around = [held for held in self.around if held[0] < at or held == (at, keys)]
            self.around.append((at + 1, (*keys, number)))
            at = dash.end()
        key = _YAML_KEY.match(line, at)
        keys = self._keys(at)
        if key is None:
            return keys, at
        keys = (*keys, key[1].strip("\"'"))
        self.around = [*(held for held in self.around if held[0] < at), (at, keys)]
        return keys, key.end()

    def _keys(self, depth: int, *, dashed: bool = False) -> tuple[str | int, ...]:
        """The keys around a place; a dash may stand as far left as its list's key."""
        held = [keys for at, keys in self.around if at < depth or (dashed and at == depth and isinstance(keys[-1], str))]
        return held[-1] if held else ()
