"""How a stage judges: the method, the reference's noise, pairs measured against it.

``float64``
    Both sides ran in float64. The error there is meaning; the noise is the distance of the reference's native run from its
    float64 run. Aligned up to a ratio of 1: correct ports measured 0.0001 to 0.45 (kernels that store constants in float32).
``float64, partly in lower precision``
    A side casts by itself, so that the float64 runs, too, round. The noise is that of the native run and of runs with inputs moved by
    one unit in the last place, where these were made. Aligned up to 10.
``native against float64``
    Only the reference ran in float64. The candidate's native run is held against it. Correct ports measured 0.9 to 3.1;
    aligned up to 10.
``perturbation``
    The reference has no float64 run. The noise is how far its outputs move when its inputs (where none is floating, its
    weights) move by one unit in the last place. Aligned up to 10.
``rounding``
    Values that are computed once, from equal data: the noise is one rounding of the type. Aligned up to 10.
``exact``
    Integers, booleans and text: equal or not.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.align import leaves
from paralign.comparison import compare_pair, complete, judge, measure, outsized
from paralign.comparison.judge import LOUD, finite
from paralign.context import PERTURBED
from paralign.dtypes import EPS, is_complex, is_floating, is_whole, widen
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Coverage, Noise, Pair, Pass, StageResult
from paralign.stages.common import coarse
from paralign.stages.common.places import Kind, key_of
from paralign.worker.protocol import runs_of
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.model import Record, Tolerance

#: kernels store their constants (slopes, momenta) in float32 whatever they compute in: two units in its last place are no meaning
CONSTANTS = 2 * EPS["float32"]

#: what :class:`Coverage` calls the elements that are compared as numbers
ELEMENTS = "elements"

#: pairs of fewer elements may by chance show less noise than there is: theirs is at least the median of their fellows'
FEW = 64


@dataclass(frozen=True)
class Method:
    """How a stage is judged.

    Which runs are held against each other, which runs tell the noise, up to which ratio.
    """

    name: str
    reference_run: str
    candidate_run: str
    noise_runs: tuple[str, ...]
    limit: float


FLOAT64 = Method("float64", DOUBLE, DOUBLE, (NATIVE,), 1.0)
PARTLY = Method("float64, partly in lower precision", DOUBLE, DOUBLE, (NATIVE, *PERTURBED), 10.0)
AGAINST = Method("native against float64", DOUBLE, NATIVE, (NATIVE,), 10.0)
PERTURBATION = Method("perturbation", NATIVE, NATIVE, PERTURBED, 10.0)
ROUNDING = Method("rounding", "", "", (), 10.0)


def choose(reference: Capture, candidate: Capture, mode: str = "") -> tuple[Method, list[str]]:
    """The best method that the runs allow, and notes on what kept from a better one.

    Args:
        reference: the reference's capture.
        candidate: the candidate's capture.
        mode: the mode of the runs that are asked for, '' for any.
    """
    notes = []
    runs = {}
    for side, capture in (("reference", reference), ("candidate", candidate)):
        answer = runs_of(capture)
        done = [Pass.of(run) for run in answer.runs]
        runs[side] = {each.precision for each in done if mode in ("", each.mode)}
        reasons: dict[str, None] = {}
        for run, reason in answer.failed.items():
            each = Pass.of(run)
            if each.precision == DOUBLE and mode in ("", each.mode):
                reasons[reason] = None
        notes += [f"the {side} does not run in float64: {reason}" for reason in reasons]
    if DOUBLE not in runs["reference"]:
        return PERTURBATION, notes
    if DOUBLE not in runs["candidate"]:
        return AGAINST, notes
    low = in_lower_precision(candidate, mode)
    if low:
        return PARTLY, [*notes, low]
    return FLOAT64, notes


def in_lower_precision(candidate: Capture, mode: str = "") -> str:
    """Where a candidate's float64 run computed in less, in words; '' where nowhere."""
    low = set()
    for record in candidate.records:
        if record.role != "output" or not _is_in_double(record.run, mode):
            continue
        if _is_coarser(record.dtype):
            low.add(f"{record.name or 'the model'} ({record.dtype})")
    if not low:
        return ""
    return f"the candidate computes in lower precision even where everything is float64, in {', '.join(sorted(low)[:3])}"


def _is_in_double(run: str, mode: str) -> bool:
    """Whether a run is in float64, and of a mode unless any will do."""
    if mode:
        return run in (DOUBLE, f"{DOUBLE}:{mode}")
    return Pass.of(run).precision == DOUBLE


def _is_coarser(dtype: str) -> bool:
    """Whether a type of elements holds fewer digits than float64 does."""
    return is_floating(dtype) and EPS[dtype] > EPS[DOUBLE]


def floor(dtype: str) -> float:
    """The least relative noise that is granted.

    Half a unit in the last place, and what constants stored in float32 cause.
    """
    return max(EPS[dtype] / 2, CONSTANTS) if dtype in EPS else 0.0


def twofold(record: Record) -> Noise:
    """What constants stored in float32 do to a gradient.

    An operation's enter twice, by what it makes and by its derivative.
    """
    return Noise(2 * floor(record.dtype), "float32 constants, in the forward and in the backward pass")


def _twin(record: Record, run: str, mode: str) -> tuple[str, str, str, str, int, int]:
    return (record.role, record.name, record.leaf, run + mode, record.step, record.call)


class Noises:
    """The reference's own noise at each of its records, measured once."""

    def __init__(self, capture: Capture, method: Method, *, modules: bool = False) -> None:
        self.capture, self.method = capture, method
        self._by_point = {_twin(r, r.run, ""): r for r in capture.records if ("module" in r.attrs) is modules}

    def of(self, record: Record) -> Noise | None:
        """The noise at a record of the reference run; None for what is not floating."""
        if not is_floating(record.dtype) or record.location is None:
            return None
        if not self.method.noise_runs:
            coarse = record.dtype if EPS[record.dtype] > EPS["float32"] else "float32"  # a float64 may have been computed in float32
            return Noise(EPS[coarse], f"one rounding of {coarse}")
        mode = record.run[len(self.method.reference_run) :]
        value, far, native = self.capture.value(record), [], record.dtype
        for run in self.method.noise_runs:
            twin = self._by_point.get(_twin(record, run, mode))
            if twin is None or twin.location is None or twin.shape != record.shape:
                continue
            far.append(measure(value, self.capture.value(twin), shown=False).rel_l2)
            if is_floating(twin.dtype):
                native = twin.dtype
        if not far:
            return Noise(floor(native), f"the least that is granted to {native}")
        how = "inputs moved by one unit in the last place"
        if self.method.reference_run == DOUBLE:
            how = "the reference's float64 run against its native run"
        return Noise(max([*far, floor(native)]), how)

    def unsure(self, record: Record) -> bool:
        """Whether whole numbers of the reference differ between its own runs.

        Rounding decides them then.
        """
        if not is_whole(record.dtype) or record.location is None:
            return False
        mode, value = record.run[len(self.method.reference_run) :], self.capture.array(record)
        twins = [self._by_point.get(_twin(record, run, mode)) for run in self.method.noise_runs]
        known = [self.capture.array(twin) for twin in twins if twin is not None and twin.location is not None]
        return any(not np.array_equal(value, each) for each in known)

    def both(self, record: Record) -> tuple[Typed, Typed] | None:
        """What a record is in the reference's float64 and native runs.

        None where not both sides are compared in float64.
        """
        if (self.method.reference_run, self.method.candidate_run) != (DOUBLE, DOUBLE):
            return None
        twin = self._by_point.get(_twin(record, NATIVE, record.run[len(DOUBLE) :]))
        if twin is None or twin.location is None or record.location is None:
            return None
        return self.capture.value(record), self.capture.value(twin)


def paired(
    reference: Capture, candidate: Capture, points: Sequence[tuple[Record | None, Record | None, str]], method: Method, tolerance: Tolerance
) -> list[Pair]:
    """Pairs of records measured and judged by a method."""
    noises = Noises(reference, method)
    pairs = []
    for first, second, how in points:
        pair = compare_pair(
            _key(first, second),
            first,
            second,
            _value(reference, first),
            _value(candidate, second),
            how=how,
            atol=tolerance.atol,
            rtol=tolerance.rtol,
            shown=False,
        )
        pair.noise = noises.of(first) if first is not None else None
        pairs.append(pair)
    settle(pairs, method, tolerance)
    _judge_beside_outsized(pairs, noises, candidate, tolerance)
    if tolerance.ratio is None:
        coarse.excuse(pairs, noises.both, lambda _, second: _value(candidate, second))
    for pair in pairs:
        if pair.verdict != ALIGNED:
            complete(pair, *(_value(*side) for side in ((reference, pair.reference), (candidate, pair.candidate))))
    return pairs


def _judge_beside_outsized(pairs: Iterable[Pair], noises: Noises, candidate: Capture, tolerance: Tolerance) -> None:
    """Judge what is left of tensors without a few outsized values.

    Beside these its errors would be a small share. Only of what agrees so far, and where the reference's own noise of the rest is
    small: else the rest is nothing but rounding.
    """
    limit = noises.method.limit if tolerance.ratio is None else tolerance.ratio
    for pair in pairs:
        first, second, stats = pair.reference, pair.candidate, pair.stats
        if pair.verdict != ALIGNED or tolerance.absolute or first is None or second is None or stats is None or not stats.mismatched:
            continue
        own, value = noises.both(first), _value(candidate, second)
        places = None if own is None or is_complex(first.dtype) or is_complex(second.dtype) else outsized.outsized(widen(own[0]))
        if own is None or value is None or places is None or value.array.size != places.size:
            continue
        reference, native, rest = (outsized.without(each, places) for each in (*own, value))
        noise = max(measure(reference, native, shown=False).rel_l2, floor(own[1].dtype))
        if noise > LOUD:
            continue
        pair.stats, pair.noise = measure(reference, rest, shown=False), Noise(noise, "the reference's float64 run against its native run")
        pair.notes.append(f"judged without {int(places.sum())} outsized values of {places.size}, beside which the others are nothing")
        judge(pair, limit=limit, tolerance=tolerance)


def settle(pairs: Iterable[Pair], method: Method, tolerance: Tolerance, least: float = 0.0) -> None:
    """Judge every pair, small ones with at least the usual noise of the others.

    No pair has less noise than ``least``.
    """
    pairs = list(pairs)
    known = [p.noise.value for p in pairs if p.noise is not None and p.stats is not None and p.stats.count >= FEW]
    usual = max(least, statistics.median(known) if known else 0.0)
    limit = method.limit if tolerance.ratio is None else tolerance.ratio
    for pair in pairs:
        few = pair.stats is not None and pair.stats.count < FEW
        if pair.noise is not None and few and usual > pair.noise.value and not _is_rate(pair):
            pair.noise = Noise(usual, "the usual noise of the stage's larger tensors")
        judge(pair, limit=limit, tolerance=tolerance, exact=pair.noise is None)


def doubt_whole_numbers(pairs: Iterable[Pair], noises: Noises) -> None:
    """Hold whole numbers for undecided where the reference's own runs differ in them.

    The nearest of several codes, an index of the greatest: where two are equally near, rounding decides.
    """
    for pair in pairs:
        if pair.verdict == DIVERGED and pair.reference is not None and pair.stats is not None and noises.unsure(pair.reference):
            pair.verdict = UNDERPOWERED
            pair.notes.append("the reference's own rounding decides these whole numbers: its runs differ in them")


def _is_rate(pair: Pair) -> bool:
    """Whether a pair is a learning rate, which no noise of tensors explains."""
    place = key_of(pair)
    return place is not None and place.kind in (Kind.RATE, Kind.SCHEDULE)


def _key(first: Record | None, second: Record | None) -> str:
    record = first if first is not None else second
    return record.key if record is not None else ""


def _value(capture: Capture, record: Record | None) -> Typed | None:
    if record is not None and record.location is not None:
        return capture.value(record)
    return None


def final(capture: Capture, **fields: object) -> list[Record]:
    """A capture's records of a kind, module calls left out."""
    return [r for r in capture.select(**fields) if "module" not in r.attrs]


def points_of(reference: Sequence[Record], candidate: Sequence[Record]) -> list[tuple[Record | None, Record | None, str]]:
    """Records of both sides paired by name, then by order."""
    return leaves(reference, candidate)


def conclude(result: StageResult, method: Method | str) -> StageResult:
    """The stage's verdict from its pairs; nothing judged is ``not tested``."""
    result.method = method if isinstance(method, str) else method.name
    granted = dict.fromkeys(str(p.granted) for p in result.judged if p.granted is not None)
    if granted:
        result.method = f"the user's tolerance: {'; '.join(granted)}"
    result.verdict = result.verdict_of_pairs
    if result.verdict == NOT_TESTED:
        result.notes.append("nothing was compared")
    _count_elements(result)
    _say_weakest(result)
    if result.verdict == DIVERGED and any(p.how == "structure" for p in result.pairs):
        result.notes.append("names differ between the sides; their values were paired in order")
    return result


def _say_weakest(result: StageResult) -> None:
    """Say of a test that is too weak which value makes it so, and why."""
    told = weakest(result)
    if result.verdict == UNDERPOWERED and told and told not in result.notes:
        result.notes.append(told)


def weakest(result: StageResult) -> str:
    """Which value makes a test too weak, and why; '' where none is known to."""
    for pair in result.pairs:
        if pair.judged and pair.verdict == UNDERPOWERED and pair.notes:
            return f"too weak to tell right from wrong: {pair.key}: {pair.notes[-1]}"
    return ""


def _count_elements(result: StageResult) -> None:
    """Count the elements compared as numbers, where some are NaN or infinite."""
    whole = compared = 0
    for pair in result.pairs:
        if not pair.judged or pair.stats is None:
            continue
        if not pair.stats.nan and not pair.stats.inf:
            whole += pair.stats.count
            compared += finite(pair.stats)
    result.coverage = [c for c in result.coverage if c.what != ELEMENTS]
    if compared < whole:
        result.coverage.append(Coverage(ELEMENTS, compared, whole))
