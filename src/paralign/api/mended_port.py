"""Repairs of a port that ``paralign repair`` has proven, written into its files.

Files that somebody has edited are left; the ledger has a note.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.errors import one_line
from paralign.port.drafts import kept_edits
from paralign.port.drafts.drafting import rewrite_ledger
from paralign.port.edits.ledger import Fate, Place
from paralign.port.sources.texts import decoded
from paralign.repair import applying

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paralign.port.drafts.drafting import Draft
    from paralign.repair.trying import Repaired


@dataclass
class Mending:
    """What became of a repair.

    Places of the ledger, copies of files as they were, and files that the user has edited.
    """

    places: list[Place] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def mend(made: Draft, repaired: Repaired, originals: Mapping[str, str]) -> Mending:
    """Write proven edits into the port and note their lines.

    Nothing is written where one of them is in a file of the user's.

    Args:
        made: the port; its ledger gets a place for each line that is edited.
        repaired: what the repair of the project came to.
        originals: the source's texts by the ledger's paths.

    Raises:
        UsageError: a file has changed since it was checked; nothing was written.
        WriteFailed: a file cannot be written.
    """
    found = Mending()
    if not repaired.patch:
        return found
    target, known = made.folder.resolve(), kept_edits.recorded(made.folder)
    names = {path: path.relative_to(target).as_posix() if path.is_relative_to(target) else str(path) for path in repaired.after}
    found.left = [name for path, name in names.items() if not kept_edits.is_as_written(name, known, repaired.before[path])]
    if found.left:
        return found
    said = one_line("; ".join(f"{finding.cause} {finding.fix}" for _, finding in repaired.findings))
    for path in sorted(repaired.after):
        shown = made.shown(path)
        if shown in originals:
            found.places += _places(shown, originals[shown], repaired.before[path], repaired.after[path], said)
    found.copies = applying.apply(repaired)
    made.ledger.places += found.places
    kept_edits.record_again(made.folder, [*names.values(), *rewrite_ledger(made)])
    return found


def _places(shown: str, original: str, before: bytes, after: bytes, said: str) -> list[Place]:
    """A place for every line of the original whose line in the port was edited."""
    ours, theirs, now = original.splitlines(), decoded(before)[0].splitlines(), decoded(after)[0].splitlines()
    back = _lines_of(ours, theirs)
    found = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, theirs, now, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        at = back[min(start, len(theirs) - 1)] if theirs else 1
        text = "\n".join(theirs[start:end]).strip() or "\n".join(now[first:last]).strip()
        found.append(Place(shown, at, 1, "paralign repair", Fate.REPAIRED, text, said))
    return found


def _lines_of(ours: list[str], theirs: list[str]) -> list[int]:
    """The line of the original, from 1 on, that each line of the port comes from.

    The next one above where it was written anew.
    """
    found = [1] * len(theirs)
    for tag, start, end, first, last in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for at in range(first, last):
            inside = tag == "equal" or end - start == last - first
            found[at] = max(1, min(len(ours), start + 1 + (at - first if inside else 0)))
    return found
