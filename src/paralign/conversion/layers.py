"""Two trained models layer by layer, on the same inputs.

Two trainings of one program end with other weights and other outputs of layers: elements say nothing then. Sizes do, and so does linear CKA
(Kornblith et al. 2019, with the unbiased estimator of Nguyen et al. 2021), which is 1 for outputs that tell the inputs apart in the same
way, whatever the order, the sign and the scale of the channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.comparison import measure
from paralign.conversion.spread import Spread, spread
from paralign.dtypes import is_floating, widen
from paralign.errors import UsageError
from paralign.formats.checkpoint import some
from paralign.model import Manifest, Pass
from paralign.stages.common.judging import points_of
from paralign.worker.protocol import Forward, Load, Weights
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.formats import Checkpoint
    from paralign.model import Record

Array = np.ndarray[Any, Any]

#: samples that CKA needs at least, and with which it begins to say much
LEAST, ENOUGH = 4, 16

#: a layer's outputs are of another size where their deviations are further apart than this, and so many times as far as a second training's
FACTOR, FURTHER = 2.0, 3.0

#: outputs are less alike than those of a second training where so much more of the likeness is gone
LESS = 2.0


@dataclass
class Layer:
    """What one module gives in both models.

    Args:
        reference: its path in the reference, with the number of the call where it is called again.
        candidate: the same in the candidate.
        kind: of the layer.
        shapes: of the outputs.
        spreads: of the outputs' values.
        distance: relative L2 distance; None where the shapes differ.
        alike: linear CKA; None with fewer than four samples, or for constant outputs.
        again: distance and CKA of the reference's second training; None without one.
        again_spread: the spread of its outputs.
    """

    reference: str
    candidate: str
    kind: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    spreads: tuple[Spread, Spread]
    distance: float | None
    alike: float | None
    again: tuple[float | None, float | None] | None = None
    again_spread: Spread | None = None

    @property
    def factor(self) -> float:
        """How many times as large the candidate's outputs are.

        NaN where one side gives only one value.
        """
        one, other = (s.std for s in self.spreads)
        if not one > 0 or not other > 0:
            return math.nan
        return other / one


@dataclass
class Layers:
    """The layers in the order in which the reference completes them, and remarks."""

    rows: list[Layer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: int = 0


def compare(context: Context, reference: Checkpoint, candidate: Checkpoint, again: Checkpoint | None = None) -> Layers:
    """Run both models with the weights of their files on the reference's inputs.

    Args:
        context: both sides, with inputs.
        reference: a checkpoint of the reference's model.
        candidate: one of the candidate's.
        again: another of the reference's, of a training under another seed: what seeds alone do.

    Raises:
        UsageError: no inputs, or a file that lacks a parameter of its model.
        WorkerFailed: a side fails.
    """
    if context.inputs is None:
        raise UsageError("the models cannot be run: there are no inputs", hint="define inputs() in the reference, or set [inputs]")
    first = _outputs(context, "reference", reference, "first")
    second = _outputs(context, "candidate", candidate, "first")
    third = None if again is None else _outputs(context, "reference", again, "again")
    found = Layers()
    known = {} if third is None else {(r.key, r.call, r.leaf): r for r in _records(third)}
    alone = 0
    for one, other, _ in points_of(_records(first), _records(second)):
        if one is None or other is None:
            alone += 1
            continue
        if not is_floating(one.dtype) or not is_floating(other.dtype):
            continue
        ours, theirs = first.value(one), second.value(other)
        layer = Layer(_name(one), _name(other), one.op, (one.shape, other.shape), (spread(ours), spread(theirs)), *_likeness(ours, theirs))
        twin = known.get((one.key, one.call, one.leaf))
        if third is not None and twin is not None:
            value = third.value(twin)
            layer.again, layer.again_spread = _likeness(ours, value), spread(value)
        found.samples = max(found.samples, one.shape[0] if one.shape else 0)
        found.rows.append(layer)
    if alone:
        found.notes.append(f"{alone} outputs of modules have no counterpart: the sides are divided into modules otherwise")
    found.notes += _said(found, seconds=again is not None)
    return found


# -- both models with their files' weights ------------------------------------------------------------------------------------------------


def _outputs(context: Context, side: str, checkpoint: Checkpoint, name: str) -> Capture:
    recorder = context.reference if side == "reference" else context.candidate
    state = recorder.record("weights", Weights())
    folder = recorder.folder / f"trained-{name}"
    clear(folder)
    with CaptureWriter(folder, Manifest(side=side, stage="weights", settings={"key": f"{checkpoint.path} {name}"})) as writer:
        for record, own in _held(state, checkpoint, side):
            writer.add(record.name, checkpoint.value(own), role=record.role)
            checkpoint.release(own)
    recorder.record(f"trained-load-{name}", Load(record=False, attempt=name), {"state": Capture.open(folder)})
    given = {} if context.inputs is None else {"inputs": context.inputs}
    return recorder.record(f"trained-{name}-forward", Forward([NATIVE], modules="full", attempt=name), given)


def _held(state: Capture, checkpoint: Checkpoint, side: str) -> list[tuple[Record, str]]:
    """The model's tensors with their names in the file; buffers may be missing.

    Raises:
        UsageError: a parameter is missing, or of another shape.
    """
    names: dict[str, list[str]] = {}
    for record in state.records:
        names.setdefault(record.attrs.get("shared") or record.name, []).append(record.name)
    found, missing = [], []
    for record in state.records:
        if record.location is None or record.attrs.get("shared"):
            continue
        own = next((name for name in names[record.name] if name in checkpoint.entries), None)
        if own is None:
            missing += [record.name] if record.role == "parameter" else []
        elif checkpoint.entries[own].shape != tuple(record.shape):
            raise UsageError(
                f"{own} has shape {checkpoint.entries[own].shape} in the file, {tuple(record.shape)} in the {side}'s model",
                where=str(checkpoint.path),
                hint="name a checkpoint of this side's own model: A is the reference's, B the candidate's",
            )
        else:
            found.append((record, own))
    if missing:
        raise UsageError(
            f"the file lacks {len(missing)} parameters of the {side}'s model: {some(missing, 3)}; it holds {some(checkpoint.names, 3)}",
            where=str(checkpoint.path),
            hint="A is a checkpoint of the reference's model, B of the candidate's; --strip takes a prefix off, --within chooses tensors",
        )
    return found


def _records(capture: Capture) -> list[Record]:
    """The outputs of modules, the model's included, in order of completion."""
    found = []
    for record in capture.records:
        if "module" not in record.attrs or record.role != "output" or record.location is None:
            continue
        if Pass.of(record.run).precision == NATIVE:
            found.append(record)
    return found


def _name(record: Record) -> str:
    name = record.key or "(the model)"
    if record.leaf:
        name += f" {record.leaf}"
    if record.call:
        name += f" call {record.call + 1}"
    return name


# -- likeness -----------------------------------------------------------------------------------------------------------------------------


def _likeness(one: Typed, other: Typed) -> tuple[float | None, float | None]:
    """Relative L2 distance, None for other shapes; and CKA."""
    distance = measure(one, other, shown=False).rel_l2 if one.array.shape == other.array.shape else None
    return distance, cka(widen(one), widen(other))


def cka(one: Array, other: Array) -> float | None:
    """Linear CKA of outputs whose first axis is the samples.

    None with fewer than four, other numbers of them, or constant outputs.

    >>> draw = np.random.default_rng(0).normal(size=(20, 5))
    >>> round(cka(draw, -3 * draw[:, ::-1]), 6)
    1.0
    """
    if not one.ndim or not other.ndim or len(one) != len(other) or len(one) < LEAST:
        return None
    grams = [_gram(np.asarray(values, np.float64).reshape(len(values), -1)) for values in (one, other)]
    if not all(np.isfinite(gram).all() for gram in grams):
        return None
    cross, mine, theirs = _hsic(*grams), _hsic(grams[0], grams[0]), _hsic(grams[1], grams[1])
    if min(mine, theirs) <= 1e-12:  # noqa: PLR2004 - of grams of unit size: all samples are alike
        return None
    return float(cross / math.sqrt(mine * theirs))


def _gram(values: Array) -> Array:
    with np.errstate(all="ignore"):
        centred = values - values.mean(axis=0)
        gram: Array = centred @ centred.T
        size = float(np.abs(gram).mean())
        return gram / size if size > 0 else gram


def _hsic(one: Array, other: Array) -> float:
    """The unbiased estimator of Song et al. (2012), but for a factor of the sample size."""
    count = len(one)
    one, other = (gram - np.diag(np.diag(gram)) for gram in (one, other))
    ends = float(one.sum()) * float(other.sum()) / ((count - 1) * (count - 2))
    return float((one * other).sum()) + ends - 2 * float((one.sum(axis=0) * other.sum(axis=0)).sum()) / (count - 2)


# -- in words -----------------------------------------------------------------------------------------------------------------------------


def _said(found: Layers, *, seconds: bool) -> list[str]:
    told = []
    if not found.rows:
        return ["no module gives floating point outputs on both sides"]
    if found.samples < LEAST:
        told.append(f"{found.samples} samples: likeness needs {LEAST}, and says much from {ENOUGH} on: raise the batch in [inputs]")
    elif found.samples < ENOUGH:
        told.append(f"likeness of {found.samples} samples says little: raise the batch in [inputs] to {ENOUGH} or more")
    usual = median([abs(math.log(row.factor)) for row in found.rows if row.factor > 0] or [0.0])
    for row in found.rows:
        if _of_another_size(row, usual):
            told.append(
                f"the first layer whose outputs are of another size is {row.reference}: {row.factor:.3g} times as large in the second"
            )
            break
    if seconds:
        told += _beside_another_seed(found)
    else:
        told.append("how far apart another seed would be, --again tells: a second checkpoint of the reference")
    return told


def _beside_another_seed(found: Layers) -> list[str]:
    """Whether a layer is less alike than those of a second training, as far as that is known."""
    for row in found.rows:
        if row.again is not None and _less_alike(row):
            return [f"the first layer that is less alike than a second training of the reference's: {row.reference}"]
    if any(row.again and None not in (row.again[1], row.alike) for row in found.rows):
        return ["no layer is less alike than those of a second training of the reference"]
    return []


def _of_another_size(row: Layer, usual: float) -> bool:
    if not row.factor > 0:
        return False
    apart = abs(math.log(row.factor))
    if row.again_spread is not None and row.spreads[0].std > 0 and row.again_spread.std > 0:
        usual = abs(math.log(row.again_spread.std / row.spreads[0].std))
    return apart > max(math.log(FACTOR), FURTHER * usual)


def _less_alike(row: Layer) -> bool:
    if row.again is None or row.again[1] is None or row.alike is None:
        return False
    return 1 - row.alike > LESS * (1 - row.again[1]) + 0.05
