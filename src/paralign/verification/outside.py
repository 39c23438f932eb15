"""Files that a port read and that the certificate does not cover.

Those lie outside of its folder, or appeared while it was judged.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.worker.process import deeds
from paralign.worker.process.files import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture

#: files that a sentence names
_NAMED = 3


@dataclass
class Outside:
    """What a port read beside its own files.

    Args:
        read: files outside of its folder, as they were before.
        made: files that another process made or changed while the port was judged: an answer may have come through them.
        written: files that it wrote itself.
    """

    read: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def add(self, captures: Iterable[Capture], handed: set[str], began: float, own: dict[str, str]) -> None:
        """Add what a round's processes did.

        Args:
            captures: all that they made.
            own: path -> fingerprint of the port's files before the first round.
            handed: folders of captures that they were given to read.
            began: when the judgement did, seconds since the epoch.
        """
        told = [str(deed).partition(" ") for capture in captures for deed in capture.manifest.settings.get("deeds", ())]
        self.written |= {argument for event, _, argument in told if event == deeds.MADE}
        for event, _, path in told:
            if event != deeds.OUTSIDE or path in self.written or any(path.startswith(folder + os.sep) for folder in handed):
                continue
            if path in own and fingerprint(path) == own[path]:
                continue
            (self.made if _is_later(path, began) else self.read).add(path)

    def reasons(self) -> list[str]:
        """Why the port cannot be accepted."""
        return [f"it read files that another process made while it was judged: {_named(self.made)}"] if self.made else []

    def weaknesses(self, port: Path) -> list[str]:
        """What the certificate does not cover."""
        found = {path for path in self.read if not Path(path).is_relative_to(port)}
        return [f"it read files outside of its folder, which the certificate does not cover: {_named(found)}"] if found else []


def _is_later(path: str, began: float) -> bool:
    """Whether a file that was there is gone, or was changed after a time."""
    try:
        status = Path(path).stat()
    except OSError:
        return True
    return max(status.st_mtime, status.st_ctime) >= began


def _named(paths: set[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(sorted(paths)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
