"""How a model starts, built under many seeds.

Of every tensor, what its distribution can be judged by.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import numpy as np

from paralign.dtypes import Typed, is_complex, widen
from paralign.errors import UsageError
from paralign.worker.draws import reseeding
from paralign.worker.protocol import BuildFailure, Initial, Started
from paralign.worker.sides.frames import told

if TYPE_CHECKING:
    from paralign.adapters.base import Entry
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: elements of one tensor that are kept under one seed; smaller ones are kept whole
KEPT = 256

#: the fewest that are kept of a large tensor, however many tensors there are
FEWEST = 16

#: elements that are kept in all, as float32: 64 MB
BUDGET = 1 << 24

#: elements that are looked at together, in float64: 8 MB
CHUNK = 1 << 20

#: rows whose products show whether a matrix is orthogonal
ROWS = 32

#: elements of a tensor that is kept whole once, where it is the same under every seed
WHOLE = 1 << 16

#: how far products of orthogonal rows may be from those of an identity: float32 makes less than 1e-5 of it
ORTHOGONAL = 1e-3


@dataclass
class _Tensor:
    """What is kept of one tensor, seed by seed."""

    entry: "Entry"
    shape: Tuple[int, ...]
    #: under each seed, of the finite elements: number, mean, deviation, least, greatest; then gain if orthogonal, 1 if identity
    moments: List[List[float]] = field(default_factory=list)
    samples: List[Any] = field(default_factory=list)
    #: the values of the first seed, for as long as every other seed makes the same; None of a large tensor
    whole: Any = None


def initial(session: "Session", writer: "CaptureWriter", options: Initial, values: "Dict[str, Capture]") -> Started:  # noqa: ARG001 - every task has these
    """Build the model under many seeds; record the moments and a sample of every tensor."""
    began = time.perf_counter()
    known: Dict[str, _Tensor] = {}
    shared: Dict[str, str] = {}
    answer = Started(shared=shared, function=session.beginning)
    for number in range(options.seeds):
        if number and time.perf_counter() - began > options.patience:
            break
        seed = (options.first + number) % 2**32
        model, failed = _built(session, seed, number, answer)
        if failed is not None:
            answer.failed = failed
            break
        if model is session.model:
            answer.given = True
            break
        _check_kind(session, model)
        entries = session.entries(model)
        if number == 0:
            known.update({e.name: _Tensor(e, _shape(session, e)) for e in entries if e.shared is None})
            shared.update({e.name: e.shared for e in entries if e.shared is not None})
        _check(session, known, entries, seed, options.first)
        most, whole = _kept(len(known), options.seeds), min(WHOLE, BUDGET // max(1, len(known)))
        for entry in entries:
            if entry.shared is None:
                _look(known[entry.name], session.adapter.to_array(entry.tensor), seed, most, whole)
        answer.built = number + 1
        del model, entries
    _record(writer, known)
    answer.elements = sum(int(np.prod(t.shape, dtype=np.int64)) for t in known.values())
    return answer


def _built(session: "Session", seed: int, number: int, answer: Started) -> Tuple[Any, Optional[BuildFailure]]:
    """The model under a seed, or what it raised.

    A seed that its own code sets is another in every build.
    """
    try:
        session.adapter.seed(seed)
        with reseeding.moved(number) as called:
            model = session.function(session.beginning)()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything; it is told with its seed
        return None, BuildFailure(seed, told(error))
    answer.reseeded = sorted({*answer.reseeded, *called})
    return model, None


def _shape(session: "Session", entry: "Entry") -> Tuple[int, ...]:
    return tuple(session.adapter.to_array(entry.tensor).array.shape)


def _check_kind(session: "Session", model: Any) -> None:
    """Raise where ``build_untrained()`` has not returned the model of ``build_model()``.

    Its tensors must be those that are known.

    Raises:
        UsageError: it is no model of the side's framework, or has other tensors.
    """
    if session.beginning == "build_model":
        return
    if not session.adapter.is_model(model):
        told = f"build_untrained() returned a {type(model).__module__}.{type(model).__qualname__}, which is no {session.adapter.name} model"
        raise UsageError(told, where=session.side, hint="return the model itself, with the values that a training starts from")
    wanted, found = ({e.name: _shape(session, e) for e in session.entries(each)} for each in (session.model, model))
    if wanted == found:
        return
    name = next(n for n in [*wanted, *found] if wanted.get(n) != found.get(n))
    said = ["has no such tensor" if shapes.get(name) is None else f"has shape {list(shapes[name])}" for shapes in (wanted, found)]
    raise UsageError(
        f"build_untrained() makes another model than build_model(): {name}: the latter {said[0]}, the former {said[1]}",
        where=session.side,
        hint="build the same model in both, without a checkpoint in build_untrained()",
    )


def _check(session: "Session", known: Dict[str, _Tensor], entries: "List[Entry]", seed: int, first: int) -> None:
    """The same tensors under every seed.

    Raises:
        UsageError: tensors or shapes that change with the seed.
    """
    found = {e.name: _shape(session, e) for e in entries if e.shared is None}
    wanted = {name: tensor.shape for name, tensor in known.items()}
    if found == wanted:
        return
    name = next(n for n in [*wanted, *found] if wanted.get(n) != found.get(n))
    said = ["is not there" if shapes.get(name) is None else f"has shape {list(shapes[name])}" for shapes in (wanted, found)]
    raise UsageError(
        f"{session.beginning}() makes another model under another seed: "
        f"{name} {said[0]} under seed {first} and {said[1]} under seed {seed}",
        where=session.side,
        hint="build the same tensors under every seed; draw sizes and architectures outside of this function",
    )


def _kept(tensors: int, seeds: int) -> int:
    return max(FEWEST, min(KEPT, BUDGET // max(1, tensors * seeds)))


def _look(tensor: _Tensor, value: Typed, seed: int, most: int, whole: int) -> None:
    """Add what one seed made of a tensor.

    ``most`` elements are kept, and all of one with up to ``whole`` if no seed changes them.
    """
    if is_complex(value.dtype):
        value = Typed(np.stack([value.array.real, value.array.imag], -1), "float64" if value.array.itemsize > 8 else "float32")  # noqa: PLR2004 - bytes of complex64
    flat = value.array.reshape(-1)
    _keep_whole(tensor, value, whole)
    tensor.moments.append([*_moments(flat, value.dtype), *_structure(Typed(value.array, value.dtype))])
    if flat.size > most:
        flat = flat[np.random.RandomState(seed).randint(0, flat.size, most)]  # other elements under every seed
    tensor.samples.append(_wide(flat, value.dtype).astype(np.float32))


def _keep_whole(tensor: _Tensor, value: Typed, most: int) -> None:
    """Keep the values of the first seed, or let go of them where this one makes others."""
    if not tensor.moments:
        tensor.whole = _wide(value.array, value.dtype).astype(np.float32) if value.array.size <= most else None
    elif tensor.whole is not None and not np.array_equal(tensor.whole, _wide(value.array, value.dtype).astype(np.float32)):
        tensor.whole = None


def _wide(values: Any, dtype: str) -> Any:
    return widen(Typed(values, dtype)).astype(np.float64)


def _moments(flat: Any, dtype: str) -> List[float]:
    """Number, mean, standard deviation, least and greatest of the finite elements.

    Two passes hold a chunk each.
    """
    count, total, least, greatest = 0, 0.0, np.inf, -np.inf
    for part in _chunks(flat, dtype):
        count += part.size
        total += float(part.sum())
        least, greatest = min(least, float(part.min(initial=np.inf))), max(greatest, float(part.max(initial=-np.inf)))
    if not count:
        return [0.0] * 5
    mean = total / count
    spread = sum(float(((part - mean) ** 2).sum()) for part in _chunks(flat, dtype)) if least < greatest else 0.0
    return [float(count), mean if least < greatest else least, float(np.sqrt(spread / count)), least, greatest]


def _chunks(flat: Any, dtype: str) -> Any:
    for start in range(0, flat.size, CHUNK):
        part = _wide(flat[start : start + CHUNK], dtype)
        yield part[np.isfinite(part)]


def _structure(value: Typed) -> Tuple[float, float]:
    """The gain of a matrix with orthogonal rows (or columns), else 0.

    And 1 for an identity, else 0.

    Kernels are looked at as matrices ``[first axis, all others]``, as initialisers do.
    """
    if value.array.ndim < 2 or min(value.array.shape) < 1:  # noqa: PLR2004 - a matrix
        return 0.0, 0.0
    matrix = value.array.reshape(value.array.shape[0], -1)
    if min(matrix.shape) < 2:  # noqa: PLR2004 - one row is orthogonal to nothing
        return 0.0, 0.0
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    rows = _wide(np.ascontiguousarray(short[: min(ROWS, len(short))]), value.dtype)
    if not np.isfinite(rows).all():  # a mask
        return 0.0, 0.0
    squares = rows @ rows.T
    gain = float(np.sqrt(abs(np.trace(squares)) / len(rows)))
    right = gain > 0 and bool(np.all(np.abs(squares / gain**2 - np.eye(len(rows))) < ORTHOGONAL))
    square = matrix.shape[0] == matrix.shape[1] and value.array.ndim == 2  # noqa: PLR2004 - a matrix
    same = right and square and bool(np.array_equal(rows, np.eye(len(rows), matrix.shape[1])))
    return (gain if right else 0.0), float(same)


def _record(writer: "CaptureWriter", known: Dict[str, _Tensor]) -> None:
    for name, tensor in known.items():
        size = int(np.prod(tensor.shape, dtype=np.int64))
        if tensor.moments and size:
            attrs = {"size": size, "shape": list(tensor.shape)}
            writer.add(name, Typed(np.asarray(tensor.moments, np.float64), "float64"), role=tensor.entry.role, leaf="moments", attrs=attrs)
            writer.add(name, Typed(np.stack(tensor.samples), "float32"), role=tensor.entry.role, leaf="sample", attrs=attrs)
            if tensor.whole is not None and len(tensor.moments) > 1:
                writer.add(name, Typed(tensor.whole, "float32"), role=tensor.entry.role, leaf="whole", attrs=attrs)
