"""What ``--help`` prints, in the language that is spoken: one table has all of it.

The tables are ``report/translations/help/<language>.toml``: English as the commands say it, and what stands for it.
"""

# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.report.language import current

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = Path(__file__).parents[1] / "report/translations/help"

#: the section with what stands behind an exit code; a meaning there may be a word that another section has with another
EXITS = "exits"
#: what divides the codes of a list: "exit codes: 0 aligned · 1 diverged"
_BETWEEN = " · "
#: what stands before the first code
_HEAD = re.compile(r"(exit codes[^:]*): (?=\d)")
#: characters that no line may begin with, and those that none may end with
_CLOSING = "，。；：、）？！”"
_OPENING = "（“"


@cache
def table(language: str) -> dict[str, dict[str, str]]:
    """Section -> English -> a language's words; empty for one that has no table, as English."""
    path = TABLES / f"{language}.toml"
    if not path.exists():
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return dict(tomllib.loads(path.read_text(encoding="utf-8")))


@cache
def _texts(language: str) -> dict[str, str]:
    return {english: text for name, section in table(language).items() if name != EXITS for english, text in section.items()}


def lacking(english: str, language: str) -> list[str]:
    """What of a text of the help has no words in a language.

    That is the text itself, or parts of a list of exit codes.
    """
    head, codes = _exit_codes(english)
    if not codes:
        return [] if english in _texts(language) else [english]
    known = table(language).get(EXITS, {})
    return [part for part in (head, *(meaning for _, meaning in codes)) if part not in known]


def translated(english: str) -> str:
    """A text of the help in the language that is spoken; English where it has no other."""
    if lacking(english, current()):
        return english
    head, codes = _exit_codes(english)
    if not codes:
        return _texts(current())[english]
    known = table(current())[EXITS]
    return f"{known[head]}：{_BETWEEN.join(f'{code} {known[meaning]}' for code, meaning in codes)}"


def _exit_codes(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands before a list of exit codes, and each code with its meaning.

    No codes in another text.
    """
    head = _HEAD.match(text)
    if head is None:
        return "", []
    parts = (part.partition(" ") for part in text[head.end() :].split(_BETWEEN))
    return head[1], [(code, meaning) for code, _, meaning in parts]


class Formatter(argparse.HelpFormatter):
    """argparse's own form, with all texts in the language that is spoken.

    Lines are as long as they look.
    """

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Add the usage, with the word before it."""
        super().add_usage(usage, actions, groups, translated("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        """Begin a section, such as that of the options."""
        super().start_section(None if heading is None else translated(heading))

    def add_text(self, text: str | None) -> None:
        """Add a description, or what stands at the end."""
        super().add_text(text if text is None or text is argparse.SUPPRESS else translated(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return None if action.help is None else translated(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if text.isascii() else wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.isascii():
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in wrapped(" ".join(text.split()), width - len(indent)))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many columns.

    A Chinese character has two, and a line may end behind any of them.

    >>> wrapped("比较两份记录 with numpy", 10)
    ['比较两份记', '录 with', 'numpy']
    """
    lines, line = [], ""
    for piece in _pieces(text):
        if line.strip() and _columns(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def _pieces(text: str) -> Iterable[str]:
    """The parts of a text that lines are not broken inside of.

    They are words, and single wide characters with their punctuation.
    """
    pattern = (
        rf"[{_OPENING}]*(?:\s+|[^\s{_OPENING}{_CLOSING}\u2e80-\uffff]+|[^\s{_OPENING}{_CLOSING}])[{_CLOSING}]*|[{_OPENING}{_CLOSING}]+"
    )
    return re.findall(pattern, text)


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
