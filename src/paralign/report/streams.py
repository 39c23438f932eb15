"""What a command prints, made harmless for the terminal.

No name, log or message from outside reaches it as a command.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from paralign.errors import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class _Neutral:
    """A stream to which only plain text gets."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character gets its number

    def write(self, text: str) -> int:
        """Write a text, made plain."""
        self.stream.write(plain_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def neutral_streams() -> Iterator[None]:
    """While a command runs, whatever is printed by whatever way is plain text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Neutral(before[0]), _Neutral(before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def underlying(stream: TextIO) -> TextIO:
    """The stream itself, for what makes its text plain and also commands the terminal."""
    return stream.stream if isinstance(stream, _Neutral) else stream
