"""What probes of a metric or a loss came to.

Divergences, warnings, and what frameworks leave open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, UNDERPOWERED
from paralign.stages.common.judging import ROUNDING, paired, points_of
from paralign.worker.evaluation.probes import BROKEN
from paralign.worker.protocol import Ignorable, Probed, Probes

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, StageResult

#: splits that projects have, besides those that the project file names
USUAL_SPLITS = ("train", "val")

#: relative difference up to which two results are one: sums of a million float32 numbers differ by less
SAME = 1e-3


#: results beyond this come of labels that have no score
MODERATE = 1e3


class Weight(Enum):
    """What a difference on a probe means."""

    DIVERGES = "diverges"  #: real data have such batches
    DOUBTS = "doubts"  #: real data may have them, and those of this check do not tell
    WARNS = "warns"  #: real data may have them
    FINITE = "finite"  #: only whether the result is a finite number counts: what follows from a NaN is open
    TIES = "ties"  #: as was measured, with the equal scores told apart


@dataclass(frozen=True)
class Probe:
    """A probe in words.

    ``weight`` is what a difference means, ``refusal`` whether one that fails on one side only is worth a warning.
    """

    said: str
    weight: Weight
    refusal: bool = True


PROBES = {
    "ties": Probe("on coarsely rounded scores, many of them equal,", Weight.TIES),
    "ranked": Probe("where the labels are the second, third, … best class,", Weight.DOUBTS),
    "one_class": Probe("where only one class occurs", Weight.WARNS),
    "absent_class": Probe("where one class is neither predicted nor labelled", Weight.WARNS),
    "mostly_ignored": Probe("where half of the samples are to be ignored", Weight.DIVERGES),
    "all_ignored": Probe("where all samples are to be ignored", Weight.WARNS),
    "partial_batch": Probe("on a batch that is not full", Weight.DIVERGES),
    "one_sample": Probe("on a single sample", Weight.WARNS),
    "no_sample": Probe("on an empty batch", Weight.FINITE, refusal=False),
    "sized": Probe("on scores of several sizes, with thresholds between them,", Weight.WARNS),
    "extreme": Probe("on scores so large that exp() of them overflows", Weight.FINITE),  # values may part: Paddle clips log_softmax
    "nan": Probe("where one output is NaN", Weight.FINITE, refusal=False),
    "soft_labels": Probe("on smoothed labels", Weight.WARNS),
}


#: what the values of a probe are recorded as, before its name
PROBE = "probe_"

#: probes with labels to be ignored
IGNORING = ("mostly_ignored", "all_ignored")


@dataclass(frozen=True)
class Ignored:
    """A label to be ignored that the labels of this split do not have.

    ``value`` is None where none is known. ``source``: a split, or a place in code.

    ``occurs``: whether another split's labels have it; ``kept_by_reference``: whether the
    reference does not leave it out; ``beyond``: whether it only lies beyond a bound in its code.
    """

    value: int | None = None
    source: str = ""
    occurs: bool = False
    side: str = "reference"
    kept_by_reference: bool = False
    beyond: bool = False

    def told(self) -> str:
        """What was tried, and why."""
        began = f"no label of this split is to be ignored; it was tried with {self.value}, "
        if self.occurs:
            return f"{began}which the {self.side}'s labels of the split {self.source} have"
        return f"{began}which the {self.side}'s code ignores ({self.source})"


def _ignored(context: Context, result: StageResult, evaluation: Capture, function: str) -> Ignored:
    """Find a label to be ignored in other splits and in the code of either side.

    None where looking for it fails: a note tells that.
    """
    others = tuple(dict.fromkeys(s for s in (*context.settings.splits, *USUAL_SPLITS) if s != context.settings.split))
    name = f"{function}-ignorable"
    try:
        captures = context.record_both(name, Ignorable(function, others), {"evaluation": evaluation}, Ignorable(function))
    except WorkerFailed as failed:
        result.notes.append(f"labels to be ignored could not be looked for: the {failed.side} failed with {failed.type}: {failed.message}")
        return Ignored()
    finally:
        context.artifacts.pop(name, None)
    answers = [Ignorable.answer(c) for c in captures]
    reference, candidate = (answer.found for answer in answers)
    if any(answer.untried for answer in answers):
        for label in [*reference, *candidate][:1]:
            result.notes.append(
                f"labels to be ignored, such as {label.value} ({label.source}), were not tried: "
                "one that is not left out ends a process on a card"
            )
        return Ignored()
    for label in sorted(reference, key=lambda label: not label.ignores):
        return Ignored(label.value, label.source, label.in_data, kept_by_reference=not label.ignores, beyond=label.beyond)
    for label in candidate:
        return Ignored(label.value, label.source, side="candidate", kept_by_reference=True)
    return Ignored()


def probe(context: Context, result: StageResult, evaluation: Capture, function: str) -> None:
    """Run every probe of ``metric`` or ``loss`` on both sides, and add pairs and warnings.

    Nothing where they differ on real values.
    """
    real = [p.key for p in result.pairs if p.verdict == DIVERGED]
    if real and context.settings.verdict_only:
        return
    ignored = _ignored(context, result, evaluation, function)
    try:
        order = Probes(function, ignored.value, ignored.occurs)
        captures = context.record_both(f"{function}-probes", order, {"evaluation": evaluation})
    except WorkerFailed as failed:
        result.notes.append(f"the probes could not be run: the {failed.side} failed with {failed.type}: {failed.message}")
        return
    finally:
        context.artifacts.pop(f"{function}-probes", None)
    answers = [Probes.answer(c) for c in captures]
    if "all" in answers[0].left_out:
        result.notes.append(f"the {function} was not probed: {answers[0].left_out['all']}")
        return
    pairs = paired(*captures, points_of(captures[0].records, captures[1].records), ROUNDING, context.settings.tolerance_of(function))
    shown = {f"{PROBE}{name}" for name in PROBES}  # without the ways in which equal scores were told apart
    for pair in pairs:
        pair.judged = False
        record = pair.record
        if record is not None and record.name in shown:
            result.pairs.append(pair)
    if real:
        return  # a probe then tells nothing of its own
    if ignored.value is not None:
        result.notes.append(ignored.told())
    is_open = ignored.kept_by_reference or ignored.beyond  # no data are known to have it, or the reference makes of it what it may
    for name, about in PROBES.items():
        warns = (is_open and name in IGNORING) or (function == "loss" and about.weight is Weight.DOUBTS)
        _judge(result, function, name, replace(about, weight=Weight.WARNS) if warns else about, pairs, captures)


def _judge(result: StageResult, function: str, name: str, about: Probe, pairs: list[Pair], captures: tuple[Capture, Capture]) -> None:
    """Add what one probe came to."""
    answers = [Probes.answer(c) for c in captures]
    refused = [a.probes.get(name, "ok") for a in answers]
    failing = [reason for reason in refused if reason != "ok"]
    if len(failing) == 1:
        _refused(result, function, name, about, refused)
    if failing or name in answers[0].left_out:
        return
    ours, theirs = (_values(c, f"{PROBE}{name}") for c in captures)
    wrong = [leaf for leaf in ours if leaf in theirs and not _same(ours[leaf], theirs[leaf], about)]
    if wrong:
        _differs(result, function, name, about, [pairs, captures, answers, wrong])


def _values(capture: Capture, name: str) -> dict[str, Any]:
    return {r.leaf: np.asarray(capture.array(r)) for r in capture.select(name=name) if r.location is not None}


def _same(one: Any, other: Any, about: Probe) -> bool:
    """Whether two results are one, rounding aside.

    Of probes whose values are open, whether they are finite alike.
    """
    if one.shape != other.shape or one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return bool(one.shape == other.shape and (one == other).all())
    first, second = one.astype(np.float64), other.astype(np.float64)
    alike = bool((np.isfinite(first) == np.isfinite(second)).all())
    if about.weight is Weight.FINITE or not alike:
        return alike
    finite = np.isfinite(first)
    return bool(np.allclose(first[finite], second[finite], rtol=SAME, atol=1e-6))


def _refused(result: StageResult, function: str, name: str, about: Probe, refused: list[str]) -> None:
    side = "reference" if refused[0] != "ok" else "candidate"
    reason = refused[0] if side == "reference" else refused[1]
    if any(f"({reason})" in warning for warning in result.warnings):
        return  # one cause, told once
    told = f"the {side}'s {function} fails on the probe {name!r} ({reason}), the other side's does not"
    (result.warnings if about.refusal else result.notes).append(told)


def _differs(result: StageResult, function: str, name: str, about: Probe, found: list[Any]) -> None:
    pairs, captures, answers, wrong = found
    key = f"{PROBE}{name}.{wrong[0]}" if wrong[0] else f"{PROBE}{name}"
    values = [_values(c, f"{PROBE}{name}")[wrong[0]] for c in captures]
    what, one, other = _several(function), _said(values[0]), _said(values[1])
    told = f"{key}: {about.said} the {what} differ although they agree on the real values: {one} and {other}"
    if about.weight is Weight.TIES:
        _tied(result, function, told, captures, answers[0], wrong)
        return
    if about.weight is Weight.DOUBTS and all(map(_is_moderate, values)):
        for pair in pairs:
            if pair.key == key:
                pair.judged, pair.verdict = True, UNDERPOWERED
                pair.notes.append(told)
        return
    if about.weight is not Weight.DIVERGES:
        (result.warnings if about.refusal else result.notes).append(told)
        return
    for pair in pairs:
        if pair.key == key:
            pair.judged, pair.verdict = True, DIVERGED
            pair.notes.append(told)
    result.notes.append(told)


def _is_moderate(value: Any) -> bool:
    """Whether a result is a number that real values might give, not one of a mask."""
    return value.dtype.kind in "fiubc" and bool(np.isfinite(value).all() and np.abs(value).max(initial=0.0) < MODERATE)


def _several(function: str) -> str:
    return "losses" if function == "loss" else f"{function}s"


def _said(value: Any) -> str:
    return f"{float(value):.6g}" if value.size == 1 and value.dtype.kind in "fiub" else str(value.tolist())[:60]


def _tied(result: StageResult, function: str, told: str, captures: list[Capture], answer: Probed, wrong: list[str]) -> None:
    """Tell of equal scores, which the sides may only break in their own ways.

    That matters if real ones tie.
    """
    for number in range(1, BROKEN + 1):
        ours, theirs = (_values(c, f"{PROBE}ties_broken_{number}") for c in captures)
        for leaf in wrong:
            if leaf not in ours or leaf not in theirs or not _same(ours[leaf], theirs[leaf], PROBES["one_class"]):
                result.warnings.append(f"{told}; they also do where no two scores are equal")
                return
    why = f"each side ranks equal scores its own way: with these told apart the {_several(function)} agree"
    tied, rows = answer.tied, answer.rows
    if tied:
        result.warnings.append(f"{told}; {why}, and {tied:,} of {rows:,} real samples have equal best scores")
    else:
        seen = f", and none of {rows:,} real samples has equal best scores" if rows else ""
        result.notes.append(f"{told}; {why}{seen}")
