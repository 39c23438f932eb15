"""What both sides build themselves: untrained tensors, compared before they are loaded.

A table of positions, a schedule of noise, a mask: the port would train with its own. What the seed decides, what a checkpoint
brings and what training changes (statistics, queues, averages) is not built, and not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison import compare_pair
from paralign.dtypes import EPS, Typed, is_floating, widen
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Unjudged
from paralign.worker.protocol import Changing, Rebuilt, TensorHistory, history_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, Record, StageResult
    from paralign.run.recorder import Recorder
    from paralign.weights import Plan

#: names under which layers of both frameworks keep statistics and iterates of theirs
STATISTICS = frozenset(
    {"running_mean", "running_var", "num_batches_tracked", "_mean", "_variance", "weight_u", "weight_v", "u", "v", "_u", "_v"}
)

#: relative error of a float32 table that rounding of a few operations explains
ROUNDED = 1e-5

#: roundings for each entry along the longest axis, that sums, products and arguments of a sine may gather: position 10,000 is known
#: to 6e-4
GATHERED = 4 * EPS["float32"]

#: additive masks hold numbers below this; how low they are is for the softmax the same
MASKED = -50.0

#: why values that differ are no constants that a port could have built wrongly
_DECIDED = {Unjudged.CHANGING: "training changes it", Unjudged.FILLED: "build_model() has run the model, which changed it"}
_DRAWN, _LOADED = (Unjudged.DRAWN, "drawn at random: not judged"), (Unjudged.LOADED, "a checkpoint decides on it: not judged")

#: tensors that a text lists
LISTED = 3


def compare(context: Context, result: StageResult, plan: Plan, captures: tuple[Capture, Capture]) -> list[Pair]:
    """The pairs of untrained tensors that both sides construct, judged.

    Remarks go to the result.

    Args:
        context: the check.
        result: of the weights stage.
        plan: where the reference's tensors go.
        captures: the states of both sides before anything was copied.
    """
    pairs = []
    for source in plan.sources:
        pair = _pair(plan, source, captures)
        if pair is not None:
            pairs.append(pair)
    suspects = [p for p in pairs if not _agrees(p)]
    drawn = _drawn(context, suspects, plan, captures) if suspects else set()
    origins = [history_of(c) for c in captures]
    decided = _decided_by_running(context, [p for p in suspects if p.key not in drawn], plan, origins)
    unknown = []
    for pair in suspects:
        origin = _origin(pair, origins)
        if pair.key in drawn:
            pair.leave_out(*_DRAWN)
        elif origin == "loaded":
            pair.leave_out(*_LOADED)
        elif pair.key in decided:
            pair.leave_out(decided[pair.key], f"{_DECIDED[decided[pair.key]]}: not judged")
        elif _is_unsure(pair):
            pair.verdict = ALIGNED
            result.warnings.append(
                f"{_name(pair)}: the candidate builds it {pair.error:.2g} away from the reference's, by rounding or otherwise"
            )
        elif origin != "constructed":
            pair.verdict = UNDERPOWERED
            unknown.append(_name(pair))
    _say(result, pairs, unknown)
    return [p for p in pairs if p.judged]


def _say(result: StageResult, pairs: list[Pair], unknown: list[str]) -> None:
    told = [p for p in pairs if p.judged]
    if told:
        result.notes.append(f"untrained tensors that both sides construct, compared before the reference's were copied: {len(told)}")
    for why, said in _DECIDED.items():
        names = [_name(p) for p in pairs if p.unjudged is why]
        result.notes += [f"{said}, and other on the sides before the reference's were copied: {_some(names)}"] if names else []
    if unknown:
        result.warnings.append(
            f"the candidate was built with other values than the reference has in {_some(unknown)}: these were overwritten for the "
            "comparison. Where they are constants, the port would train with its own; nothing shows whether they are, or were trained or "
            "drawn. Give build_model in place of a model that is there already, so that it can be watched"
        )


def _name(pair: Pair) -> str:
    return pair.reference.name if pair.reference is not None else pair.key


def _some(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _is_untrained(record: Record | None) -> bool:
    if record is None or record.attrs.get("shared"):
        return False
    statistic = record.attrs.get("leaf") in STATISTICS and bool(record.attrs.get("kind"))
    if statistic:
        return False
    return record.role == "buffer" or not record.attrs.get("trainable", True)


def _pair(plan: Plan, source: Record, captures: tuple[Capture, Capture]) -> Pair | None:
    """One tensor as both sides constructed it.

    None of what is trained, kept as a statistic, or has no values.
    """
    moves = plan.moves_of(source.name)
    theirs = [m.candidate for m in moves]
    if source.location is None or not all(_is_untrained(record) for record in (source, *theirs)):
        return None
    value, other = captures[0].value(source), plan.restore(source.name, values(captures[1]))
    if other is None:
        return None
    if source.role == "parameter" and (_is_constant(value) or _is_constant(other)):
        return None  # a frozen layer as it is before a checkpoint is loaded
    first, second = _unmasked(value), _unmasked(other)
    pair = compare_pair(f"built {source.name}", source, theirs[0], first, second, how=moves[0].how)
    if _agrees(pair):
        pair.verdict = ALIGNED
    else:
        pair.verdict = DIVERGED
        pair.notes.append("the candidate builds it otherwise than the reference, whose values were copied over it")
    return pair


def values(capture: Capture) -> Callable[[str], Typed | None]:
    """Values by name; None of what was not kept."""
    held = {r.name: r for r in capture.records if r.location is not None}
    return lambda name: capture.value(held[name]) if name in held else None


def _is_constant(value: Typed) -> bool:
    return value.array.size == 0 or bool(np.all(value.array == value.array.flat[0]))


def _unmasked(value: Typed) -> Typed:
    """An additive mask with one number for all that is masked; other values as they are."""
    if not is_floating(value.dtype) or value.dtype.startswith("complex"):
        return value
    wide = widen(value)
    low = wide < MASKED
    if low.any() and not wide[~low].any():
        return Typed(np.where(low, wide.dtype.type(MASKED), wide), str(wide.dtype))
    return value


def _agrees(pair: Pair) -> bool:
    if pair.stats is None or pair.error is None:
        return pair.reference is not None and pair.candidate is not None and 0 in pair.reference.shape
    if pair.stats.mismatched == 0:
        return True
    if pair.reference is None:
        return False
    return is_floating(pair.reference.dtype) and pair.error <= ROUNDED


def _is_unsure(pair: Pair) -> bool:
    first = pair.reference
    if first is None or pair.error is None or not is_floating(first.dtype):
        return False
    return pair.error <= GATHERED * max(first.shape, default=1)


def _origin(pair: Pair, origins: list[dict[str, TensorHistory]]) -> str:
    """``constructed`` where both sides' values are, ``loaded``, or ``given``: unknown.

    ``loaded`` where a checkpoint has changed the reference's.
    """
    records = [r for r in (pair.reference, pair.candidate) if r is not None]
    found = [known.get(r.name, TensorHistory()).origin for r, known in zip(records, origins, strict=True)]
    if found[0] == "loaded":
        return "loaded"
    in_no_checkpoint = not any(r.attrs.get("persistent", True) for r in records)
    allowed = {"constructed", "given"} if in_no_checkpoint else {"constructed"}
    return "constructed" if set(found) <= allowed else "given"


def _decided_by_running(context: Context, suspects: list[Pair], plan: Plan, origins: list[dict[str, TensorHistory]]) -> dict[str, Unjudged]:
    """Why the values of some are decided by what was run, not by construction: key -> reason.

    Where both sides still hold what they registered, the two are where training starts, and that is compared.
    """
    asked: dict[str, tuple[list[str], list[str]]] = {}
    found: dict[str, Unjudged] = {}
    for pair in suspects:
        names = _names(pair, plan)
        histories = [own.get(name, TensorHistory()) for own, each in zip(origins, names, strict=True) for name in each]
        if all(history.origin == "constructed" for history in histories):
            continue
        asked[pair.key] = names
        if any(history.ran for history in histories):
            found[pair.key] = Unjudged.FILLED
    for side, recorder in enumerate((context.reference, context.candidate)):
        own = sorted({name for names in asked.values() for name in names[side]})
        if not own:
            continue
        changed = _changing(context, recorder, own)
        for key, names in asked.items():
            if not changed.isdisjoint(names[side]):
                found[key] = Unjudged.CHANGING
    return found


def _changing(context: Context, recorder: Recorder, names: list[str]) -> set[str]:
    """Those of a side's tensors that a training step changes.

    Where there is none, a pass in train mode; none where that fails.
    """
    given = {name: capture for name, capture in (("inputs", context.inputs), ("labels", context.labels)) if capture is not None}
    if "inputs" not in given:
        return set()
    for values in (given, {"inputs": given["inputs"]}):
        try:
            answer = Changing.answer(recorder.record("changing", Changing(names), values))
        except WorkerFailed:
            continue
        return set(answer.changed)
    return set()


def _drawn(context: Context, suspects: list[Pair], plan: Plan, captures: tuple[Capture, Capture]) -> set[str]:
    """The keys of those that differ when a side is built again after another seed.

    All of them where it cannot be built again.

    What was not built here, as the model of a live side, cannot be asked.
    """
    found: set[str] = set()
    for index, recorder in enumerate((context.reference, context.candidate)):
        built = {name for name, history in history_of(captures[index]).items() if history.origin != "given"}
        asked = {p.key: [name for name in _names(p, plan)[index] if name in built] for p in suspects}
        names = sorted({name for own in asked.values() for name in own})
        if not names:
            continue
        try:
            again = values(recorder.record("rebuilt", Rebuilt(names, context.settings.seed + 1)))
        except WorkerFailed:
            return {p.key for p in suspects}
        before = values(captures[index])
        for key, own in asked.items():
            if not all(_same(before(name), again(name)) for name in own):
                found.add(key)
    return found


def _names(pair: Pair, plan: Plan) -> tuple[list[str], list[str]]:
    """The tensors of a pair on both sides."""
    name = pair.reference.name if pair.reference is not None else ""
    return [name], [record.name for record in plan.candidates_of(name)]


def _same(one: Typed | None, other: Typed | None) -> bool:
    if one is None or other is None or one.array.shape != other.array.shape:
        return False
    return bool(np.array_equal(widen(one), widen(other), equal_nan=is_floating(one.dtype)))
