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
        "epoch",
        "group",
        "layer",
        "line",
        "number",
        "of",
        "part",
        "point",
        "rank",
        "round",
        "sample",
        "seed",
        "set",
        "stage",
        "step",
        "version",
    ]
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
        return of_one(english.format(**values) if values else english)
    text = CHINESE.get(f"{english} ({about})" if about else english)
    if text is None:
        text = english if about or values else _found(english)
    return text.format(**values) if values else text


def of_one(text: str) -> str:
    """An English text in which one of something is called by its singular.

    >>> of_one("the same at 1 more places, 21 places; 1 values differ")
    'the same at 1 more place, 21 places; 1 value differs'
    """
    return _ONE.sub(_singular, text) if "1 " in text else text


def _singular(found: re.Match[str]) -> str:
    """What the pattern has found, in the singular; as it is behind what is numbered."""
    if (found["before"] or "").strip().lower() in _NAMED:
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
