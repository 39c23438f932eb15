"""What the page draws: operations of both sides, values of the worst tensors, curves.

They are small numbers, taken from a check's captures.

They are kept as ``figures.json`` beside the report, so that the page can be made again where the captures are not.
"""

from __future__ import annotations

import base64
import json
import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.bounds import Limit, open_regular
from paralign.capture.merged import Merged
from paralign.errors import CaptureFormatError, one_line, shortened
from paralign.model import DIVERGED
from paralign.report.artifacts import arrays, replace
from paralign.report.plots import curve
from paralign.report.text import from_folder
from paralign.stages.distributed.stage import RANKS
from paralign.stages.offline import operation_table
from paralign.worker.protocol import Ranked

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import CheckResult, Pair, Record, StageResult

Array = np.ndarray[Any, Any]
Captures = dict[str, tuple["Capture", "Capture"]]

#: the file beside report.json
FILE = "figures.json"

#: bytes of it that are read
LONGEST = Limit("PARALIGN_MAX_FIGURES", 1 << 26, "bytes")

#: tensors of a stage that are drawn, the worst first; elements of the largest that is read
TENSORS, ELEMENTS = 12, 1 << 24

#: bins of a histogram, bars of an axis, cells of a side of a map, pixels of a side of a sample, points of a curve
BINS, BARS, CELLS, PIXELS, POINTS = 40, 64, 24, 96, 400

#: steps from which a number of each step is drawn as a curve, curves of a stage
STEPS, CURVES = 3, 8

#: what is kept of an operation: see ``_row``
COLUMNS = 9

#: axes of a picture; channels of one
_PICTURE, _CHANNELS = 3, (1, 3)

#: what the axes of a batch of values are usually called, by their number
AXES = {2: ("batch", "feature"), 3: ("batch", "token", "feature"), 4: ("batch", "channel", "height", "width")}

#: the roles of values that have a batch's axis; those of weights, gradients and single samples have numbers
_BATCHED = ("input", "output")

#: the greatest number of three digits
_GREATEST = 1.79e308

_TRANSPOSED = re.compile(r"transpose\(([\d, ]+)\)")


def of(result: CheckResult, captures: Captures, folder: Path, root: Path) -> dict[str, Any]:
    """What the page of a check draws.

    Args:
        result: of the check; nothing is judged here.
        captures: of the check, by name.
        folder: its output folder.
        root: the project's folder, from which paths are shown.

    Raises:
        CaptureFormatError: a capture is damaged.
    """
    stages = {}
    for stage in result.stages:
        tensors = _starts(stage, captures) if stage.name == "init" else _tensors(stage, captures)
        drawn = {"tensors": tensors, "curves": _curves(stage.name, captures)}
        if any(drawn.values()):
            stages[stage.name] = drawn
    forward = captures.get("forward")
    operations = {} if forward is None else _operations(folder, root, forward[1].manifest.created)
    return {"operations": operations, "stages": stages}


def write(folder: Path, figures: dict[str, Any]) -> None:
    """Keep them beside the report.

    Raises:
        WriteFailed: they cannot be written.
    """
    replace(folder / FILE, json.dumps(figures, ensure_ascii=True, allow_nan=False, separators=(",", ":")))


def read(folder: Path) -> dict[str, Any]:
    """What was kept beside a report; nothing where there is none.

    Raises:
        CaptureFormatError: it is damaged.
    """
    file = folder / FILE
    if not file.exists():
        return {}
    with open_regular(file) as opened:
        raw = opened.read(LONGEST.value + 1)
    LONGEST.check(len(raw), "the figures have more than", str(file))
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"the figures are no JSON: {fault}", where=str(file), hint="run the check again, or remove it") from fault
    if not isinstance(found, dict):
        return {}
    if not _well_formed(found):
        raise CaptureFormatError("the figures are damaged", where=str(file), hint="run the check again, or remove it")
    return found


def _well_formed(figures: dict[str, Any]) -> bool:
    """Whether what the page itself reads of them is there; the rest is read by its script."""
    operations, stages = figures.get("operations") or {}, figures.get("stages") or {}
    if not isinstance(operations, dict) or not isinstance(stages, dict):
        return False
    if not operations:
        return True
    return all(_is_table(operations.get(side)) for side in ("reference", "candidate"))


def _is_table(rows: Any) -> bool:
    """Whether rows are lists of as many entries as the page reads."""
    if not isinstance(rows, list):
        return False
    return all(isinstance(row, list) and len(row) == COLUMNS for row in rows)


def _operations(folder: Path, root: Path, since: str) -> dict[str, Any]:
    table = operation_table.of_folder(folder, since)
    if table is None:
        return {}
    sides = {"reference": table.reference, "candidate": table.candidate}
    return {side: [_row(row, root) for row in rows] for side, rows in sides.items()}


def _row(row: operation_table.Row, root: Path) -> list[Any]:
    shape = " x ".join(map(str, row.shape)) or "scalar"
    return [
        *map(one_line, (row.module, row.kind, row.operation, from_folder(row.source, root))),
        shape,
        row.state,
        row.counterpart,
        row.error,
        row.noise,
    ]


def _tensors(stage: StageResult, captures: Captures) -> list[dict[str, Any]]:
    """The values of the pairs that differ most, as far as both sides' were kept."""
    differing = [pair for pair in stage.pairs if pair.stats is not None and (pair.error or 0) > 0]
    differing.sort(key=lambda pair: (pair.verdict != DIVERGED, not pair.judged, -_size(pair)))
    found: list[dict[str, Any]] = []
    for pair in differing:
        if len(found) == TENSORS:
            break
        one, other = _values(pair.reference, captures, 0), _values(pair.candidate, captures, 1)
        if one is not None and other is not None:
            found.append(_tensor(pair, one, _in_layout(pair, one, other), picture=stage.name == "data"))
    return found


def _starts(stage: StageResult, captures: Captures) -> list[dict[str, Any]]:
    """Both sides' drawn starting values of tensors, those whose laws differ first."""
    if "init" not in captures:
        return []
    first, second = captures["init"]
    kept, other_kept = ({record.name: record for record in capture.select(leaf="sample")} for capture in (first, second))
    found: list[dict[str, Any]] = []
    for pair in sorted(stage.pairs, key=lambda pair: pair.verdict != DIVERGED):
        if len(found) == TENSORS:
            break
        if pair.reference is None or pair.candidate is None:
            continue
        one, other = kept.get(pair.reference.name), other_kept.get(pair.candidate.name)
        if one is None or other is None:
            continue
        sides = [first.array(one).reshape(-1), second.array(other).reshape(-1)]
        found.append(_histogram(pair, [side.astype(np.float64) for side in sides]))
    return found


def _size(pair: Pair) -> float:
    """How bad a pair is, in the order of the page's table.

    One that differs without a noise to divide by is worse than all.
    """
    figure = pair.ratio
    if figure is None:
        if pair.verdict == DIVERGED:
            return math.inf
        figure = pair.error
    if figure is None or math.isnan(figure):
        return -1.0
    return figure


def _values(record: Record | None, captures: Captures, place: int) -> Array | None:
    """The numbers of a record, from its capture; None where not kept, or too many."""
    if record is None or record.location is None or not 1 < math.prod(record.shape) <= ELEMENTS:
        return None
    for both in captures.values():
        if both[place].by_id.get(record.id) is record:
            values = both[place].array(record)
            return values if values.dtype.kind in "biuf" else None
    return None


def _in_layout(pair: Pair, reference: Array, candidate: Array) -> Array:
    """The candidate's values in the reference's layout, where that is a transposition."""
    moved = _TRANSPOSED.fullmatch(pair.transform or "")
    axes = [int(axis) for axis in moved.group(1).split(",")] if moved else []
    if sorted(axes) != list(range(candidate.ndim)):
        return candidate
    back = candidate.transpose(np.argsort(axes))
    return back if back.shape == reference.shape else candidate


def _tensor(pair: Pair, reference: Array, candidate: Array, *, picture: bool) -> dict[str, Any]:
    wide = [np.asarray(values, dtype=np.float64) for values in (reference, candidate)]
    drawn = _histogram(pair, wide)
    if wide[0].shape == wide[1].shape and wide[0].ndim:
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.nan_to_num(np.abs(wide[0] - wide[1]), nan=0.0, posinf=0.0)
        at = np.unravel_index(int(apart.argmax()), apart.shape)
        names = _axes(pair, wide[0].shape)
        drawn |= {"most": float(apart.max()), "at": [int(n) for n in at], "axes": _by_axis(apart, names), "map": _map(apart)}
    if picture:
        drawn["samples"] = [_pixels(values) for values in wide]
    return drawn


def _histogram(pair: Pair, sides: list[Array]) -> dict[str, Any]:
    """How the values of both sides are spread."""
    finite = [values[np.isfinite(values)] for values in sides]
    edges = _edges(finite)
    return {
        "key": shortened(one_line(pair.key), 120),
        "from": float(edges[0]),
        "to": float(edges[-1]),
        "counts": [np.histogram(values, edges)[0].tolist() for values in finite],
        "missing": [int(values.size - kept.size) for values, kept in zip(sides, finite, strict=True)],
    }


def _edges(sides: list[Array]) -> Array:
    """The borders of the bins of both sides' values.

    Of a range that no number holds, that of half of it.
    """
    known = [values for values in sides if values.size]
    least, most = 0.0, 1.0
    if known:
        least, most = min(v.min() for v in known), max(v.max() for v in known)
    return np.asarray(np.linspace(least / 2, most / 2, BINS + 1) * 2)


def _axes(pair: Pair, shape: tuple[int, ...]) -> tuple[str, ...]:
    """What the axes of a value are called; their numbers where nothing tells."""
    numbered = tuple(f"axis {n}" for n in range(len(shape)))
    if pair.reference is None:
        return numbered
    if pair.reference.role in _BATCHED:
        return AXES.get(len(shape), numbered)
    sample = pair.reference.role == "sample" and len(shape) == _PICTURE
    if sample and shape[0] in _CHANNELS:
        return AXES[4][1:]
    if sample and shape[2] in _CHANNELS:
        return (*AXES[4][2:], AXES[4][1])
    return numbered


def _by_axis(apart: Array, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The mean error at each index of each axis, of long axes in groups."""
    found = []
    for axis, name in enumerate(names):
        with np.errstate(over="ignore"):
            means = apart.mean(axis=tuple(n for n in range(apart.ndim) if n != axis))
        parts = np.array_split(means, min(BARS, len(means)))
        if len(means) > 1:
            found.append({"name": name, "length": len(means), "values": [_short(part.max()) for part in parts]})
    return found


def _map(apart: Array) -> dict[str, Any] | None:
    """The greatest error in each cell of the last two axes."""
    if apart.ndim < 2 or min(apart.shape[-2:]) < 2:  # noqa: PLR2004 - rows and columns
        return None
    flat = apart.reshape(-1, *apart.shape[-2:]).max(axis=0)
    rows, columns = (np.linspace(0, n, min(CELLS, n) + 1).astype(int) for n in flat.shape)
    cells = [[_short(flat[a:b, c:d].max()) for c, d in _steps(columns)] for a, b in _steps(rows)]
    return {"shape": [int(n) for n in flat.shape], "cells": cells}


def _steps(edges: Array) -> list[tuple[int, int]]:
    return [(int(first), int(last)) for first, last in pairwise(edges)]


def _short(value: float) -> float:
    """Three digits of a number.

    Of the mean of numbers whose sum no number holds, the greatest.
    """
    return float(f"{min(float(value), _GREATEST):.3g}")


def _pixels(values: Array) -> dict[str, Any] | None:
    """A sample as a small picture, scaled to its own range; None for what is none."""
    if values.ndim != _PICTURE or not values.size:
        return None
    if values.shape[0] in _CHANNELS:
        values = values.transpose(1, 2, 0)
    if values.shape[2] not in _CHANNELS or min(values.shape[:2]) < 8:  # noqa: PLR2004 - smaller is no picture
        return None
    step = max(1, -(-max(values.shape[:2]) // PIXELS))
    small = np.nan_to_num(values[::step, ::step], nan=0.0, posinf=0.0, neginf=0.0)
    spread = float(small.max() - small.min()) or 1.0
    bytes_ = np.broadcast_to((small - small.min()) / spread * 255, (*small.shape[:2], 3)).astype(np.uint8)
    return {"width": int(small.shape[1]), "height": int(small.shape[0]), "rgb": base64.b64encode(bytes_.tobytes()).decode()}


def _curves(stage: str, captures: Captures) -> list[dict[str, Any]]:
    """Both sides' numbers of every step, schedules, training curves and ranks' losses."""
    if stage == "distributed" and RANKS in captures:
        return _by_rank(captures[RANKS])
    if stage not in captures:
        return []
    sides = [_scheduled(c) if stage == "optimizer" else _stepped(c) for c in captures[stage]]
    found = [_curve(name, sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]]
    return found[:CURVES]


def _by_rank(both: tuple[Capture, Capture]) -> list[dict[str, Any]]:
    """The losses of each step, over the ranks."""
    sides = []
    for capture in both:
        if not isinstance(capture, Merged):
            return []
        sides.append([Ranked.answer(rank).losses for rank in capture.ranks])
    steps = min((len(losses) for side in sides for losses in side), default=0)
    return [_curve(f"loss of step {step + 1}, by rank", *(_of_step(side, step) for side in sides)) for step in range(min(steps, CURVES))]


def _of_step(side: list[list[float | None]], step: int) -> tuple[Array, Array]:
    """The ranks, and the losses that they told of a step."""
    told = [math.nan if losses[step] is None else losses[step] for losses in side]
    return np.arange(len(side)), np.array(told, dtype=np.float64)


def _scheduled(capture: Capture) -> dict[str, tuple[Array, Array]]:
    rates = arrays("optimizer", capture).get("schedule")
    if rates is None or rates.ndim != 2 or len(rates) < STEPS:  # noqa: PLR2004 - steps and groups
        return {}
    return {
        f"learning rate {group or ''}".strip(): (np.arange(len(rates)), rates[:, group]) for group in range(min(rates.shape[1], CURVES))
    }


def _stepped(capture: Capture) -> dict[str, tuple[Array, Array]]:
    """Scalars of at least ``STEPS`` steps, and the curves that a training left."""
    steps: dict[str, dict[int, float]] = {}
    found = {}
    for record in capture.records:
        if record.location is None:
            continue
        if record.role == "scalar" and math.prod(record.shape) == 1:
            steps.setdefault(f"{record.name} {record.run}".strip(), {})[record.step] = float(capture.array(record).reshape(-1)[0])
        elif record.name == "curve" and len(record.shape) == 2:  # noqa: PLR2004 - steps and values
            found[record.leaf] = tuple(capture.array(record))
    found |= {name: (np.array(list(each)), np.array(list(each.values()))) for name, each in steps.items() if len(each) >= STEPS}
    return {one_line(name): (values[0], values[1]) for name, values in found.items()}


def _curve(name: str, reference: tuple[Array, Array], candidate: tuple[Array, Array]) -> dict[str, Any]:
    drawn = []
    for steps, values in (reference, candidate):
        kept = curve(np.nan_to_num(values)[:, None]) if len(values) > POINTS else np.arange(len(values))
        kept = kept[:: max(1, -(-len(kept) // POINTS))]
        drawn.append([[float(step), float(value)] for step, value in zip(steps[kept], values[kept], strict=True) if math.isfinite(value)])
    return {"name": shortened(name, 60), "reference": drawn[0], "candidate": drawn[1]}
