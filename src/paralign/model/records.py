"""What a capture holds: its records, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

#: version of the capture format and of ``report.json``
SCHEMA = 1

#: what a record can be
ROLES = ("input", "output", "parameter", "gradient", "buffer", "state", "scalar", "sample")


@dataclass
class Record:
    """One tensor (or text) seen at one point of one run.

    ``key`` names the point: module path and, within a nested output, the path of the leaf. ``run`` names the pass of the
    stage that saw it (``float64``, ``float32``, ``perturbed-0``, ``train``). ``shape`` and ``dtype`` are the tensor's
    own; ``location`` is ``(shard file, tensor name)`` inside the capture, or None when values were not kept.
    """

    id: int
    name: str
    stage: str
    role: str
    dtype: str
    shape: Tuple[int, ...]
    leaf: str = ""
    run: str = ""
    step: int = 0
    rank: int = 0
    call: int = 0
    op: str = ""
    source: Optional[str] = None
    inputs: Tuple[int, ...] = ()
    digest: Optional[str] = None
    location: Optional[Tuple[str, str]] = None
    text: Optional[str] = None
    attrs: Dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name and leaf, joined by a dot."""
        return f"{self.name}.{self.leaf}" if self.leaf else self.name


@dataclass(frozen=True)
class SourceLine:
    """A line of source code; as text, and in files, ``file:line``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, text: Optional[str]) -> "Optional[SourceLine]":
        """The line that a text names; None for a text that names none.

        >>> str(SourceLine.of("C:/net.py:12")), SourceLine.of("net.py"), SourceLine.of(None)
        ('C:/net.py:12', None, None)
        """
        file, _, number = (text or "").rpartition(":")
        if not file or not number.isascii() or not number.isdecimal():
            return None
        return cls(file, int(number))

    def at(self, line: int) -> "SourceLine":
        """Another line of the same file."""
        return SourceLine(self.file, line)


@dataclass(frozen=True)
class Pass:
    """A record's pass: precision (``native``, ``float64``, ``perturbed-0``) and mode."""

    precision: str
    mode: str = ""

    @classmethod
    def of(cls, run: str) -> "Pass":
        """What a record's ``run`` says.

        >>> Pass.of("float64:train"), Pass.of("native")
        (Pass(precision='float64', mode='train'), Pass(precision='native', mode=''))
        """
        precision, _, mode = run.partition(":")
        return cls(precision, mode)


@dataclass
class Manifest:
    """How a capture was made.

    ``released``: its values were deleted since, its records are all there.
    """

    schema: int = SCHEMA
    side: str = ""
    stage: str = ""
    framework: str = ""
    versions: Dict[str, str] = field(default_factory=dict)
    device: str = "cpu"
    seed: Optional[int] = None
    flags: Dict[str, Any] = field(default_factory=dict)
    command: List[str] = field(default_factory=list)
    revision: Optional[str] = None
    settings: Dict[str, Any] = field(default_factory=dict)
    files: Dict[str, str] = field(default_factory=dict)
    variables: Dict[str, str] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)
    resources: Dict[str, float] = field(default_factory=dict)
    created: str = ""
    complete: bool = False
    records: int = 0
    released: bool = False
