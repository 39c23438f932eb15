"""What the catalogue knows of the two lines at which a check saw the sides part."""

from __future__ import annotations

import ast
import linecache
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.catalogue.entries import Entry, Scope
from paralign.catalogue.lookup import entries_of, entry_of
from paralign.model import DIVERGED, Finding, SourceLine, argument_differences
from paralign.port.scan.inventory import Row, Status
from paralign.port.scan.left_out import left_out
from paralign.port.scan.scanning import scan
from paralign.stages.backward.own_step_causes import POINTERS
from paralign.stages.backward.where_it_starts import MOMENTUM

if TYPE_CHECKING:
    from paralign.model import CheckResult, Divergence, Point, StageResult

#: the stage whose pass is in eval mode
FORWARD = "forward"

#: what layers keep in training, as examples of the catalogue read it
_KEPT = ("running_mean", "running_var")

#: layers that run over steps, as a point's operation names them
_RECURRENT = re.compile(r"\((?:LSTM|GRU|SimpleRNN|RNN)\)$")

#: the argument by which layers keep them
_MOMENTUM = "momentum"

#: calls that end each sequence at its own length, and the argument that does so in Paddle
_PACKS = ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")
_LENGTHS = "sequence_length"
_LENGTHS_POSITION = 2

#: the rule of ``locate/lines`` that names the line of a layer's call
_CALL = "call-site"

#: differences of memory that is shared or copied: they show where elements are written to
_SHARING = frozenset({"catalogue/numpy-shares", "catalogue/from-numpy-shares"})

#: folders of installed packages
_INSTALLED = ("site-packages", "dist-packages")

#: findings that one divergence is given: further ones would hide the first
_MOST = 2


def add(result: CheckResult) -> None:
    """Add what is known of the calls on a diverged stage's lines, as suspected.

    Nothing was tried. Findings that name another stage to look at come last, in every stage: what is known of a line says more.
    """
    for stage in result.stages:
        if stage.divergence is not None and _is_open(stage):
            found = hints(stage.divergence)
            _lead_to_calls(stage.divergence, found)
            stage.findings += [
                hint for hint in found if not (stage.name == FORWARD and _is_of_training(hint)) and _fits_what_is_seen(hint, stage)
            ]
        stage.findings.sort(key=lambda finding: finding.rule in POINTERS)


def _is_open(stage: StageResult) -> bool:
    """Whether a stage's cause is unknown: neither proven, nor seen to be another axis.

    What else could differ on its lines would only stand beside a known cause.
    """
    if stage.verdict != DIVERGED or stage.divergence is None or stage.divergence.axis is not None:
        return False
    return not any(finding.proven for finding in stage.findings)


def _fits_what_is_seen(hint: Finding, stage: StageResult) -> bool:
    """Whether a hint is of the momentum, where momenta are seen to differ."""
    if not any(finding.rule == MOMENTUM for finding in stage.findings):
        return True
    entry = entry_of(hint.rule.partition("/")[2])
    return entry is not None and _MOMENTUM in _words(entry.when or "")


def hints(divergence: Divergence) -> list[Finding]:
    """Pairs of calls, one on each side's line, that the catalogue knows to differ."""
    parted = _parted(divergence)
    packed = None if parted else _packing(divergence)
    if packed is not None:
        return [_composition(packed)]
    argument = left_out(divergence)
    reference = _rows(divergence.reference)
    found = _known_on_both(reference, _rows(divergence.candidate), parted)
    if not _writes_elements(divergence.reference):
        found = [each for each in found if each.rule not in _SHARING]
    if argument is not None:  # seen to differ, where the catalogue tells what may; neither is proven
        found.insert(0, argument)
    if not found and not parted:
        found = [_composition(row) for row in reference if row.status is Status.MISSING and not _is_followed(row, divergence.candidate)]
    unique = {finding.rule: finding for finding in found}
    return list(unique.values())[:_MOST]


def _known_on_both(reference: list[Row], candidate: list[Row], parted: set[str]) -> list[Finding]:
    """The known differences of a call of the reference that are noted of the candidate's too."""
    suspected = {note.entry for row in candidate for note in row.notes if note.entry}
    found: list[Finding] = []
    for row in reference:
        for entry in _of_call(row):
            if entry.id not in suspected or not _may_explain(entry, parted):
                continue
            found.append(_finding(entry))
    return found


def _lead_to_calls(divergence: Divergence, found: list[Finding]) -> None:
    """Point at the packing and at the layer's call, where the missing lengths belong."""
    packed = _packing(divergence)
    if packed is None or not any(finding.rule == _composition(packed).rule for finding in found):
        return
    call = next((each for each in divergence.proposals if each.rule == _CALL), None)
    place = SourceLine.of(None if divergence.reference is None else divergence.reference.source)
    if call is not None and place is not None:
        _move(divergence.candidate, call.line)
        _move(divergence.reference, f"{place.file}:{packed.line}")
        divergence.rule = call.rule
        divergence.proposals.sort(key=lambda each: each is not call)


def _move(point: Point | None, source: str) -> None:
    """Put another line first; the one that stood there is a further one."""
    place = SourceLine.of(source)
    if point is None or place is None or point.source == source:
        return
    earlier = [] if point.source is None else [point.source]
    point.lines = [*earlier, *(line for line in point.lines if line != source)]
    point.source, point.code = source, linecache.getline(place.file, place.line).strip() or None


def _of_call(row: Row) -> list[Entry]:
    """Known differences of the reference's call that its own arguments do not rule out."""
    possible = {note.entry for note in row.notes}
    return [entry for entry in entries_of(row.name) if entry.scope is Scope.CALL and entry.id in possible]


def _packing(divergence: Divergence) -> Row | None:
    """The reference's packing of sequences, if the candidate's layer is given no lengths."""
    reference, candidate = divergence.reference, divergence.candidate
    if reference is None or candidate is None or not _RECURRENT.search(candidate.op):
        return None
    place = SourceLine.of(reference.source)
    if place is None or not Path(place.file).is_file():
        return None
    packs = [row for row in _scanned(place.file) if row.name in _PACKS and row.status is Status.MISSING]
    if not packs or any(map(_gives_lengths, (candidate.source, *candidate.lines))):
        return None
    return packs[0]


def _gives_lengths(source: str | None) -> bool:
    """Whether a call that goes over a line is given lengths, or arguments that cannot be read."""
    place = SourceLine.of(source)
    if place is None or not Path(place.file).is_file():
        return False
    try:
        tree = ast.parse(Path(place.file).read_bytes())
    except (SyntaxError, ValueError, OSError):
        return True
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or 0)]
    return any(map(_may_hold_lengths, calls))


def _may_hold_lengths(call: ast.Call) -> bool:
    """Whether a call names the lengths, gives a third argument by position, or unpacks some."""
    if len(call.args) > _LENGTHS_POSITION or any(isinstance(each, ast.Starred) for each in call.args):
        return True
    return any(keyword.arg in (None, _LENGTHS) for keyword in call.keywords)


def _parted(divergence: Divergence) -> set[str]:
    """Names of arguments that are seen to differ: another one explains nothing then."""
    ends = (divergence.reference, divergence.candidate)
    if divergence.what != "different" or None in ends:
        return set()
    reference, candidate = ({} if point is None else point.arguments for point in ends)
    return {difference.name for difference in argument_differences(reference, candidate)}


def _may_explain(entry: Entry, parted: set[str]) -> bool:
    """Whether a known difference may be what makes arguments differ."""
    if not parted or not entry.when:
        return True
    named = set(_words(entry.when))
    named |= {entry.arguments[name] for name in named if name in entry.arguments}
    return not parted.isdisjoint(named)


def _words(condition: str) -> list[str]:
    """The names in a condition on arguments."""
    return re.findall(r"\w+", condition)


def _is_of_training(hint: Finding) -> bool:
    """Whether a difference shows only in what layers keep in training."""
    entry = entry_of(hint.rule.partition("/")[2])
    if entry is None:
        return False
    return any(kept in entry.example.reference for kept in _KEPT)


def _finding(entry: Entry) -> Finding:
    where = f" Only {entry.data.en}." if entry.data.en else ""
    return Finding(f"catalogue/{entry.id}", entry.differs.en + where, entry.fix.words.en)


def _composition(row: Row) -> Finding:
    note = next(note for note in row.notes if note.status is Status.MISSING)
    return Finding(f"catalogue/{row.name}", f"{row.name}: {note.text}", note.write)


def _is_followed(row: Row, candidate: Point | None) -> bool:
    """Whether the candidate already follows the advice for a call without counterpart."""
    if candidate is None or not candidate.op.isidentifier():
        return False
    return candidate.op in _words(_composition(row).fix)


def _writes_elements(point: Point | None) -> bool:
    """Whether a point's file writes to elements of anything; also where it cannot be read."""
    place = None if point is None else SourceLine.of(point.source)
    if place is None or not Path(place.file).is_file():
        return True
    try:
        tree = ast.parse(Path(place.file).read_bytes())
    except (SyntaxError, ValueError, OSError):
        return True
    return any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(tree))


def _rows(point: Point | None) -> list[Row]:
    """Calls of a framework on a point's line.

    Where the point is an object, those that make one of its class: it is what ran.
    """
    if point is None:
        return []
    place = SourceLine.of(point.source)
    if place is None or not Path(place.file).is_file():
        return []
    rows = [row for row in _scanned(place.file) if row.line <= place.line <= row.end_line and not _is_within(place.file, row)]
    if not point.op.isidentifier() or not point.op[0].isupper():
        return rows
    return [row for row in rows if row.name.rpartition(".")[2] == point.op]


def _is_within(file: str, row: Row) -> bool:
    """Whether a package calls itself on a line: nobody ports what a framework does inside."""
    package = row.name.partition(".")[0]
    return any(f"/{folder}/{package}/" in Path(file).as_posix() for folder in _INSTALLED)


def _scanned(path: str) -> list[Row]:
    return _of_version(path, Path(path).stat().st_mtime_ns)


@cache
def _of_version(path: str, changed: int) -> list[Row]:
    """Calls of a file as it is now; ``changed`` is when it was written last."""
    del changed
    return scan([path]).rows
