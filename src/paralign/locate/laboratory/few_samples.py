"""Two samples of a large batch, on which a divergence is located as on all of them.

A run of two of eight samples costs a quarter. It shows what the whole batch shows where every sample is wrong by itself, and where no
sample's result depends on the others. The first is known from the outputs of the whole batch; the second is asked of the runs of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import digest as digests
from paralign.dtypes import STORAGE, is_complex, is_floating
from paralign.locate.laboratory.recorded_values import SAME
from paralign.run import samples
from paralign.run.turns import is_mine
from paralign.worker.protocol import runs_of, watched_pass
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record

#: samples that are kept: with one alone, axes of length 1 would hide what is mixed up between samples and other axes
FEW = 2

#: samples of which it is worth while to leave some out
LEAST = 2 * FEW

#: bytes that all modules of a native pass hand on, from which it is worth while: watching so many takes half a second
#: (`benchmarks/speed/observe.py`: 0.7 s for the 604 values of ResNet-50, batch 8)
LARGE = 256 << 20

#: a sample's error is like the greatest one from this share of it on
ALIKE = 0.1


@dataclass(frozen=True)
class Few:
    """Some samples of the inputs.

    ``rows`` of ``size``; ``outputs``: for the reference and the candidate, the leaves of the outputs -> digest of these samples' part.
    """

    inputs: Capture
    rows: tuple[int, ...]
    size: int
    outputs: tuple[dict[str, str], dict[str, str]]

    def are_apart(self, captures: tuple[Capture, Capture]) -> bool:
        """Whether both sides' runs of these samples give what those of all gave."""
        return all(_agree(capture, known) for capture, known in zip(captures, self.outputs, strict=True))


def few_samples(context: Context) -> Few | None:
    """Samples on which the divergence of the outputs can be located; None where it takes all.

    So it does of live objects: what a model keeps of few samples ends with its process, and theirs is the user's.

    Args:
        context: of a check whose outputs diverged.
    """
    inputs, captures = context.inputs, context.artifacts.get("forward")
    if inputs is None or captures is None or is_mine() or context.reference.instead or context.candidate.instead:
        return None
    size = samples.batch_size(inputs)
    if size is None or size < LEAST or max(map(_handed_on, captures)) < LARGE:
        return None
    if any(DOUBLE not in runs_of(capture).runs for capture in captures):
        return None
    outputs = [_outputs(capture) for capture in captures]
    if any(samples.leading(list(found)) != size for found in outputs):
        return None
    errors = _errors(captures, outputs, size)
    if errors is None or errors.min() <= ALIKE * errors.max():
        return None
    rows = tuple(sorted(int(row) for row in np.argsort(-errors, kind="stable")[:FEW]))
    parts = [_parts(capture, found, rows) for capture, found in zip(captures, outputs, strict=True)]
    given = samples.taken(inputs, rows, context.reference.folder / "inputs-samples")
    return Few(given, rows, size, (parts[0], parts[1]))


def _handed_on(capture: Capture) -> int:
    """The bytes of what all modules gave in the native pass."""
    found = 0
    for record in capture.records:
        if record.run == NATIVE and record.role == "output" and "module" in record.attrs and record.dtype in STORAGE:
            found += math.prod(record.shape) * np.dtype(STORAGE[record.dtype]).itemsize
    return found


def _outputs(capture: Capture) -> list[Record]:
    """The outputs in float64."""
    return [record for record in capture.select(name="output", run=DOUBLE) if "module" not in record.attrs]


def _errors(captures: tuple[Capture, Capture], outputs: list[list[Record]], size: int) -> NDArray[np.float64] | None:
    """How far each sample is off, relatively, in the output that is wrong most.

    None where outputs have other shapes, or are none of floating numbers, or not finite.
    """
    if len(outputs[0]) != len(outputs[1]):
        return None
    found = np.zeros(size)
    for one, two in zip(*outputs, strict=True):
        if one.shape != two.shape or one.location is None or two.location is None:
            return None
        if any(not is_floating(record.dtype) or is_complex(record.dtype) for record in (one, two)):
            return None
        due, own = (capture.array(record).reshape(size, -1) for capture, record in zip(captures, (one, two), strict=True))
        scale = np.linalg.norm(due, axis=1)
        if not np.all(scale > 0):
            return None
        apart = np.linalg.norm(own - due, axis=1) / scale
        if not np.all(np.isfinite(apart)):
            return None
        if apart.max() > found.max():
            found = apart
    return found


def _parts(capture: Capture, outputs: list[Record], rows: tuple[int, ...]) -> dict[str, str]:
    """The leaves of the outputs -> the digest of some samples' part."""
    found: dict[str, str] = {}
    for record in outputs:
        value = capture.value(record)
        found[record.leaf] = digests.moments(value._replace(array=np.ascontiguousarray(value.array[list(rows)])))
    return found


def _agree(capture: Capture, known: dict[str, str]) -> bool:
    """Whether a watched run's outputs have the digests that are known."""
    if DOUBLE not in runs_of(capture).runs:
        return False
    numbers = watched_pass(capture, DOUBLE).outputs
    records = {record.id: record for record in capture.records}
    if numbers.keys() != known.keys():
        return False
    for path, number in numbers.items():
        digest = records[number].digest
        if digest is None or digests.distance(known[path], digest) > SAME:
            return False
    return True
