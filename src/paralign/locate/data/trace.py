"""The way of one sample on both sides: the first wrong step, and its counterpart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.data.array_difference import carries, explain, normalisation, pointwise, same
from paralign.locate.data.distances import EQUAL, apart
from paralign.model import Finding

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record

Array = np.ndarray[Any, Any]

#: arrays of fewer elements are found everywhere: they prove nothing by being equal
LEAST = 8

#: unless they have fractions
FEW = 3


@dataclass
class Step:
    """One recorded step."""

    number: int
    record: Record
    value: Array
    inputs: list[int]
    twin: int | None = None

    @property
    def said(self) -> str:
        """What the step is called: a transform, a variable, or the function that returns it."""
        returned = self.record.op == "return" and self.record.attrs.get("function")
        return str(self.record.attrs["function"] if returned else self.record.op)

    @property
    def telling(self) -> bool:
        """Whether an equal value elsewhere is no accident."""
        fractions = self.value.size >= FEW and bool((self.value != np.round(self.value)).any())
        return (self.value.size >= LEAST or fractions) and float(np.ptp(self.value)) > 0


@dataclass
class Way:
    """The steps of one side in order, and which made which leaf of the sample."""

    steps: list[Step]
    leaves: dict[str, tuple[Array, int | None]] = field(default_factory=dict)

    @classmethod
    @np.errstate(all="ignore")  # memory that nobody has written to yet holds anything
    def read(cls, capture: Capture, run: str) -> Way:
        """The way that was traced in one run."""
        found: list[Step] = []
        numbers: dict[int, int] = {}
        way = cls(found)
        for record in capture.select(run=run):
            if record.location is None or np.asarray(capture.array(record)).dtype.kind == "c":
                continue
            value = np.asarray(capture.array(record), np.float64)
            if record.name.startswith("step_"):
                numbers[record.id] = len(found)
                found.append(Step(len(found), record, value, [numbers[i] for i in record.inputs if i in numbers]))
            else:
                way.leaves[record.key] = value, record.attrs.get("made")
        return way


@dataclass(frozen=True)
class Evidence:
    """The values that a finding explains: what both were made from, and both results."""

    given: Array | None
    reference: Array
    candidate: Array


@dataclass
class Guilty:
    """A step that makes wrong values of right ones; either end may be missing."""

    reference: Step | None
    candidate: Step | None
    before: Step | None
    finding: Finding | None
    last: str | None = None
    evidence: Evidence | None = None


@np.errstate(all="ignore")
def locate(reference: Way, candidate: Way, leaf: str) -> Guilty | None:
    """Where a leaf of the sample goes wrong; None where neither side's way to it was seen.

    Args:
        reference: the trusted way.
        candidate: the other.
        leaf: the key of the leaf that differs, the same on both sides.
    """
    _pair(reference, candidate)
    final = candidate.leaves.get(leaf)
    target = reference.leaves.get(leaf)
    if final is None or target is None:
        return None
    made = final[1]
    if made is None or made >= len(candidate.steps):
        return None
    last = candidate.steps[made]
    if last.value.size >= LEAST and not pointwise(target[0], last.value):
        _loosen(reference, candidate)
    if last.twin is not None and last.telling:
        return _left_out(reference, last, target)
    return _walk(reference, candidate, last, target)


@np.errstate(all="ignore")
def locate_last(reference: Way, candidate: Way) -> Guilty | None:
    """Where two ways part whose ends are not known, from the candidate's last strange value.

    Programs that print have such ways.

    Where all have theirs, the candidate may end before the reference does. None where it does not.
    """
    _pair(reference, candidate)
    strange = [step for step in candidate.steps if step.twin is None and step.record.attrs.get("kind") != "constant"]
    wrong = [step for step in strange if step.telling]
    if not wrong:  # few numbers: the first that the reference has not
        wrong = [step for step in strange if step.value.ndim][:1]
    known = [step for step in reference.steps if step.telling]
    if wrong:
        target = known[-1] if known else wrong[-1]
        return _walk(reference, candidate, wrong[-1], (target.value, None))
    own = [step for step in candidate.steps if step.telling]
    if not known or not own:
        return None
    return _left_out(reference, own[-1], (known[-1].value, known[-1].number))


def holds(found: Guilty, other: Guilty | None) -> bool:
    """Whether one sample's finding is another's: the same kind with the same numbers.

    The other was not used to find it.
    """
    if found.finding is None or other is None or other.finding is None or other.finding.rule != found.finding.rule:
        return False
    if found.evidence is None or other.evidence is None:
        return other.finding.proven and found.evidence is other.evidence
    one, two = found.evidence, other.evidence
    return carries((one.given, one.reference, one.candidate), (two.given, two.reference, two.candidate))


def _pair(reference: Way, candidate: Way) -> None:
    """Give every step of the candidate a counterpart: the first with its values.

    It does not come before the counterparts of its inputs.
    """
    known = _Lengths(reference.steps)
    for step in candidate.steps:
        twins = [candidate.steps[number].twin for number in step.inputs]
        least = max((twin for twin in twins if twin is not None), default=-1)
        fits = [s.number for s in known.near(step.value) if same(s.value, step.value)]
        behind_inputs = [number for number in fits if number >= least]
        step.twin = next(iter(behind_inputs or fits), None)


class _Lengths:
    """Steps by the size and the length (L2 norm) of their values.

    What is not as long is not the same.
    """

    def __init__(self, steps: list[Step]) -> None:
        self._of_size: dict[int, list[tuple[float, int, Step]]] = defaultdict(list)
        for step in steps:
            self._of_size[step.value.size].append((_length(step.value), step.number, step))
        for entries in self._of_size.values():
            entries.sort(key=lambda entry: entry[:2])

    def near(self, value: Array) -> list[Step]:
        """The steps that may hold a value, in their order."""
        entries, length = self._of_size.get(value.size, []), _length(value)
        if not np.isfinite(length):
            return [step for found, _, step in sorted(entries, key=lambda entry: entry[1]) if not np.isfinite(found)]
        margin = 2 * EQUAL * length
        begin = bisect_left(entries, length - margin, key=lambda entry: entry[0])
        end = bisect_right(entries, length + margin, key=lambda entry: entry[0])
        return [step for _, _, step in sorted(entries[begin:end], key=lambda entry: entry[1])]


def _length(value: Array) -> float:
    """The norm of a value; infinite where it holds anything that is not finite."""
    length = float(np.linalg.norm(value))
    return length if np.isfinite(length) else float("inf")


def _loosen(reference: Way, candidate: Way) -> None:
    """Let steps meet that differ in scale, where places are wrong.

    One side may scale before it crops, the other after.
    """
    for step in candidate.steps:
        if step.twin is not None or not step.telling:
            continue
        for other in reference.steps:
            if other.telling and pointwise(other.value, step.value):
                step.twin = other.number
                break


def _walk(reference: Way, candidate: Way, last: Step, target: tuple[Array, int | None]) -> Guilty:
    """Go back from a wrong step through wrong inputs to one whose inputs are all right."""
    step, seen = last, {last.number}
    while True:
        wrong = [s for s in _inputs(candidate, step) if s.number not in seen and _is_wrong(reference, s, step)]
        arrays = [s for s in wrong if s.value.size >= LEAST or step.value.size < LEAST]
        if not arrays:
            break
        step = max(arrays, key=lambda s: (s.value.size, s.number))
        seen.add(step.number)
    blamed = next(iter(wrong), None) or _misnumbered(reference, candidate, step)
    resized = last.value.size >= LEAST and last.value.size != target[0].size
    return _counterpart(reference, candidate, step, _given(candidate, step), target, blamed, resized=resized)


def _inputs(candidate: Way, step: Step) -> list[Step]:
    """What a step was made from; of an array, numbers that prove nothing are looked through."""
    found: dict[int, Step] = {}
    waiting, seen = list(step.inputs), set()
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        held = candidate.steps[number]
        if held.value.size == 1 and step.value.size >= LEAST:
            waiting += held.inputs
        else:
            found[number] = held
    return [found[n] for n in sorted(found)]


def _misnumbered(reference: Way, candidate: Way, step: Step) -> Step | None:
    """A number read by an array's line that has another value in the reference.

    The reference has a variable of that name.
    """
    if step.value.size < LEAST:
        return None
    for number in step.inputs:
        held = candidate.steps[number]
        if held.value.size >= LEAST:
            continue
        namesakes = [s for s in reference.steps if s.record.op == held.record.op and s.value.shape == held.value.shape]
        if namesakes and not any(same(s.value, held.value) for s in namesakes):
            return held
    return None


def _given(candidate: Way, step: Step) -> Step | None:
    """The right value that a step was made from: the last of those with most axes."""
    before = [s for s in _inputs(candidate, step) if s.twin is not None and s.telling]
    return max(before, key=lambda s: (min(s.value.ndim, 2), s.number), default=None)


def _is_wrong(reference: Way, given: Step, step: Step) -> bool:
    """Whether an input is to blame: it has no counterpart.

    A list for an array is only where the reference has the same entries in another order.
    """
    if given.twin is not None:
        return False
    if step.value.size < LEAST or (given.value.size >= LEAST and given.value.ndim > 1):
        return True
    ordered = np.sort(given.value.reshape(-1))
    if ordered.size <= 1:
        return False
    for other in reference.steps:
        if other.value.size != ordered.size:
            continue
        if apart(np.sort(other.value.reshape(-1)), ordered) <= EQUAL:
            return True
    return False


def _counterpart(
    reference: Way,
    candidate: Way,
    step: Step,
    given: Step | None,
    target: tuple[Array, int | None],
    blamed: Step | None = None,
    *,
    resized: bool = False,
) -> Guilty:
    """The reference's step that corresponds to a guilty one.

    Of those after the counterpart of its input, the nearest that explains it.

    ``resized``: the samples themselves are of other sizes.
    """
    twin = None if given is None or given.twin is None else reference.steps[given.twin]
    before = None if twin is None else twin.value
    if given is not None and given.telling and same(target[0], given.value):
        said = "what goes in here is the reference's result already: this step changes it"
        finding = Finding(
            "data/extra", said, "leave this step out, or do it on the reference's condition alone", True, apart(target[0], step.value), 0.0
        )
        return Guilty(twin, step, given, finding, _named(given))
    skipped = _skipped(reference, step, given, twin)
    if skipped is not None:
        return skipped
    free = _unmatched(reference, candidate, step, twin)
    explained = _explained(free, before, step)
    if explained is not None:
        other, finding = explained
        if finding.rule == "data/normalise":
            blamed = _constant(candidate, step, twin, other)
        return Guilty(other, blamed or step, given, finding, _named(given), Evidence(before, other.value, step.value))
    added = _added(twin, step, given)
    if added is not None:
        return added
    nearest = _nearest(reference, free, step, twin, target[1])
    suspected = _suspected(nearest, step, before, resized=resized)
    return Guilty(nearest, blamed or step, given, suspected, _named(given))


def _explained(free: list[Step], before: Array | None, step: Step) -> tuple[Step, Finding] | None:
    """The step of the reference that best explains a wrong one by a proven finding."""
    found = []
    for other in free:
        finding = explain(before, other.value, step.value) if other.telling else None
        if finding is not None and finding.proven:
            found.append((other, finding))
    return min(found, key=lambda each: each[1].error_before or 0.0, default=None)


def _added(twin: Step | None, step: Step, given: Step | None) -> Guilty | None:
    """A step that the reference does not have, if what it does to its input is known."""
    if twin is None or given is None:
        return None
    finding = explain(None, given.value, step.value)
    if finding is None or not finding.proven:
        return None
    finding.rule, finding.fix = "data/extra", "leave this step out"
    finding.cause = f"a step that the reference does not have: {finding.cause}"
    return Guilty(twin, step, given, finding, _named(given), Evidence(None, given.value, step.value))


def _nearest(reference: Way, free: list[Step], step: Step, twin: Step | None, due: int | None) -> Step | None:
    """The step of the reference that is compared where none explains the wrong one."""
    if step.value.size < LEAST and due is not None and due < len(reference.steps):
        return reference.steps[due]
    for other in free:
        if twin is None or not same(other.value, twin.value):
            return other
    return None


def _suspected(nearest: Step | None, step: Step, before: Array | None, *, resized: bool) -> Finding | None:
    """What the nearest step suggests; nothing of shapes that cannot be compared."""
    if nearest is None:
        return None
    finding = explain(before, nearest.value, step.value)
    if finding is not None and finding.rule == "data/shape" and not _comparable(nearest, step, resized=resized):
        return None
    return finding


def _comparable(nearest: Step, step: Step, *, resized: bool) -> bool:
    """Whether other sizes tell something.

    They do not of steps that need not correspond, as of lists in another order.
    """
    if nearest.value.ndim != step.value.ndim:
        return False
    if resized:
        return True
    return nearest.said.lower() == step.said.lower() and not step.said.startswith("__")


def _unmatched(reference: Way, candidate: Way, step: Step, twin: Step | None) -> list[Step]:
    """Steps of the reference that a wrong step may correspond to.

    Made from the counterpart of its input, and no other step's counterpart.
    """
    twins = {s.twin for s in candidate.steps if s.twin is not None and s.telling}
    met = [reference.steps[n].value for n in twins if twin is None or n != twin.number]
    is_large = step.value.size >= LEAST
    found = []
    for each in _after(reference, twin):
        if each.number in twins or (each.value.size >= LEAST) != is_large:
            continue
        if not any(same(each.value, value) for value in met):
            found.append(each)
    return found


def _skipped(reference: Way, step: Step, given: Step | None, twin: Step | None) -> Guilty | None:
    """A step that the candidate lacks: it does what the reference does one step later."""
    if given is None or twin is None or step.value.size < LEAST:
        return None
    own = normalisation(twin.value, step.value)
    if own is None:
        return None
    for missing in (s for s in reference.steps if twin.number in s.inputs):
        for after in (s for s in reference.steps if missing.number in s.inputs):
            theirs = normalisation(missing.value, after.value)
            fits = theirs is not None and all(len(a) == len(b) and np.allclose(a, b, rtol=1e-4) for a, b in zip(own, theirs, strict=True))
            if fits and normalisation(twin.value, missing.value) is not None:
                return Guilty(missing, given, given, _lacking(missing, apart(after.value, step.value)), _named(given))
    return None


def _constant(candidate: Way, step: Step, twin: Step | None, other: Step) -> Step | None:
    """The small array with a normalisation's wrong mean or deviation, if one is read."""
    if twin is None:
        return None
    right, wrong = (normalisation(twin.value, side) for side in (other.value, step.value))
    if right is None or wrong is None:
        return None
    for held in (candidate.steps[i] for i in step.inputs if candidate.steps[i].value.size < LEAST):
        values = held.value.reshape(-1)
        for good, bad in zip(right, wrong, strict=True):
            fits = values.size == len(bad) and any(np.allclose(values * k, bad, rtol=1e-3) for k in (1.0, 255.0, 1 / 255))
            if fits and not np.allclose(good, bad, rtol=1e-3):
                return held
    return None


def _after(reference: Way, twin: Step | None) -> list[Step]:
    """Steps that are made from a step, directly or not, in order; all where there is none."""
    if twin is None:
        return reference.steps
    reached = {twin.number}
    for step in reference.steps[twin.number + 1 :]:
        if reached.intersection(step.inputs):
            reached.add(step.number)
    return [s for s in reference.steps if s.number in reached and s is not twin]


def _left_out(reference: Way, last: Step, target: tuple[Array, int | None]) -> Guilty | None:
    """What the reference does next to a value that is the candidate's result."""
    twin = reference.steps[last.twin] if last.twin is not None else None
    following = _after(reference, twin)
    if twin is None or not following or twin.number == target[1]:
        return None
    missing, error = following[0], apart(target[0], last.value)
    return Guilty(missing, last, last, _lacking(missing, error), _named(last)) if error > 0.0 else None


def _lacking(missing: Step, error: float) -> Finding:
    cause = f"the candidate leaves out what the reference does here: {missing.said}"
    return Finding("data/missing", cause, "put this step in", True, error, 0.0)


def _named(step: Step | None) -> str | None:
    return None if step is None else f"{step.said} at {step.record.source}"


@np.errstate(all="ignore")
def random_steps(first: Way, second: Way) -> list[Step]:
    """Steps of the first way that have other values in the second, or that it lacks.

    What they read is equal.
    """
    found: list[Step] = []
    others = defaultdict(list)
    for step in second.steps:
        others[step.record.source, step.record.op].append(step)
    for step in first.steps:
        fellows = others[step.record.source, step.record.op]
        if not fellows:
            found.append(step)
            continue
        other = fellows.pop(0)
        before, given = ([w.steps[i].value for i in s.inputs] for w, s in ((first, step), (second, other)))
        equal = len(before) == len(given) and all(_equal(a, b) for a, b in zip(before, given, strict=True))
        if equal and not _equal(other.value, step.value):
            found.append(step)
    return found


def _equal(first: Array, second: Array) -> bool:
    return first.shape == second.shape and np.array_equal(first, second, equal_nan=True)
