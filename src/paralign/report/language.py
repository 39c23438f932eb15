"""The language of what a command prints: English, or Chinese where there is any.

:mod:`~paralign.report.chinese` or a table of sentences has it.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from paralign.report.chinese import CHINESE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: of this thread and of what it calls; a command sets it once
_CURRENT: ContextVar[str] = ContextVar("language", default="en")

#: nouns that messages count, as they are called when there are several
_COUNTED = [
    "axes",
    "batches",
    "buffers",
    "calls",
    "causes",
    "characters",
    "classes",
    "draws",
    "elements",
    "epochs",
    "files",
    "functions",
    "gradients",
    "inputs",
    "layers",
    "lines",
    "modules",
    "notes",
    "operations",
    "outputs",
    "pairs",
    "parameters",
    "passes",
    "places",
    "points",
    "rounds",
    "rows",
    "runs",
    "samples",
    "seeds",
    "sets",
    "stages",
    "steps",
    "tables",
    "tensors",
    "updates",
    "values",
    "warnings",
    "words",
]

#: their singulars that no rule gives
_IRREGULAR = {"axes": "axis", "batches": "batch", "classes": "class", "passes": "pass"}

#: verbs behind them
_VERBS = {"agree": "agrees", "are": "is", "differ": "differs", "follow": "follows", "have": "has", "were": "was"}

#: one of several things: the number stands alone, and is no place such as "step 1"
_ONE = re.compile(
    r"(?<![\w.,:/-])(?P<before>\w+ )?1 (?P<kind>(?:(?:compared|different|further|more|other|random) )*)"
    rf"(?P<noun>{'|'.join(_COUNTED)})\b(?P<that> that)?(?P<verb> (?:{'|'.join(_VERBS)})\b)?(?![-.'/\w])"
)

#: words behind which a number is a name, or the whole of a share ("1 of 1 tensors")
_NAMED = frozenset(
    [
        "axis",
        "batch",
        "block",
        "channel",
        "class",
        "column",
        "device",
        "dimension",
        "epoch",
        "expert",
        "group",
        "head",
        "index",
        "input",
        "layer",
        "level",
        "line",
        "model",
        "module",
        "number",
        "of",
        "output",
        "part",
        "point",
        "process",
        "rank",
        "round",
        "row",
        "sample",
        "seed",
        "set",
        "stage",
        "step",
        "tensor",
        "token",
        "version",
        "worker",
    ]
)

#: words between two numbers that what follows belongs to: "0 and 1 values"
_BETWEEN = frozenset(["and", "or", "to"])

#: what others wrote: in quotation marks, or behind the name of an exception
_FOREIGN = re.compile(
    r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`|\b[A-Z]\w*(?:Error|Exception|Warning|Failed)\b: .*",
    re.DOTALL,
)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Print in a language (``en`` or ``zh``) inside."""
    before = _CURRENT.set(language)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current() -> str:
    """The language that is spoken, ``en`` or ``zh``."""
    return _CURRENT.get()


def say(english: str, /, about: str = "", **values: Any) -> str:
    """A message, or a stage's sentence, in the language that is spoken.

    English where it has no other.

    Args:
        english: the message, with ``{names}`` for what differs from case to case.
        about: what it is said of, where one English word has several meanings: ``column``.
        values: what is put there.

    >>> say("error {error}", error=0.1)
    'error 0.1'
    >>> with speaking("zh"):
    ...     say("error {error}", error=0.1)
    '误差 0.1'
    """
    if current() != "zh":
        return _filled(english, values) if values else of_one(english)
    text = CHINESE.get(f"{english} ({about})" if about else english)
    if text is None:
        text = english if about or values else _found(english)
    return text.format(**values) if values else text


class _Held:
    """A text that is put into a message as it is: it may be another's words."""

    def __init__(self, text: str, kept: list[str]) -> None:
        self.text, self.kept = text, kept

    def __repr__(self) -> str:
        return repr(self.text)

    def __format__(self, how: str) -> str:
        self.kept.append(format(self.text, how))
        return _HOLE


#: what stands for a held text meanwhile; of a range that no text uses
_HOLE = "\ue0f1"


def _filled(english: str, values: dict[str, Any]) -> str:
    """A message with its values; only its own words are called by their singular."""
    kept: list[str] = []
    held = {name: _Held(value, kept) for name, value in values.items() if isinstance(value, str) and " " in value}
    text = english.format(**{**values, **held})
    if text.count(_HOLE) != len(kept):  # another value has the letter itself
        return english.format(**values)
    told = iter(kept)
    return re.sub(_HOLE, lambda _: next(told), of_one(text))


def of_one(text: str) -> str:
    """An English text in which one of something is called by its singular.

    What is quoted stays as it is.

    >>> of_one("the same at 1 more places, 21 places; 1 values differ: 'got 1 values'")
    "the same at 1 more place, 21 places; 1 value differs: 'got 1 values'"
    """
    if "1 " not in text:
        return text
    told, at = "", 0
    for foreign in _FOREIGN.finditer(text):
        told += _ONE.sub(_singular, text[at : foreign.start()]) + foreign[0]
        at = foreign.end()
    return told + _ONE.sub(_singular, text[at:])


def _singular(found: re.Match[str]) -> str:
    """What the pattern has found, in the singular; as it is behind what is numbered."""
    before = (found["before"] or "").strip().lower()
    if before in _NAMED or (before in _BETWEEN and found.string[: found.start()].rstrip()[-1:].isdigit()):
        return found[0]
    noun = _IRREGULAR.get(found["noun"], found["noun"][:-1])
    verb = f" {_VERBS[found['verb'].strip()]}" if found["verb"] else ""
    return f"{found['before'] or ''}1 {found['kind']}{noun}{found['that'] or ''}{verb}"


def _found(sentence: str) -> str:
    """What a stage has said, in Chinese; as it is where the tables lack it."""
    from paralign.report.translating import translated

    return translated(sentence)


def stage(name: str) -> str:
    """A stage as a heading calls it: users type its name, so that stays.

    >>> with speaking("zh"):
    ...     stage("forward")
    'forward 前向'
    """
    translated = say(name)
    return name if translated == name else f"{name} {translated}"
