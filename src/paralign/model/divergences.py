"""Where a port parts from its reference, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from paralign.model.judged_pairs import Pair


@dataclass
class Point:
    """One end of a divergence: where in a program.

    ``name`` is the module's path, ``op`` the operation or layer, ``source`` the line (``file:line``) to look at first and ``code`` its
    text; ``lines`` are further lines that led there, innermost first; ``arguments`` those of the operation that are no tensors.
    """

    name: str
    op: str = ""
    source: Optional[str] = None
    code: Optional[str] = None
    lines: List[str] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TracedValue:
    """A wrong number, text or list of the candidate's, and the reference's.

    ``reference`` is None where that is not known; ``source`` is the reference's line, ``file:line``, ``code`` its text.
    """

    candidate: Any
    reference: Any = None
    source: Optional[str] = None
    code: Optional[str] = None


@dataclass(frozen=True)
class OtherAxis:
    """The axis of a call, where the reference's goes along another one on the same values.

    Counted from 0, of ``count``.

    ``candidate`` is None where the call names no axis. ``call`` is the operation or function.
    """

    candidate: Optional[int]
    reference: int
    count: int
    call: str


@dataclass
class LineProposal:
    """A line of the candidate (``file:line``) that a rule proposes to look at first."""

    rule: str
    line: str


@dataclass
class Divergence:
    """A guilty point: good inputs, bad output.

    ``what`` is the kind of fault (``different``, ``missing``, ``extra``, ``miswired``, ``region``, ``given``; ``factor``, ``detached``
    and others of gradients). ``rule`` is the id of the rule that chose the candidate's line, ``proposals`` is what all rules proposed,
    the strongest first. ``error_before``, ``error`` and ``error_after`` are distances from the reference: of the inputs, of the
    result, and of what follows once the reference's value was put there (``confirmed``). ``noise`` is what the operation is granted.
    ``repeats`` counts further places of the same fault; ``chain`` names what matched before it, the nearest last. ``hidden`` says that
    what follows hardly uses the result, so that no run can confirm it. ``value`` is what is wrong at the line, where that is known;
    ``axis`` the axis along which the operation goes, where the reference's goes along another one; ``relation`` the change that makes
    the result the reference's, or how it comes from it. ``region`` are the lines of the steps of which the wrong result is made, where
    the sides take different ones.
    """

    reference: Optional[Point]
    candidate: Optional[Point]
    pair: Optional[Pair] = None
    inputs_agree: bool = True
    last_agreeing: Optional[str] = None
    confirmed: bool = False
    what: str = ""
    rule: str = ""
    proposals: List[LineProposal] = field(default_factory=list)
    error_before: Optional[float] = None
    error: Optional[float] = None
    error_after: Optional[float] = None
    noise: Optional[float] = None
    repeats: int = 0
    chain: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    hidden: bool = False
    value: Optional[TracedValue] = None
    axis: Optional[OtherAxis] = None
    relation: str = ""
    region: List[str] = field(default_factory=list)


@dataclass
class Finding:
    """A cause, ``proven`` by an experiment or suspected.

    ``patch`` is a unified diff of the candidate that was applied to a copy and checked; ``gone`` and ``stays`` name the other stages
    that were aligned with it, or still diverged. ``cause_zh`` and ``fix_zh`` are the texts in Chinese, '' where there are none.
    ``together`` names the places (``file:line``) of the other edits without which this one proves nothing; the errors are those of all.
    """

    rule: str
    cause: str
    fix: str
    proven: bool = False
    error_before: Optional[float] = None
    error_after: Optional[float] = None
    patch: str = ""
    gone: List[str] = field(default_factory=list)
    stays: List[str] = field(default_factory=list)
    cause_zh: str = ""
    fix_zh: str = ""
    together: List[str] = field(default_factory=list)
