"""Where reports are printed.

Text that comes from outside is made plain, rich's own commands to the terminal pass.
"""

from __future__ import annotations

import re
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console
from rich.segment import Segment

from paralign.errors import plain_text
from paralign.report.streams import underlying

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

#: columns of a report that no terminal shows: as wide as it needs to be
WIDE = 400


#: blanks that fill a line up to the width of a block
_FILLING = re.compile(r"[ \t]+(?=\n)")


class _Trimmed:
    """A stream whose lines end with their last character: rich fills blocks up with blanks."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, as rich does."""
        return self.stream.write(_FILLING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Plain(Console):
    """A console that prints no control characters but its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of text, made plain; rich's own commands pass."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_text(text), style, control)


def console(*, errors: bool = False) -> Console:
    """Standard output, or standard error."""
    file = underlying(sys.stderr if errors else sys.stdout)
    out = _Plain(highlight=False, file=file)
    if out.is_terminal or errors:
        return out
    return _Plain(highlight=False, file=cast("IO[str]", _Trimmed(file)), width=WIDE)
