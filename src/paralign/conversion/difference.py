"""What two checkpoints differ in: tensors, shapes, values, and how the values are spread."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.comparison import measure
from paralign.conversion import plain
from paralign.conversion.shrunk import Group, groups
from paralign.conversion.spread import Spread, spread
from paralign.dtypes import Typed
from paralign.formats.convert import outgoing
from paralign.weights import Rules, Way, follow
from paralign.weights.transforms import compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.conversion.layers import Layers
    from paralign.formats import Checkpoint
    from paralign.formats.writing import Outgoing

#: a square matrix is taken as transposed if that makes the distance so much smaller
CLEARLY = 0.1


@dataclass
class Row:
    """A tensor of both checkpoints.

    Args:
        reference: its name in the first.
        candidate: its name in the second.
        dtypes: element types.
        shapes: shapes, the first's after its way to the second.
        way: what was done to the first's values before they were compared; '' for nothing.
        spreads: how the values of each are spread.
        distance: relative L2 distance; None where the shapes differ.
        mismatched: elements that differ; None where the shapes differ.
        note: what else is to be known.
    """

    reference: str
    candidate: str
    dtypes: tuple[str, str]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    way: str = ""
    spreads: tuple[Spread, Spread] = field(default_factory=lambda: (Spread(), Spread()))
    distance: float | None = None
    mismatched: int | None = None
    note: str = ""

    def same(self, tolerance: float) -> bool:
        """Whether nothing tells the two apart but distances up to a tolerance."""
        if self.distance is None or self.mismatched is None or self.dtypes[0] != self.dtypes[1]:
            return False
        if self.mismatched == 0:
            return True
        return self.distance <= tolerance and self.spreads[0].unfinite == self.spreads[1].unfinite


@dataclass
class Difference:
    """What two checkpoints differ in.

    Args:
        reference: the first.
        candidate: the second.
        frameworks: which framework laid each out; '' where nothing tells.
        rows: the tensors that both hold.
        missing: tensors of the first that the second lacks.
        extra: tensors of the second that the first lacks.
        dropped: tensors that only one framework has, or that a rule leaves out.
        tolerance: relative L2 distance up to which values count as the same.
        groups: tensors that play the same part, the most suspicious first; see :mod:`paralign.conversion.shrunk`.
        notes: what else is to be known.
        layers: what the layers of both models give, where they were run.
    """

    reference: Path
    candidate: Path
    frameworks: tuple[str, str] = ("", "")
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    tolerance: float = 0.0
    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    layers: Layers | None = None

    @property
    def different(self) -> list[Row]:
        """The tensors that differ, those of another shape or type first, then by distance."""
        found = [row for row in self.rows if not row.same(self.tolerance)]
        return sorted(found, key=lambda row: (row.distance is not None, row.dtypes[0] == row.dtypes[1], -(row.distance or 0.0)))

    @property
    def same(self) -> bool:
        """Whether both hold the same tensors with the same values."""
        if not self.rows or self.missing or self.extra:
            return False
        return not self.different

    def to_json(self) -> str:
        """Everything as JSON."""
        told = {"same": self.same, "different": [row.candidate for row in self.different], **asdict(self)}
        told["reference"], told["candidate"] = str(self.reference), str(self.candidate)
        return json.dumps(told, indent=2)


def diff_weights(
    reference: str | Path,
    candidate: str | Path,
    *,
    rules: Rules | str | Path | None = None,
    tolerance: float = 0.0,
    within: str | None = None,
    strip: str | None = None,
    step: Callable[[int, int, str], None] = lambda *_: None,
) -> Difference:
    """Compare two checkpoints of any formats tensor by tensor; nothing is run.

    Args:
        reference: the first.
        candidate: the second.
        rules: how the names and layouts of the first become those of the second, or the path of such a file; None: equal names, and
            those that differ between frameworks whatever the model.
        tolerance: relative L2 distance up to which values count as the same.
        within: dotted keys under which the tensors lie in either; None: they are looked for.
        strip: a prefix to be taken off the names of both; None: those of wrappers, such as ``module.``.
        step: called for every tensor with how many are done, of how many, and its name.

    Raises:
        UsageError: a rule speaks of no tensor, or does not fit.
        UnsafeFile, CaptureFormatError, UnsupportedTensor: as :func:`paralign.formats.open_checkpoint`.
    """
    known = rules if isinstance(rules, Rules) or rules is None else plain.rules_of(Path(rules))
    first, second = plain.opened(reference, within, strip), plain.opened(candidate, within, strip)
    return differ(first, second, known, tolerance=tolerance, step=step)


def differ(
    reference: Checkpoint, candidate: Checkpoint, rules: Rules | None, *, tolerance: float, step: Callable[[int, int, str], None]
) -> Difference:
    """As :func:`diff_weights`, of checkpoints that are open."""
    here, there = plain.origin(reference), plain.origin(candidate)
    crossing = bool(here and there and here != there)
    if rules is not None:
        wanted = rules
    elif crossing:
        wanted = plain.spelling(reference, here, there)
    else:
        wanted = Rules()
    followed = follow(wanted, reference.names)
    sources: dict[str, list[Way]] = {}
    for way in followed.ways:
        sources.setdefault(way.destination, []).append(way)
    items, _ = outgoing(reference, followed.ways)
    found = Difference(reference.path, candidate.path, (here, there), dropped=list(followed.dropped), tolerance=tolerance)
    for number, item in enumerate(items):
        if item.name not in candidate.entries:
            found.missing.append(sources[item.name][0].source)
            continue
        step(number, len(items), item.name)
        found.rows.append(_row(item, sources[item.name], candidate, turning=crossing and rules is None))
        item.release()
        candidate.release(item.name)
    for name in candidate.names:
        if name in sources:
            continue
        counter = crossing and name.rpartition(".")[2] == plain.COUNTER
        (found.dropped if counter else found.extra).append(name)
    differing = [row for row in found.rows if row.mismatched != 0]
    found.groups = groups([(row.candidate, len(row.shapes[1]), row.spreads) for row in differing])
    found.notes = _notes(reference, candidate, found)
    return found


def _row(item: Outgoing, ways: list[Way], candidate: Checkpoint, *, turning: bool) -> Row:
    ours, theirs = item.value(), candidate.value(item.name)
    row = Row(
        " + ".join(way.source for way in ways),
        item.name,
        (ours.dtype, theirs.dtype),
        (item.entry.shape, theirs.array.shape),
        "; ".join(dict.fromkeys(way.transform for way in ways if way.transform)),
        (spread(ours), spread(theirs)),
    )
    shape, other = row.shapes
    if shape == other:
        stats = measure(ours, theirs, shown=False)
        row.distance, row.mismatched = stats.rel_l2, stats.mismatched + stats.nan + stats.inf
    transposes = len(shape) == plain.MATRIX and shape == other[::-1]
    if turning and transposes and row.mismatched != 0:
        _turn(row, ours, theirs)
    return row


def _turn(row: Row, ours: Typed, theirs: Typed) -> None:
    """Hold a matrix against its transpose in the other framework, where that fits better."""
    stats = measure(Typed(ours.array.T, ours.dtype), theirs, shown=False)
    if row.distance is not None and not stats.rel_l2 < CLEARLY * row.distance:
        return
    row.distance, row.mismatched = stats.rel_l2, stats.mismatched
    row.way = compose(row.way or None, "transpose(1, 0)") or ""
    square = row.shapes[0][0] == row.shapes[0][1]
    row.note = "compared transposed: " + ("the values say so" if square else "the shapes allow no other way")
    row.shapes = row.shapes[1], row.shapes[1]


def _notes(reference: Checkpoint, candidate: Checkpoint, found: Difference) -> list[str]:
    notes = [f"{checkpoint.path.name}: {line}" for checkpoint in (reference, candidate) for line in plain.unwrapped(checkpoint)]
    if not found.rows:
        notes.append("no tensor is in both: give --rules, or take a prefix off with --strip")
    return notes
