"""Compare what was recorded earlier, here or elsewhere, without running anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import load_foreign
from paralign.comparison import compare_pair, judge
from paralign.context import PERTURBED
from paralign.dtypes import EPS, typed
from paralign.errors import UnsupportedTensor
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, CheckResult, Noise, Pass, Record, StageResult
from paralign.stages.common.judging import AGAINST, FLOAT64, PARTLY, PERTURBATION, Method, conclude, in_lower_precision, paired, points_of
from paralign.stages.data.stage import first
from paralign.stages.forward.handed import is_given
from paralign.stages.offline import module_outputs
from paralign.worker.protocol import runs_of
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import Pair, Tolerance

#: without a measured noise, this many roundings are granted ...
GRANTED = 100.0
#: ... and up to this relative error nobody can tell rounding from meaning
UNTOLD = 1e-2

ASSUMED = Method("assumed: no noise was recorded, a hundred roundings are granted", "", "", (), GRANTED)


def compare_captures(reference: Capture, candidate: Capture, tolerance: Tolerance) -> CheckResult:
    """Every record of two captures, paired by name, then by order.

    With the reference's noise where it has several runs.
    """
    result = StageResult(reference.manifest.stage or "capture")
    for side, capture in (("reference", reference), ("candidate", candidate)):
        if not capture.complete:
            result.warnings.append(f"the {side}'s capture is incomplete: its run was interrupted; what is there was compared")
    method = _method(*(_runs(capture) for capture in (reference, candidate)))
    low = in_lower_precision(candidate) if method is FLOAT64 else ""
    if low:
        method = PARTLY
        result.notes.append(low)
    for side, capture in (("reference", reference), ("candidate", candidate)):
        failed = runs_of(capture).failed
        reasons = dict.fromkeys(reason for run, reason in failed.items() if Pass.of(run).precision == DOUBLE)
        result.notes += [f"the {side} does not run in float64: {reason}" for reason in reasons]
    points = points_of(_results(reference, method.reference_run), _results(candidate, method.candidate_run))
    result.pairs = paired(reference, candidate, points, method, tolerance)
    module_outputs.compare(result, reference, candidate, method, tolerance)
    return _concluded(result, method, tolerance)


def _results(capture: Capture, run: str) -> list[Record]:
    """The records of a run, without those of modules."""
    return [r for r in capture.records if "module" not in r.attrs and Pass.of(r.run).precision == run]


def _runs(capture: Capture) -> set[str]:
    """The runs that a capture holds results of; of modules alone, theirs."""
    return {r.run for r in capture.records if "module" not in r.attrs} or {r.run for r in capture.records}


def _method(reference: set[str], candidate: set[str]) -> Method:
    """The best method that two sets of runs allow.

    What is there counts, not what an interrupted job meant to record.
    """
    has = [{Pass.of(run).precision for run in runs} for runs in (reference, candidate)]
    if DOUBLE in has[0] & has[1] and NATIVE in has[0]:
        return FLOAT64
    if {DOUBLE, NATIVE} <= has[0] and NATIVE in has[1]:
        return AGAINST
    if PERTURBED[0] in has[0] and NATIVE in has[0] & has[1]:
        return PERTURBATION
    run = next((run for run in (NATIVE, DOUBLE, "") if run in has[0] & has[1]), "")
    return replace(ASSUMED, reference_run=run, candidate_run=run)


def compare_files(reference: Path, candidate: Path, tolerance: Tolerance) -> CheckResult:
    """Two files of arrays, entry by entry, nested entries by their path."""
    result = StageResult(reference.name)
    sides = [_entries(load_foreign(path), path) for path in (reference, candidate)]
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    keys.sort(key=lambda key: not is_given(key))  # inputs first: what follows from them is not at fault
    for key in keys:
        ends = [side.get(key) for side in sides]
        records = [None if e is None else _record(number, key, e) for number, e in enumerate(ends)]
        values = [None if e is None or isinstance(e, str) else typed(e) for e in ends]
        pair = compare_pair(key, records[0], records[1], values[0], values[1], atol=tolerance.atol, rtol=tolerance.rtol)
        judge(pair, limit=0.0, tolerance=tolerance, exact=True)
        result.pairs.append(pair)
    found = _concluded(result, ASSUMED, tolerance)
    wrong = [pair.key for pair in result.pairs if is_given(pair.key) and pair.verdict != ALIGNED]
    if wrong:
        result.warnings.insert(0, f"the inputs differ ({', '.join(wrong)}): what else differs may only follow from that")
    return found


def arrays_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file by the path of their entry, as :func:`compare_files` names them.

    Texts are left out.
    """
    return {key: value for key, value in _entries(load_foreign(path), path).items() if not isinstance(value, str)}


def _entries(value: Any, path: Path) -> dict[str, Any]:
    """Arrays, numbers and texts of nested containers by their path."""
    found = {}
    for key, leaf in leaves(value, lambda v: isinstance(v, (np.ndarray, np.generic))):
        if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex, str)):
            raise UnsupportedTensor(f"an entry of type {type(leaf).__name__} cannot be compared", where=f"{path}: {key}")
        known = leaf if isinstance(leaf, str) else np.asarray(leaf)
        if not isinstance(known, str) and known.dtype.kind not in "biufcV":
            raise UnsupportedTensor(
                f"an array of {known.dtype} cannot be compared",
                where=f"{path}: {key}" if key else str(path),
                hint="leave it out, or save texts one by one",
            )
        name, again = key or "array", 1
        while name in found:  # {"a.b": …, "a": {"b": …}}: two entries of one path
            again += 1
            name = f"{key} ({again})"
        found[name] = known
    return found


def _record(number: int, key: str, value: Any) -> Record:
    if isinstance(value, str):
        return Record(number, key, "", "output", "str", (), text=value)
    known = typed(value)
    return Record(number, key, "", "output", known.dtype, tuple(known.array.shape))


def _concluded(result: StageResult, method: Method, tolerance: Tolerance) -> CheckResult:
    """Judge what has no noise of its own by roundings.

    Between those and what nobody can tell apart, say so.
    """
    if method.name == ASSUMED.name:
        for pair in result.pairs:
            _judge_by_roundings(pair, tolerance)
    conclude(result, method)
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
    return CheckResult([result.list_first()])


def _judge_by_roundings(pair: Pair, tolerance: Tolerance) -> None:
    """Judge a pair by one rounding of its type; leave open what may be more of them."""
    dtype = pair.reference.dtype if pair.reference is not None else ""
    other = pair.candidate.dtype if pair.candidate is not None else ""
    if pair.stats is None or dtype not in EPS:
        return
    pair.noise = Noise(max(EPS[dtype], EPS.get(other, 0.0)), f"one rounding of {dtype}")
    judge(pair, limit=GRANTED if tolerance.ratio is None else tolerance.ratio, tolerance=tolerance)
    if pair.verdict != DIVERGED or tolerance.ratio is not None or tolerance.absolute:
        return
    if pair.error is None or not pair.error <= UNTOLD or pair.stats.nan or pair.stats.inf:
        return
    pair.verdict = UNDERPOWERED
    pair.notes.append(
        "more than rounding, less than a hundredth: without the reference's noise nobody can tell; `paralign check` measures it"
    )
