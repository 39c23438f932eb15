"""A diverged data stage, followed.

The first wrong sample is traced, and what is wrong with labels, order and batches is tried out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.digest import agree, moments
from paralign.errors import WorkerFailed
from paralign.locate.data.array_difference import carries, explain, same
from paralign.locate.data.distances import EQUAL, apart
from paralign.locate.data.moved_content import PLACED, placed_in_rows, told
from paralign.locate.data.trace import Way, holds, locate, random_steps
from paralign.locate.optimizer import watched_steps
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.programs import traced_samples as provenance
from paralign.locate.source.statements import composition_line
from paralign.model import Divergence, Finding, Pair, Point, StageResult, Tolerance
from paralign.stages.common.places import Kind, PairKey, batch_of, is_length, key_of_record, sample_of
from paralign.stages.data import sample_fingerprints
from paralign.worker.protocol import Data, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.data.trace import Guilty, Step

#: samples of the reference among which a wrong sample of the candidate is looked for
SCANNED = 256

#: digests of pictures that went through two decoders agree so far
ALIKE = 1e-4

#: seeds under which the sample is traced, to see what is random
SEEDS = 6

#: further wrong samples on which a cause is tried
HELD_OUT = 2

#: rules that explain batches by how samples were put together
REARRANGED = ("data/batch-order", "data/batch-parts", "data/batch-size", "data/drop-last")

#: rules of proven causes that no expression of a sample is guilty of
SETTLED = (*REARRANGED, "data/order", "data/random")

#: leaves nearer than this differ by rounding
ROUNDED = 1e-6


def follow(context: Context, result: StageResult, reference: Capture, candidate: Capture, *, replaced: bool = False) -> None:
    """Point the divergence at lines of code, and add findings.

    Leaves the result as it is where a side cannot be traced. With ``replaced``, the samples differ with the reference's draws in place of
    the candidate's, and are traced so.
    """
    wrong = result.wrong
    lengths_differ = any(map(is_length, wrong))
    whole = [p for p in wrong if _is_whole_sample(p)]
    first = whole[0] if whole else None
    of = "dataset" if context.has_both("build_dataset") else "loader"
    if first is None and not lengths_differ:
        of = "loader"
    place = None if first is None or lengths_differ else sample_of(first)
    index = 0 if place is None else place.step
    seeds = [context.settings.seed + n for n in range(1 if replaced else SEEDS)]
    order = Trace(context.settings.split, index, of, seeds, draws=replaced)
    try:
        captures = _traced(context, "trace", replace(order, scan=SCANNED), order)
    except WorkerFailed as failed:
        result.warnings.append(f"the first wrong sample could not be traced: the {failed.side} failed: {failed.type}: {failed.message}")
        labels = _labels(reference, candidate)
        if not labels and of == "loader":
            labels = _batches(reference, candidate)
        result.findings += labels
        _trace_back(context, result, of, index)
        return
    ordered = None
    if of == "dataset" and first is not None:
        ordered = _ordered(captures, index, (reference, candidate))
    result.findings += _labels(reference, candidate) if ordered is None else [ordered]
    located = None if lengths_differ else _located(captures, first, of, wrong)
    if of == "loader":
        result.findings += _of_batches(result, captures, _batches(reference, candidate), traced=located is not None)
    if located is not None:
        _hold_out(context, result, located, order, _others(whole, of, index))
        _point(result, located, captures, known=bool(result.findings))
    elif result.divergence is not None and not _lengths(result.divergence, captures):
        _point_at_construction(result, captures, of)
    if not replaced:
        _trace_back(context, result, of, index if first is None else _index(first) or 0)
    if any(Trace.answer(c).exhausted for c in captures):
        result.notes.append("the trace of the first wrong sample was cut off: its way is too long to be kept whole")


def _traced(context: Context, name: str, reference: Trace, candidate: Trace) -> tuple[Capture, Capture]:
    """A sample's way on both sides; where draws are replaced, the reference's first."""
    if not reference.draws:
        return context.record_both(name, reference, candidate=candidate)
    folder = f"{name}-{context.part}" if context.part else name
    first = context.reference.record(folder, reference)
    captures = first, context.candidate.record(folder, candidate, {"draws": first})
    context.artifacts[name] = captures
    return captures


def _is_whole_sample(pair: Pair) -> bool:
    """Whether a pair is of a sample as the data set gives it, not of a step on its way there."""
    record = pair.reference or pair.candidate or _NONE
    return sample_of(pair) is not None and not record.attrs.get("trace")


def _of_batches(result: StageResult, captures: tuple[Capture, Capture], together: list[Finding], *, traced: bool) -> list[Finding]:
    """What is to be said of batches: how samples are put together.

    Where no step is at fault, also what is random.
    """
    rearranged = [f for f in together if f.rule in REARRANGED or (f.proven and f.rule in PLACED)]
    if rearranged or traced:
        return rearranged
    return _random(result, captures) or together


def _others(whole: list[Pair], of: str, index: int) -> list[int]:
    """Further samples, on which a cause is tried."""
    if of != "dataset":
        return [index + 1, index + 2][:HELD_OUT]
    found = {_index(p) for p in whole}
    return sorted(number for number in found if number is not None and number != index)[:HELD_OUT]


def _hold_out(context: Context, result: StageResult, located: Guilty, order: Trace, others: list[int]) -> None:
    """Prove a cause only if it holds on samples that were not used to find it."""
    finding = located.finding
    if finding is None or not finding.proven:
        return
    wrong = result.wrong
    tried = []
    for index in others:
        first = next((p for p in wrong if _index(p) == index), None)
        try:
            other_order = replace(order, index=index, seeds=order.seeds[:1])
            captures = _traced(context, "trace-other", other_order, other_order)
        except WorkerFailed:
            continue
        other = _located(captures, first, order.of, wrong)
        if other is None and first is None:
            continue  # this one does not differ
        tried.append(index)
        if not holds(located, other):
            finding.proven = False
            result.notes.append(f"the cause was found on sample {order.index} and does not hold on sample {index}: it is a guess")
            return
    if not tried:
        finding.proven = False
        result.notes.append(f"the cause was found on sample {order.index}, and there was no other wrong one to try it on")


class _Nothing:
    attrs: dict[str, Any] = {}  # noqa: RUF012 - never written


_NONE = _Nothing()


def _located(captures: tuple[Capture, Capture], first: Pair | None, of: str, wrong: list[Pair]) -> Guilty | None:
    """The guilty step on the way of the leaf that differs first."""
    ways = [Way.read(c, "seed-0") for c in captures]
    names: list[str] = []
    if first is not None:
        index = _index(first)
        places = [sample_of(p) for p in wrong]
        names = [_named(place) for place in places if place is not None and place.step == index]
    elif of == "loader":
        names = list(ways[1].leaves)
    for name in names:
        one, other = (way.leaves.get(name) for way in ways)
        if one is None or other is None:
            continue
        if apart(one[0], other[0]) > ROUNDED:
            found = locate(ways[0], ways[1], name)
            if found is not None:
                return found
    return None


def _index(pair: Pair) -> int | None:
    place = sample_of(pair)
    return None if place is None else place.step


def _named(place: PairKey) -> str:
    """What a leaf is called on the way of one sample."""
    return f"sample.{place.name}" if place.name else "sample"


def _point(result: StageResult, guilty: Guilty, captures: tuple[Capture, Capture], *, known: bool) -> None:
    """The divergence at the guilty step, its finding, and whether it is random."""
    pair = result.divergence.pair if result.divergence is not None else None
    agreed = result.divergence.last_agreeing if result.divergence is not None else None
    finding = None if known else guilty.finding
    ends = [_end(step, pair) for step in (guilty.reference, guilty.candidate)]
    if finding is not None and finding.rule == "data/missing":
        _compose(ends, captures)
    result.divergence = Divergence(
        ends[0],
        ends[1],
        pair,
        inputs_agree=guilty.before is not None,
        last_agreeing=guilty.last or agreed,
        confirmed=finding is not None and finding.proven,
    )
    random = _drawn_ends(guilty, captures)
    if random and not known:
        result.findings.append(_chance(random))
    elif finding is not None:
        result.findings.append(finding)


def _drawn_ends(guilty: Guilty, captures: tuple[Capture, Capture]) -> list[tuple[str, Step]]:
    """The random step that each end is, or was made from.

    Where the two drew other numbers, nothing is proven of what follows.
    """
    drawn = [_drawn(c) for c in captures]
    ends = list(zip(("reference", "candidate"), (guilty.reference, guilty.candidate), drawn, strict=True))
    found = []
    for side, step, own in ends:
        if step is None:
            continue
        if any(s.record.source == step.record.source for s in own):
            found.append((side, step))
    if found:
        return found
    made = [_made_from(capture, step, own) for (_, step, own), capture in zip(ends, captures, strict=True)]
    if all(made) and not any(same(one.value, other.value) for one in made[0] for other in made[1]):
        return [(side, each[0]) for side, each in zip(("reference", "candidate"), made, strict=True)]
    return []


def _made_from(capture: Capture, step: Step | None, drawn: list[Step]) -> list[Step]:
    """The random steps that a step was made from."""
    if step is None:
        return []
    way = Way.read(capture, "seed-0")
    sources = {s.record.source for s in drawn}
    waiting, seen = list(step.inputs), set()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            waiting += way.steps[number].inputs
    return [way.steps[n] for n in sorted(seen) if way.steps[n].record.source in sources]


def _compose(ends: list[Point | None], captures: tuple[Capture, Capture]) -> None:
    """Point at the candidate's list of functions if it lacks one of the reference's."""
    functions = [{str(step.record.attrs.get("function")) for step in Way.read(c, "seed-0").steps} for c in captures]
    first, second = ends
    if first is None or second is None or first.op == second.op or second.op not in functions[0]:
        return
    lines = [composition_line(end.source, end.op, names - {end.op}) for end, names in zip((first, second), functions, strict=True)]
    if all(lines):
        watched_steps.move(second, str(lines[1]))


def _drawn(capture: Capture) -> list[Step]:
    """The steps that give other values under another seed; none where there is one seed."""
    if not capture.select(run="seed-1"):
        return []
    first, *others = [Way.read(capture, f"seed-{n}") for n in range(SEEDS)]
    of_line = {}
    for other in others:
        drawn = (*random_steps(first, other), *random_steps(other, first))
        of_line.update({step.record.source: step for step in drawn})
    return list(of_line.values())


def _chance(random: list[tuple[str, Step]]) -> Finding:
    said = " and ".join(f"{step.said} in the {side}" for side, step in random)
    cause = f"random: {said} gives other values under another seed; the streams of random numbers of two programs never agree"
    return Finding("data/random", cause, "leave random augmentation out of the comparison, or fix its parameters", proven=True)


def _random(result: StageResult, captures: tuple[Capture, Capture]) -> list[Finding]:
    """Random steps on the way of a sample whose batches differ.

    The first of each side is pointed at.
    """
    drawn = zip(("reference", "candidate"), map(_drawn, captures), strict=True)
    found = [(side, steps[0]) for side, steps in drawn if steps]
    for side, step in found:
        if result.divergence is not None:
            setattr(result.divergence, side, _end(step, result.divergence.pair))
    return [_chance(found)] if found else []


def _trace_back(context: Context, result: StageResult, of: str, index: int) -> None:
    """Name the expression that made a sample, or the first batch that differs, wrong.

    A proven cause says what differs, and not where it was made: it stays, and the line is confirmed no longer. What is in another order, or
    drawn, has no such line.
    """
    divergence = result.divergence
    is_settled = any(finding.proven and finding.rule in SETTLED for finding in result.findings)
    if divergence is None or is_settled:
        return
    if of == "dataset":
        places, number = _places(sample_of, result.wrong), index
    else:
        places = _places(batch_of, result.wrong)
        number = min((place.step for place in places if place.step >= 0), default=0)
    leaves = [place.name for place in places if place.step == number]
    before = None if divergence.candidate is None else divergence.candidate.source
    if not provenance.follow(context, divergence, of, number, leaves):
        return
    result.findings = [f for f in result.findings if f.proven or f.rule in REARRANGED]  # others are guesses about the step named before
    if divergence.candidate is not None and divergence.candidate.source != before:
        divergence.confirmed = False


def _places(place_of: Callable[[Pair], PairKey | None], pairs: Iterable[Pair]) -> list[PairKey]:
    """The known places of pairs."""
    return [place for place in map(place_of, pairs) if place is not None]


def _lengths(divergence: Divergence, captures: tuple[Capture, Capture]) -> bool:
    """Of data sets of different length: point at the lines that made lists of these lengths."""
    if divergence.pair is None or not is_length(divergence.pair):
        return False
    ends = []
    for capture in captures:
        length = Trace.answer(capture).length
        lists = [s for s in Way.read(capture, "seed-0").steps if s.value.ndim >= 1 and len(s.value) == length]
        ends.append(_end(next(iter(lists), None), divergence.pair))
    if ends[1] is None:
        return False
    divergence.reference, divergence.candidate = ends[0] or divergence.reference, ends[1]
    return True


def _end(step: Step | None, pair: Pair | None) -> Point | None:
    """One end of a divergence: the sample that differs, and the step of its way."""
    if step is None:
        return None
    record = None if pair is None else pair.candidate or pair.reference
    return Point("" if record is None else record.name, step.said, step.record.source, code_at(step.record.source))


def _point_at_construction(result: StageResult, captures: tuple[Capture, Capture], of: str) -> None:
    """Point at the lines that built data sets or loaders, where no sample's line is wrong."""
    divergence = result.divergence
    if divergence is None:
        return
    for name, capture in zip(("reference", "candidate"), captures, strict=True):
        source = Trace.answer(capture).built.get(of)
        point: Point | None = getattr(divergence, name)
        if source and (point is None or point.source is None):
            known = ("missing", "") if point is None else (point.name, point.op)
            setattr(divergence, name, Point(*known, source, code_at(source)))


# -- labels, order, batches --------------------------------------------------------------------------------------------------------


def _labels(reference: Capture, candidate: Capture) -> list[Finding]:
    """Whole numbers that differ in every sample by the same amount, or by a renumbering.

    All samples that were read count.
    """
    found = {f"sample.{leaf}" if leaf else "sample": values for leaf, values in sample_fingerprints.numbers(reference, candidate).items()}
    findings = []
    for name, values in found.items():
        if all(a == b for a, b in values) or len(values) < 2:  # noqa: PLR2004 - one proves nothing
            continue
        shifts = {b - a for a, b in values}
        if len(shifts) == 1 and len({a for a, _ in values}) > 1:
            shift, count = shifts.pop(), len(values)
            more = f"{name}: the candidate's number is the reference's plus {shift}, in all {count} samples"
            less = f"{name}: the candidate's number is the reference's minus {-shift}, in all {count} samples"
            cause = more if shift > 0 else less
            findings.append(Finding("data/label-shift", cause, "count classes from the same number on both sides", True, 1.0, 0.0))
        elif len({a for a, _ in values}) == len({b for _, b in values}) == len(set(values)) > 1:
            cause = f"{name}: classes are numbered in another order: " + ", ".join(f"{a} is {b}" for a, b in sorted(set(values))[:5])
            findings.append(
                Finding("data/label-order", cause, "number the classes as the reference does: sorted folder names, as a rule", False)
            )
    return findings


def _ordered(captures: tuple[Capture, Capture], index: int, sets: tuple[Capture, Capture]) -> Finding | None:
    """Whether the candidate's sample is another sample of the reference.

    Proven where all its samples are, in another order.

    Args:
        captures: the trace.
        index: of the sample.
        sets: both sides' captures of the stage, with the fingerprints of all samples.
    """
    telling = _telling_parts(captures[1])
    if not telling:
        return None
    # a sample is another one only if all of its parts are
    same_in_all = set.intersection(*(_samples_like(captures[0], leaf, value) for leaf, value in telling.items()))
    if not same_in_all or index in same_in_all:
        return None
    cause = f"sample {index} of the candidate is sample {min(same_in_all)} of the reference: the samples come in another order"
    fix = "sort what the data set lists, by the same rule on both sides"
    if all(_in_both(sets, leaf) for leaf in telling):
        return Finding("data/order", cause, fix, True, 1.0, 0.0)
    return Finding("data/order", cause, fix, proven=False)


def _telling_parts(candidate: Capture) -> dict[str, Any]:
    """Leaf -> value of the parts of the traced sample that may tell it from others."""
    stored = [r for r in candidate.select(run="seed-0") if r.location is not None and r.name.startswith("sample")]
    values = {r.name.partition(".")[2]: candidate.array(r) for r in stored}
    return {leaf: value for leaf, value in values.items() if _tells(value)}


def _samples_like(reference: Capture, leaf: str, value: Any) -> set[int]:
    """The reference's samples of which a part has the same digest."""
    digest = moments(value)
    found = set()
    for record in reference.records:
        is_part = record.name.startswith("scan_") and record.leaf == leaf
        if is_part and record.digest and agree(record.digest, digest, ALIKE):
            found.add(int(record.name.removeprefix("scan_")))
    return found


def _tells(value: Any) -> bool:
    """Whether a part of a sample may tell it from others: it holds several values."""
    held = np.asarray(value)
    return held.size > 1 and held.dtype.kind in "biuf" and bool(np.ptp(np.asarray(held, np.float64)))


def _in_both(sets: tuple[Capture, Capture], leaf: str) -> bool:
    """Whether a leaf has the same values in both data sets, in whatever order."""
    one, other = (sample_fingerprints.tables(c).get(leaf) for c in sets)
    if one is None or other is None or len(one.index) != len(other.index):
        return False
    return sample_fingerprints.matched(one, other, Tolerance()) == len(one.index)


def _batches(reference: Capture, candidate: Capture) -> list[Finding]:
    """What is wrong with batches whose samples are right."""
    sides = reference, candidate
    counts = [int(c.array(r)) for c in sides for r in c.select(name="batches")]
    sizes = [size for size in map(_first_size, sides) if size is not None]
    if len(sizes) == 2 and sizes[0] != sizes[1] and not _is_size_set_alike(*sides):  # noqa: PLR2004 - both
        cause = f"batches of {sizes[0]} in the reference, of {sizes[1]} in the candidate"
        return [Finding("data/batch-size", cause, "set the batch size as in the reference", True, abs(sizes[0] - sizes[1]) / sizes[0], 0.0)]
    if len(counts) == 2 and abs(counts[0] - counts[1]) == 1:  # noqa: PLR2004 - both
        cause = f"{counts[0]} batches in the reference, {counts[1]} in the candidate: the last, partial batch is left out on one side"
        return [Finding("data/drop-last", cause, "set drop_last alike on both sides", proven=False)]
    wrong = _wrong_batches(reference, candidate)
    return [_put_together(reference, candidate, wrong)] if wrong else []


def _first_size(capture: Capture) -> int | None:
    """How many samples a loader's first batch has; None where it is not kept."""
    record = next(iter(capture.select(name="dataloader_0")), None)
    if record is None or record.location is None or not record.shape:
        return None
    return len(capture.array(record))


def _is_size_set_alike(reference: Capture, candidate: Capture) -> bool:
    """Whether both loaders are told one batch size."""
    own, due = (Data.answer(c).settings for c in (candidate, reference))
    if "batch_size" not in own or "batch_size" not in due:
        return False
    return bool(own["batch_size"] == due["batch_size"])


def _put_together(reference: Capture, candidate: Capture, wrong: list[tuple[Any, Any]]) -> Finding:
    """What is wrong with batches of equal sizes, of which some ``wrong`` arrays differ."""
    one, other = wrong[0]
    if one.ndim > 1 and all(_rows(*pair) for pair in wrong):
        if not _is_order_of_all(reference, candidate):
            cause = (
                "in a part of a batch the rows are the reference's in another order, in the other parts they are not: they belong to others"
            )
            return Finding("data/batch-parts", cause, "compare how the parts of a batch are put together", proven=False)
        cause, fix = "a batch holds the reference's samples in another order", "switch shuffling off on both sides"
        return Finding("data/batch-order", cause, fix, True, apart(one, other), 0.0)
    inside = placed_in_rows(wrong)
    if inside is not None:
        cause, fix = told(inside[0])
        is_one_kind = len({each.rule() for each in inside}) == 1
        return Finding(f"data/{inside[0].rule()}", cause, fix, is_one_kind and len(inside) > 1, apart(one, other), 0.0)
    finding = explain(None, one, other)
    if finding is None:
        cause = "the samples agree, the batches do not: they are put together in another way"
        return Finding("data/batch", cause, "compare the collate functions, and the order of samples", proven=False)
    finding.proven = finding.proven and len(wrong) > 1 and all(carries((None, one, other), (None, *pair)) for pair in wrong[1:])
    return finding


def _wrong_batches(reference: Capture, candidate: Capture) -> list[tuple[Any, Any]]:
    """The arrays of the first differing leaf, of every batch where shapes are equal."""
    leaf, found = None, []
    for record in reference.records:
        key = key_of_record(record)
        if key is None or key.kind is not Kind.BATCH or record.location is None or (leaf is not None and record.leaf != leaf):
            continue
        others = candidate.select(name=record.name, leaf=record.leaf)
        if not others or others[0].location is None:
            continue
        one, other = (np.asarray(c.array(r), np.float64) for c, r in ((reference, record), (candidate, others[0])))
        if one.shape == other.shape and one.ndim > 0 and apart(one, other):
            leaf = record.leaf
            found.append((one, other))
    return found


def _is_order_of_all(reference: Capture, candidate: Capture) -> bool:
    """Whether every part of every batch is in another order alike: the samples are."""
    batches: dict[str, list[tuple[Any, Any]]] = {}
    for record in reference.records:
        key = key_of_record(record)
        if key is None or key.kind is not Kind.BATCH or record.location is None:
            continue
        others = candidate.select(name=record.name, leaf=record.leaf)
        if not others or others[0].location is None:
            continue
        one, other = (np.asarray(c.array(r), np.float64) for c, r in ((reference, record), (candidate, others[0])))
        if one.ndim and one.shape == other.shape:
            batches.setdefault(record.name, []).append((one, other))
    return all(_is_one_order(parts) for parts in batches.values())


def _is_one_order(parts: list[tuple[Any, Any]]) -> bool:
    """Whether each row of the candidate's batch is one of the reference's in all parts."""
    count = min(len(one) for one, _ in parts)
    alike = np.ones((count, count), bool)
    for one, other in parts:
        alike &= np.array([[apart(one[j].reshape(-1), other[i].reshape(-1)) <= EQUAL for j in range(count)] for i in range(count)])
    return bool(alike.any(axis=1).all())


def _rows(one: Any, other: Any) -> bool:
    """Whether two batches have the same rows in another order."""
    rows = [row.reshape(-1) for row in one]
    return all(any(apart(row, own.reshape(-1)) <= EQUAL for row in rows) for own in other)
