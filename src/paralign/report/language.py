"""The language of what a command prints: English, or Chinese where there is any.

:mod:`~paralign.report.chinese` or a table of sentences has it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from paralign.report.chinese import CHINESE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: of this thread and of what it calls; a command sets it once
_CURRENT: ContextVar[str] = ContextVar("language", default="en")


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
        return english.format(**values) if values else english
    text = CHINESE.get(f"{english} ({about})" if about else english)
    if text is None:
        text = english if about or values else _found(english)
    return text.format(**values) if values else text


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
