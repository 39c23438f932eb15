"""Sentences in Chinese, found in tables of templates.

Their parts are put into the translation.

Sentences are made in English wherever they are found, for logs and programs. Only what a person reads is translated.
The tables are ``translations/*.toml``: English sentence, ``{}`` for each part that differs, to Chinese, ``{0}`` … for the parts.
``{0:word}`` puts the Chinese for a word there, such as a side, and takes nothing longer; ``{0:value}`` the same, or any text;
``{0:none}`` puts nothing: English has words there that Chinese does not need.
"""

# ruff: noqa: RUF001, RUF002 - Chinese punctuation

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLES = Path(__file__).parent / "translations"
#: what stands for a part in an English sentence
PART = "{}"
#: how often a part may be a sentence that has parts
DEPTH = 3
#: clauses of a sentence that are looked for one by one
CLAUSES = 12
#: letters of the shortest text that is a sentence where it is a part of another: a name is none
SENTENCE = 6
#: sentences whose translations are kept
KEPT = 1024

#: words that stand alone in a place, without "the"
_WORDS = {
    "reference": "参考",
    "candidate": "复现",
    "reference and the candidate": "参考与复现",
    "a side": "某一侧",
    "command": "命令",
    "bytes": "字节",
    "values": "个值",
    "tensors": "个张量",
    "characters": "个字符",
    "metric": "评估指标",
    "metrics": "评估指标",
    "loss": "损失",
    "losses": "损失",
    "compared": "已比较",
    "yes": "是",
    "no": "否",
    "none": "无",
}
#: what a message says of a name that is near
_NEAR = (re.compile(r"; did you mean ('.*')\?"), r"；是否指 \1？")
#: a text in quotation marks: what is inside belongs to no sentence
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
#: the first of two parts that nothing divides
_FIRST = re.compile(rf"{_QUOTED.pattern}|[^\s;,:(]*")


@dataclass(frozen=True)
class Template:
    """One English sentence, cut at its parts, and its translation."""

    pieces: tuple[str, ...]
    chinese: str
    #: the places in which a word stands, such as a side
    worded: tuple[int, ...] = ()

    def parts(self, sentence: str) -> list[str] | None:
        """What stands in the places of a sentence; None where it is another one.

        A part ends as early as it can.
        """
        first, last = self.pieces[0], self.pieces[-1]
        if len(self.pieces) == 1:
            return [] if sentence == first else None
        if not sentence.startswith(first) or not sentence.endswith(last) or len(sentence) < len(first) + len(last):
            return None
        found, at, end = [], len(first), len(sentence) - len(last)
        for piece in self.pieces[1:-1]:
            stop = _end_of_part(sentence, at, end, piece)
            if stop is None:
                return None
            found.append(sentence[at:stop])
            at = stop + len(piece)
        found.append(sentence[at:end])
        return found if all(_is_word(found[number]) for number in self.worded) else None

    def put(self, parts: list[str], depth: int) -> str:
        """The translation with the parts put in, each in Chinese where it is a sentence itself.

        Two parts that nothing divides are one where they make a sentence together.
        """
        held = list(parts)
        for number, piece in enumerate(self.pieces[1:-1]):
            together = held[number] + held[number + 1]
            if not piece and held[number + 1] and " " in together and _whole(together, depth - 1) is not None:
                held[number], held[number + 1] = together, ""
        return self.chinese.format(*(_Part(_inside(part, depth - 1)) for part in held))


class _Part(str):
    """A part of a sentence: what is written behind its number says how it is put in."""

    __slots__ = ()

    def __format__(self, how: str) -> str:
        if how == "none":
            return ""
        if how in ("word", "value"):
            return _WORDS.get(self.removeprefix("the "), str(self))
        return str(self)


def _is_word(part: str) -> bool:
    """Whether a part can stand where a word is put: a longer one belongs to another sentence."""
    word = part.removeprefix("the ")
    return word in _WORDS or " " not in word


def _end_of_part(sentence: str, at: int, end: int, piece: str) -> int | None:
    """Where a part ends that begins at a place and that a piece follows."""
    if not piece:
        word = _FIRST.match(sentence, at, end)
        return at if word is None else word.end()
    quoted = _QUOTED.match(sentence, at, end)
    stop = -1 if quoted is None else sentence.find(piece, quoted.end(), end)
    stop = sentence.find(piece, at, end) if stop < 0 else stop
    return None if stop < 0 else stop


def translated(sentence: str) -> str:
    """A sentence in Chinese; as it is where the tables do not have it.

    >>> translated("there is no stage 'foward'; did you mean 'forward'?")
    "没有阶段 'foward'；是否指 'forward'？"
    """
    return _whole(sentence, DEPTH) or sentence


@lru_cache(maxsize=KEPT)
def _whole(sentence: str, depth: int) -> str | None:
    """A sentence in Chinese, clause by clause where the tables lack it as one.

    None where they have none of it.
    """
    if depth < 0:
        return None
    over_clauses = None
    for template in _templates():
        parts = template.parts(sentence)
        if parts is not None and not any("; " in _NEAR[0].sub("", part) for part in parts):
            return template.put(parts, depth)
        if parts is not None and over_clauses is None:
            over_clauses = template, parts
    clauses = sentence.split("; ")
    if 1 < len(clauses) <= CLAUSES:
        told = [_whole(clauses[0], depth - 1), *(_clause(clause, depth - 1) for clause in clauses[1:])]
        if any(told):
            return "；".join(one or clause for one, clause in zip(told, clauses, strict=True))
    if over_clauses is not None:
        template, parts = over_clauses
        return template.put(parts, depth)
    name, colon, rest = sentence.partition(": ")
    if not colon:
        return None
    both = _inside(name, depth - 1), _whole(rest, depth - 1) or rest
    return None if both == (name, rest) else "：".join(both)


def _clause(clause: str, depth: int) -> str | None:
    """A clause behind another one, which the tables may have with the semicolon before it."""
    told = _whole(clause, depth)
    if told is not None or depth < 0:
        return told
    for template in _templates():
        parts = template.parts(f"; {clause}") if template.pieces[0].startswith("; ") else None
        if parts is not None:
            return template.put(parts, depth).removeprefix("；")
    return None


def _inside(part: str, depth: int) -> str:
    """A part of a sentence, which may be a sentence.

    A name, a number or a text in quotation marks stays.
    """
    near = _NEAR[0].sub(_NEAR[1], part)
    if near != part or depth < 0 or _QUOTED.match(part) or len(part) < SENTENCE or " " not in part.strip():
        return near
    return _whole(part, depth) or part


@cache
def sentences() -> dict[str, str]:
    """All tables in one: English sentence -> Chinese."""
    found: dict[str, str] = {}
    for path in sorted(TABLES.glob("*.toml")):
        for folder in tomllib.loads(path.read_text(encoding="utf-8")).values():
            found.update(folder)
    return found


@cache
def _templates() -> list[Template]:
    """Those with the most words of their own first: the most general cannot hide another."""
    ordered = sorted(sentences().items(), key=lambda both: (-len(both[0].replace(PART, "")), -both[0].count(PART)))
    return [
        Template(tuple(english.split(PART)), chinese, tuple(int(number) for number in re.findall(r"\{(\d+):word\}", chinese)))
        for english, chinese in ordered
    ]
