"""A settings file and edits of its values.

How a value is written in its format, and whether the file still is one.
"""

from __future__ import annotations

import configparser
import json
import math
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paralign.repair.edited_source import ENDINGS, Text, Unreadable, is_python
from paralign.repair.proposals import is_number
from paralign.repair.settings_scan import Unscanned, scanned, typed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.repair.settings_scan import Entry

#: bytes of a settings file: larger ones are data
LARGEST = 256_000

#: words for truth values that stand for one another
_TRUTHS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("yes", "no"), ("Yes", "No"), ("on", "off"), ("On", "Off"))

#: a text without quotes: nothing in it means something else in any format
_PLAIN_TEXT = re.compile(r"[A-Za-z][\w./+-]{0,80}")


class Settings(Text):
    """A settings file: its text, and its values with their places.

    Raises:
        Unreadable: it is no text in UTF-8, too large, or not of the format that its name tells.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        super().__init__(path, content)
        self.suffix = path.suffix.lower()
        if len(content) > LARGEST:
            raise Unreadable(f"{path} has more than {LARGEST:,} bytes")
        if "\0" in self.text or not is_settings(path, content):
            raise Unreadable(f"{path} cannot be read as {self.suffix[1:]}")
        self.strict = self.suffix in (".json", ".toml")
        try:
            found = scanned(self.text, self.suffix)
        except (Unscanned, RecursionError) as error:
            raise Unreadable(f"{path}: {error}") from error
        last = {each.keys: each for each in found}  # of a key that stands there twice, the last one holds
        self.entries = [each for each in found if last[each.keys] is each]

    @cached_property
    def scalars(self) -> list[Entry]:
        """The values that are no lists."""
        return [each for each in self.entries if each.items < 0 and each.value is not ...]

    def written(self, entry: Entry, value: Any) -> str:
        """A value as another one is written, in whose place it comes; '' where it cannot be."""
        text = self.text[entry.start : entry.end]
        if isinstance(value, (list, tuple)):
            return self._in_place(entry, list(value)) or ("" if set(text) & set("\r\n#;") else self._list(text, entry, list(value)))
        if isinstance(entry.value, (list, dict)):
            return ""
        return self._scalar(text, entry.value, value)

    def _scalar(self, text: str, have: Any, value: Any) -> str:
        quote = text[0] if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1 else ""
        if isinstance(value, bool):
            return self._truth(text, value)
        if is_number(value):
            told = _number(value, whole=isinstance(have, int) and not isinstance(have, bool))
            return f"{quote}{told}{quote}" if quote and isinstance(have, str) and is_number(typed(have, strict=False)) else told
        if not isinstance(value, str):
            return ""
        if quote == '"' and self.strict:
            return json.dumps(value, ensure_ascii=False)
        if quote or self.strict:
            quote = quote or '"'
            return f"{quote}{value}{quote}" if not set(value) & set("\\\r\n\t\"'") else ""
        return value if _PLAIN_TEXT.fullmatch(value) and typed(value, strict=False) == value else ""

    def _truth(self, text: str, value: bool) -> str:
        for pair in _TRUTHS:
            if text in pair:
                return pair[not value]
        return "true" if value else "false"

    def _in_place(self, entry: Entry, values: list[Any]) -> str:
        """A list of as many entries, of which only those that differ are written anew.

        '' where one cannot be.
        """
        inner = self._inner(entry)
        if len(inner) != len(values):
            return ""
        parts, at = [], entry.start
        for each, value in zip(inner, values, strict=True):
            text = self.text[each.start : each.end]
            if isinstance(value, (list, tuple)) != isinstance(each.value, list):
                return ""
            if isinstance(value, (list, tuple)):
                text = self._in_place(each, list(value)) if value or each.value else text
            elif value != each.value or isinstance(value, bool) != isinstance(each.value, bool):
                text = self._scalar(text, each.value, value)
            if not text:
                return ""
            parts += [self.text[at : each.start], text]
            at = each.end
        return "".join(parts) + self.text[at : entry.end]

    def _inner(self, entry: Entry) -> list[Entry]:
        """The entries of a list."""
        return [each for each in self.entries if entry.start <= each.start < entry.end and each.keys[:-1] == entry.keys]

    def _list(self, text: str, entry: Entry, values: list[Any]) -> str:
        """A list as another one is written: in brackets, or with the same separators."""
        inner = self._inner(entry)
        sample = next((each for each in inner if each.items < 0), entry)
        parts = [self._nested(each) if isinstance(each, (list, tuple)) else self._entry(sample, each) for each in values]
        if "" in parts:
            return ""
        if text[:1] in ("[", "(") and entry.items >= 0:
            return f"{text[0]}{', '.join(parts)}{text[-1]}"
        if self.strict or any(isinstance(each, (list, tuple)) for each in values):
            return ""
        between = self.text[inner[0].end : inner[1].start] if len(inner) > 1 else ", "
        return between.join(parts) if "\n" not in between else ""

    def _nested(self, values: list[Any] | tuple[Any, ...]) -> str:
        """A list in a list."""
        parts = [_number(each, whole=isinstance(each, int)) if is_number(each) else "" for each in values]
        return f"[{', '.join(parts)}]" if "" not in parts else ""

    def _entry(self, sample: Entry, value: Any) -> str:
        """An entry of a list, as another one of it is written."""
        if sample.items >= 0:  # of an empty list nothing is known
            return _number(value, whole=isinstance(value, int)) if is_number(value) else self._scalar('""', "", value)
        whole = isinstance(value, int) and isinstance(sample.value, int)
        text = self.text[sample.start : sample.end]
        return self._scalar(text, sample.value if whole or not is_number(value) else float(value), value)


def _number(value: Any, *, whole: bool) -> str:
    """A number as people write it: a float with a point, unless a whole one stood there."""
    if isinstance(value, int):
        return repr(value) if whole else repr(float(value))
    if not math.isfinite(value):
        return ""
    if whole and value == int(value):
        return repr(int(value))
    return re.sub(r"e([+-]?)0+(?=\d)", r"e\1", repr(value)).replace("e+", "e")


def is_settings(path: Path, content: bytes) -> bool:
    """Whether a content is what a file's name says.

    Of formats without a parser at hand: whether its values can be told apart.
    """
    suffix = path.suffix.lower()
    try:
        text = content.decode("utf-8-sig")
        if suffix == ".json":
            json.loads(text)
        elif suffix == ".toml":
            tomllib.loads(text.replace("\r\n", "\n"))
        elif suffix == ".ini":
            _ini().read_string(text)
        else:
            scanned(text, suffix)
    except configparser.MissingSectionHeaderError:  # a file of keys and values alone
        return True
    except (ValueError, configparser.Error, RecursionError, MemoryError, AttributeError, TypeError, LookupError):
        return False  # of some broken files configparser itself fails
    return True


def _ini() -> configparser.RawConfigParser:
    return configparser.RawConfigParser(strict=False, allow_no_value=True)


def is_valid(path: Path, content: bytes) -> bool:
    """Whether a content is what its name says: Python, or a format of settings."""
    return is_settings(path, content) if path.suffix.lower() in ENDINGS else is_python(content)
