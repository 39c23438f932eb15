"""An inventory of a program: every call of a framework, and what it becomes in Paddle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.port.names.values import Certainty, Form


class Status(Enum):
    """What a call becomes; the first that applies is the call's."""

    UNKNOWN = "unknown"
    MISSING = "missing"
    SILENT = "silent"
    ARGUMENTS = "arguments"
    CONDITIONAL = "conditional"
    RENAMED = "renamed"
    SAME = "same"


#: what each status says
MEANINGS = {
    Status.UNKNOWN: "no such call is known in this version, or its name is made at run time",
    Status.MISSING: "Paddle has no such call",
    Status.SILENT: "the same call gives another result or another type of result",
    Status.ARGUMENTS: "arguments are named, ordered or offered differently: the same call raises",
    Status.CONDITIONAL: "another result for some arguments or data that the source does not show",
    Status.RENAMED: "another name, nothing else",
    Status.SAME: "the same name and arguments",
}


class Category(Enum):
    """The part of a program that a call belongs to."""

    TENSOR = "tensor"
    DATA = "data"
    NETWORK = "network"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    DISTRIBUTED = "distributed"


class Basis(Enum):
    """What a call's status rests on."""

    EXECUTED = "executed"
    SIGNATURES = "signatures"
    NAME = "name"


@dataclass(frozen=True)
class Note:
    """One thing to know of a call: its status, what it is, what to write.

    And the catalogue's entry it comes from.
    """

    status: Status
    text: str
    write: str = ""
    entry: str = ""


@dataclass
class Row:
    """One use of a callable.

    ``line`` is within the notebook's ``cell`` where there is one; columns count from 1.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int
    source: str
    name: str
    form: Form
    certainty: Certainty
    category: Category
    inside: str = ""
    status: Status = Status.SAME
    port: str = ""
    basis: Basis = Basis.NAME
    notes: list[Note] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.path}:{f'cell {self.cell}:' if self.cell else ''}{self.line}"

    def has(self, status: Status) -> bool:
        """Whether this is its status, or one of its notes'."""
        if self.status is status:
            return True
        return any(note.status is status for note in self.notes)


@dataclass
class FileRow:
    """One file: its lines, its calls, and what could not be read.

    ``ambiguous`` counts calls of methods that tensors have, on objects of unknown type; ``outside`` those of numpy, PIL and OpenCV that
    prepare no data.
    """

    path: str
    lines: int = 0
    calls: int = 0
    problem: str = ""
    lost: int = 0
    ambiguous: int = 0
    outside: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class Inventory:
    """All files and calls, and what was asked about Paddle."""

    files: list[FileRow] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    torch: str = ""
    paddle: str = ""
    asked: str = ""
    foreign: list[str] = field(default_factory=list)

    def by_status(self) -> dict[Status, int]:
        """Calls of each status."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in Status}

    def by_category(self) -> dict[Category, dict[Status, int]]:
        """Calls of each status in each category."""
        found = Counter((row.category, row.status) for row in self.rows)
        return {category: {status: found[category, status] for status in Status} for category in Category}

    def by_api(self) -> dict[str, Counter[Status]]:
        """Calls of each status of each callable, the most used first."""
        found: dict[str, Counter[Status]] = {}
        for row in self.rows:
            found.setdefault(row.name, Counter())[row.status] += 1
        return dict(sorted(found.items(), key=lambda item: (-item[1].total(), item[0])))

    def by_file(self) -> dict[str, Counter[Status]]:
        """Calls of each status in each file."""
        found: dict[str, Counter[Status]] = {each.path: Counter() for each in self.files}
        for row in self.rows:
            found[row.path][row.status] += 1
        return found

    @property
    def unread(self) -> list[FileRow]:
        """Files that could not be read, or not whole."""
        return [each for each in self.files if each.problem or each.lost]
