"""What ``default_like_torch`` did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List


@dataclass(frozen=True)
class Filled:
    """A parameter that was initialised: its name, its layer's class, what it was given."""

    name: str
    kind: str
    how: str


@dataclass(frozen=True)
class Left:
    """A parameter that was left as it was, and why."""

    name: str
    kind: str
    why: str


@dataclass
class InitReport:
    """Every parameter of a layer, either in ``filled`` or in ``left``.

    ``notes`` say what else should be known. ``str()`` is a table.
    """

    filled: List[Filled] = field(default_factory=list)
    left: List[Left] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    @property
    def unknown(self) -> List[str]:
        """Classes of layers of which a parameter was left, each once, in order."""
        return list(dict.fromkeys(left.kind for left in self.left))

    def __str__(self) -> str:
        rows = [(entry.name, entry.kind, entry.how) for entry in self.filled]
        rows += [(entry.name, entry.kind, f"left: {entry.why}") for entry in self.left]
        names = max((len(name) for name, _, _ in rows), default=0)
        kinds = max((len(kind) for _, kind, _ in rows), default=0)
        lines = [f"{len(self.filled)} parameters initialised as in PyTorch, {len(self.left)} left as they were"]
        lines += [f"  {name:<{names}}  {kind:<{kinds}}  {how}" for name, kind, how in rows]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])
