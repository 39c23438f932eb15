"""Random operations of two runs: which belong together, and are they random alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from paralign.model import Finding
from paralign.worker.draws.drawn_values import MASK, UNIFORM, fits
from paralign.worker.protocol import RandomOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.runs.dataflow import Value
    from paralign.locate.runs.judgement import Judgement

Said = RandomOperation

#: two operations that could be one another's are worth this much, a like kind of numbers, alike probabilities and names of modules more
_PAIR, _FAMILY, _PROBABILITY, _NAME = 1.0, 0.5, 0.3, 0.2


def aligned(reference: Sequence[Said], candidate: Sequence[Said]) -> list[tuple[Said | None, Said | None]]:
    """Both sides' random operations in order, paired by size and kind; the rest alone.

    Args:
        reference: those of the reference, in order.
        candidate: the candidate's.
    """
    rows, columns = len(reference), len(candidate)
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1])
            worth = _worth(reference[i], candidate[j])
            if worth:
                best[i][j] = max(best[i][j], worth + best[i + 1][j + 1])
    pairs: list[tuple[Said | None, Said | None]] = []
    i = j = 0
    while i < rows and j < columns:
        worth = _worth(reference[i], candidate[j])
        if worth and best[i][j] == worth + best[i + 1][j + 1]:
            pairs.append((reference[i], candidate[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((reference[i], None))
            i += 1
        else:
            pairs.append((None, candidate[j]))
            j += 1
    return pairs + [(r, None) for r in reference[i:]] + [(None, c) for c in candidate[j:]]


def packed(pairs: Sequence[tuple[Said | None, Said | None]]) -> list[tuple[Said | None, Said | None]]:
    """The pairs, with masks of other sizes paired for a trial: padding left out."""
    found = list(pairs)
    alone = {place: one for place, (one, other) in enumerate(pairs) if other is None and one is not None}
    for place, (one, other) in enumerate(pairs):
        if one is not None or other is None:
            continue
        fitting = [i for i, reference in alone.items() if _of_rows(reference, other)]
        if fitting:
            first = fitting[0]
            found[place], found[first] = (alone.pop(first), other), (None, None)
    return [pair for pair in found if pair != (None, None)]


def apart(pairs: Sequence[tuple[Said | None, Said | None]], given: set[int]) -> list[tuple[Said | None, Said | None]]:
    """The pairs without those of other sizes whose numbers did not fit (``given`` did)."""
    found: list[tuple[Said | None, Said | None]] = []
    for one, other in pairs:
        if one is not None and other is not None and not _go_together(one, other, given):
            found += [(one, None), (None, other)]
        else:
            found.append((one, other))
    return found


def _go_together(reference: Said, candidate: Said, given: set[int]) -> bool:
    """Whether the numbers of one were given to the other, or are as many."""
    return candidate.number in given or math.prod(reference.shape) == math.prod(candidate.shape)


def _of_rows(reference: Said, candidate: Said) -> bool:
    """Whether two masks drop the same share of rows of one length."""
    if reference.p is None or candidate.p is None or _differ(reference, candidate):
        return False
    if not reference.family == candidate.family == MASK:
        return False
    return reference.shape[-1:] == candidate.shape[-1:] != []


def _worth(reference: Said, candidate: Said) -> float:
    """How well two random operations go together; 0 where one's numbers cannot be the other's."""
    if math.prod(reference.shape) != math.prod(candidate.shape) or not fits(reference.family, candidate.family):
        return 0.0
    worth = _PAIR
    if reference.family == candidate.family:
        worth += _FAMILY
    if reference.p is not None and candidate.p is not None and abs(reference.p - candidate.p) < SAME:
        worth += _PROBABILITY
    names = {said.module.rpartition(".")[2] for said in (reference, candidate)}
    if len(names) == 1 and "" not in names:
        worth += _NAME
    return worth


def mirrors(pairs: Sequence[tuple[Said | None, Said | None]]) -> list[list[int]]:
    """The candidate's operations that draw uniform numbers, together by line."""
    lines: dict[str, list[int]] = {}
    for one, other in pairs:
        if one is not None and other is not None and UNIFORM in (one.family, other.family):
            lines.setdefault(other.source or "", []).append(other.number)
    return list(lines.values())


def wrong_data(judgement: Judgement) -> int:
    """How many values are wrong that were made of inputs or parameters.

    Numbers that were drawn, and the decisions made of them, do not count: turned round, some of them would be right by chance.
    """
    data: set[Value] = {v for v in judgement.candidate.values.values() if v.maker is None and v.record.role in ("input", "parameter")}
    for operation in judgement.candidate.operations:
        if not data.isdisjoint(operation.inputs):
            data.update(operation.outputs)
    return len(data & judgement.wrong)


#: probabilities that differ by less are the same, stored in float32
SAME = 1e-6


#: modules that are named of a finding that holds at many
NAMED = 3


def findings(pairs: Sequence[tuple[Said | None, Said | None]]) -> list[Finding]:
    """What differs in whether and how probably operations are random."""
    groups: dict[tuple[str, ...], list[tuple[Said, Finding]]] = {}
    reshaped, rest = _reshaped(pairs)
    for due, own in reshaped:
        cause = f"{_at(own)} draws a mask of shape {tuple(own.shape)}, the reference one of shape {tuple(due.shape)} ({_at(due)})"
        found = Finding("shape of a mask", cause, "drop what the reference drops: whole channels (Dropout2D, Dropout3D) or single elements")
        groups.setdefault(("shape", due.op, own.op), []).append((own, found))
    for one, other in rest:
        if one is not None and other is not None:
            if _differ(one, other):
                cause = f"{_at(other)} drops {other.p:.6g} of its input, the reference {one.p:.6g} ({_at(one)})"
                found = Finding("probability", cause, f"set the probability to {one.p:.6g}")
                groups.setdefault(("probability", one.op, other.op), []).append((other, found))
        elif other is not None:
            cause = f"{_at(other)} is random; the reference has no random operation there"
            found = Finding("random operation", cause, "remove it, or see why it is off in the reference's train mode")
            groups.setdefault(("extra", other.op), []).append((other, found))
        elif one is not None:
            cause = f"the reference is random at {_at(one)}{_share(one)}; the candidate has no random operation there"
            found = Finding("random operation", cause, "add it, or see whether the layer is in train mode")
            groups.setdefault(("missing", one.op), []).append((one, found))
    return [_with_others(group) for group in groups.values()]


def _reshaped(
    pairs: Sequence[tuple[Said | None, Said | None]],
) -> tuple[list[tuple[Said, Said]], list[tuple[Said | None, Said | None]]]:
    """Masks of one module that drop the same share and differ in shape, and all other pairs."""
    alone = [other for one, other in pairs if one is None and other is not None]
    found: list[tuple[Said, Said]] = []
    for one, other in pairs:
        if one is None or other is not None:
            continue
        same = next((each for each in alone if _is_mask_of_same_module(one, each)), None)
        if same is not None:
            alone.remove(same)
            found.append((one, same))
    taken = {id(said) for pair in found for said in pair}
    return found, [pair for pair in pairs if not any(id(said) in taken for said in pair)]


def _is_mask_of_same_module(one: Said, other: Said) -> bool:
    """Whether two are masks of one module that drop the same share."""
    if one.family != MASK or other.family != MASK:
        return False
    return bool(one.module) and one.module == other.module and not _differ(one, other)


def _with_others(group: list[tuple[Said, Finding]]) -> Finding:
    """The first finding of a group, with the modules of the others."""
    finding = group[0][1]
    if len(group) == 1:
        return finding
    others = list(dict.fromkeys(said.module or "the model itself" for said, _ in group[1:]))
    finding.cause += f"; likewise at {len(group) - 1} more: {_first(others, ', ')}"
    fixes = list(dict.fromkeys(each.fix for _, each in group))
    if len(fixes) > 1:
        finding.fix = f"{_first(fixes, '; ')}, in the order of the operations"
    return finding


def _first(texts: list[str], separator: str) -> str:
    """The first of some texts, with a sign where there are more."""
    shown = separator.join(texts[:NAMED])
    return f"{shown} …" if len(texts) > NAMED else shown


def _differ(one: Said, other: Said) -> bool:
    if one.p is None or other.p is None:
        return False
    return abs(one.p - other.p) > SAME


def _share(said: Said) -> str:
    return f", which drops {said.p:.6g}" if said.p is not None else ""


def _at(said: Said) -> str:
    """The module, the operation in it and its line: ``drop (dropout) net.py:7``."""
    name = f"{said.module} ({said.op})" if said.module and said.op else said.module or said.op
    return f"{name} {said.source}" if said.source else name
