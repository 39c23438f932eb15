"""The ledger of a conversion: what became of every use, as rows, JSON and a table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from paralign.port.sources.other_files import OtherFiles

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fate(Enum):
    """What became of one place."""

    EQUAL = "equal"
    REWRITTEN = "rewritten"
    CONDITION = "condition"
    BY_HAND = "by hand"
    UNTOUCHED = "untouched"
    REPAIRED = "repaired"


#: what each fate says
MEANINGS = {
    Fate.EQUAL: "the same call under Paddle's name",
    Fate.REWRITTEN: "other arguments or another call",
    Fate.CONDITION: "converted; another result under the condition that its note names",
    Fate.BY_HAND: "not converted: the expression raises, and says why",
    Fate.UNTOUCHED: "left as it is: the object's type cannot be told from the source",
    Fate.REPAIRED: "edited after the conversion: with the edit the port is aligned, without it it is not",
}


#: names of files that a line shows; more would fill the screen, and the ledger has all
_SHOWN = 4


class FileFate(Enum):
    """What became of one file."""

    CONVERTED = "converted"
    COPIED = "copied"
    REFUSED = "refused"


@dataclass(frozen=True)
class Place:
    """One place of the source, and what it became.

    ``entries`` are those of the catalogue whose fixes were applied. ``cell`` is the code cell of a notebook, from 1 on, and ``line`` is one
    of its lines; ``cell`` is 0 in a file that is no notebook.
    """

    path: str
    line: int
    column: int
    name: str
    fate: Fate
    before: str
    note: str = ""
    entries: tuple[str, ...] = ()
    cell: int = 0

    @property
    def where(self) -> str:
        """The place as messages name it."""
        return f"{self.path}:cell {self.cell}:{self.line}" if self.cell else f"{self.path}:{self.line}"


@dataclass(frozen=True)
class File:
    """One file: what became of it, and why it was not converted."""

    path: str
    fate: FileFate
    problem: str = ""


@dataclass
class Ledger:
    """All files and places of a conversion."""

    torch: str = ""
    paddle: str = ""
    files: list[File] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    others: OtherFiles = field(default_factory=OtherFiles)

    def counts(self) -> dict[Fate, int]:
        """Places of each fate."""
        found = Counter(place.fate for place in self.places)
        return {fate: found[fate] for fate in Fate}

    @property
    def left(self) -> bool:
        """Whether something is left by hand, or a file was refused."""
        if any(each.fate is Fate.BY_HAND for each in self.places):
            return True
        return any(each.fate is FileFate.REFUSED for each in self.files)

    def to_json(self) -> str:
        """The ledger as JSON."""
        content = {
            "torch": self.torch,
            "paddle": self.paddle,
            "counts": {fate.value: number for fate, number in self.counts().items()},
            "files": [{**asdict(each), "fate": each.fate.value} for each in self.files],
            "places": [
                {**asdict(each), "fate": each.fate.value}
                for each in sorted(self.places, key=lambda one: (one.path, one.cell, one.line, one.column))
            ],
            "others": {
                "copied": sorted(self.others.contents),
                "naming_torch": self.others.naming_torch,
                "left_out": [asdict(each) for each in sorted(self.others.left_out, key=lambda one: one.path)],
            },
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    def lines(self) -> list[str]:
        """The ledger as it is printed.

        Counts, files that were refused, what is left by hand, and what holds under a condition.
        """
        found = [f"{number:5d} {fate.value:10s} {MEANINGS[fate]}" for fate, number in self.counts().items()]
        found += self._of_others()
        found += [f"refused {each.path}: {each.problem}" for each in self.files if each.fate is FileFate.REFUSED]
        for fate in (Fate.BY_HAND, Fate.CONDITION, Fate.UNTOUCHED):
            of_fate = [each for each in self.places if each.fate is fate]
            said = [(each.where, each) for each in of_fate] if fate is Fate.BY_HAND else alike(of_fate)
            found += [f"{fate.value}: {where} {each.name}: {each.note}" for where, each in said]
        return found

    def _of_others(self) -> list[str]:
        """What became of files that are no source: how many are copied, and which are not."""
        others, found = self.others, []
        if others.contents:
            found.append(f"{len(others.contents):5d} other files copied as they are")
        if others.naming_torch:
            found.append(f"other files that name PyTorch, copied as they are: {_first(others.naming_torch)}")
        if others.left_out:
            largest = max(others.left_out, key=lambda each: each.size)
            found.append(
                f"{others.count_left_out:5d} other files not copied; the largest: {largest.path} ({largest.size:,} bytes): {largest.why}"
            )
        return found


def _first(names: list[str]) -> str:
    """The first of several names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def alike(places: Iterable[Place]) -> list[tuple[str, Place]]:
    """Places with what is said of them, those of one file that say the same together.

    >>> alike([Place("net.py", line, 1, "torch.nn.Conv2d", Fate.CONDITION, "", "another start") for line in (3, 8)])[0][0]
    'net.py:3, 8'
    """
    found: dict[tuple[str, int, str, str], tuple[str, Place, int]] = {}
    for each in places:
        key = each.path, each.cell, each.name, each.note
        if key not in found:
            found[key] = each.where, each, each.line
        elif each.line != found[key][2]:
            where, first, _ = found[key]
            found[key] = f"{where}, {each.line}", first, each.line
    return [(where, first) for where, first, _ in found.values()]
