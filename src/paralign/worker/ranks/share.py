"""One training step, and which samples a loader gives.

The same in a rank and in one process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paralign.adapters.base import Training
from paralign.adapters.parallel import parallel
from paralign.dtypes import Typed, narrow, widen
from paralign.errors import UnsupportedTensor, UsageError
from paralign.worker.datasets.data import split_batch
from paralign.worker.optimization.several import as_given, as_one, rates_of
from paralign.worker.protocol import LocalMetric, Share
from paralign.worker.sides import stateful
from paralign.worker.steps.own_step import before_updates
from paralign.worker.steps.training import scalar_of, trainer
from paralign.worker.values.trees import children, leaves, rebuild, structure, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.model import Record
    from paralign.worker.sides.session import Session

#: ``call`` of a gradient's record: as the backward pass left it, and as the first update took it
LEFT, TAKEN = 0, 1

#: samples that a loader's share is followed to: their numbers take 8 bytes each
MOST = 1_000_000

#: batches that a loader without a sampler is followed to, which have to be read
READ = 1000

#: bytes of outputs and labels of a rank that are kept for the metric over all ranks
KEPT = 1 << 25

#: what they are recorded as, a number a batch
EVALUATED = "evaluated"


@dataclass
class Stepped:
    """One training step: what it returned, and the gradients by name.

    ``left`` is what the last backward pass left, before it was clipped or used; ``taken`` what the first update took, where the step
    changed gradients in between: it clipped them, or brought the ranks' together by hand. Empty where it did not.
    """

    result: Any
    left: "Dict[str, Typed]" = field(default_factory=dict)
    taken: "Dict[str, Typed]" = field(default_factory=dict)

    def record(self, writer: "CaptureWriter", prefix: str = "", **fields: Any) -> None:
        """Write the gradients to a capture, without a prefix of their names."""
        for call, gradients in ((LEFT, self.left), (TAKEN, self.taken)):
            for name, value in gradients.items():
                writer.add(name[len(prefix) :], value, role="gradient", call=call, **fields)


def is_whole(session: "Session") -> bool:
    """Whether the side has a training step of its own."""
    return "train_step" in session.functions


def optimizer(session: "Session", model: Any) -> Tuple[Any, Any]:
    """The optimizer of a model and its schedule; None for what the side does not have."""
    build, build_scheduler = session.functions.get("build_optimizer"), session.functions.get("build_scheduler")
    built = build(model) if build is not None else None
    scheduler = build_scheduler(built) if build_scheduler is not None else None
    return as_one(session.adapter, built, scheduler) if isinstance(session.adapter, Training) else (built, scheduler)


def rates(session: "Session", built: Any) -> List[float]:
    """The rates of an optimizer, none where nobody tells them."""
    if isinstance(session.adapter, Training):
        return [] if built is None else rates_of(session.adapter, built)
    return [float(built.get_lr())] if hasattr(built, "get_lr") else []


def step(
    session: "Session", model: Any, built: Any, scheduler: Any, batch: Any, given: "Optional[Dict[str, Typed]]" = None, at: int = LEFT
) -> Stepped:
    """One step on a batch, by the side's own ``train_step`` or by its loss and optimizer.

    Args:
        session: the side.
        model: what is trained.
        built: its optimizer, None where the side has none.
        scheduler: its schedule, or None.
        batch: as the loader gave it.
        given: gradients that take the place of those of the backward pass, by name; None leaves these.
        at: when they do: ``LEFT``, behind the backward pass; ``TAKEN``, before the first update, when the step has done its part.
    """
    seen = _Gradients(session, model, given, at)
    if is_whole(session):
        helper = parallel(session.adapter.name)
        with ExitStack() as watching:
            if helper is not None:
                watching.enter_context(helper.after_backward(seen.look))
                watching.enter_context(before_updates(built, seen.take))
            seen.stepped.result = session.function("train_step")(model, as_given(built), batch)
        return seen.stepped
    trains = trainer(session)
    inputs, labels = split_batch(batch)
    seen.stepped.result = session.function("loss")(session.call(session.fresh(inputs), model), session.fresh(labels))
    trains.backward(scalar_of(seen.stepped.result, session.adapter.is_tensor))
    seen.look()
    if built is not None:
        trains.step(built)
        trains.step_scheduler(built, scheduler)
    trains.clear_gradients(model, built)
    return seen.stepped


class _Gradients:
    """Note the gradients of one step as it passes, or lay given ones in their place."""

    def __init__(self, session: "Session", model: Any, given: "Optional[Dict[str, Typed]]", at: int) -> None:
        self.session, self.model = session, model
        self.given, self.at = given, at
        self.stepped = Stepped(None)

    def look(self) -> None:
        """Behind a backward pass."""
        if self.given is not None and self.at == LEFT:
            _put(self.session, self.model, self.given)
        self.stepped.left.update(self._now())
        self.stepped.taken = {}

    def take(self) -> None:
        """Before an update: of several behind one backward pass, the first counts."""
        stepped = self.stepped
        if not stepped.left or stepped.taken:
            return
        if self.given is not None and self.at == TAKEN:
            _put(self.session, self.model, self.given)
            stepped.taken = dict(self.given)
            return
        now = self._now()
        if _differ(stepped.left, now):
            stepped.taken = now

    def _now(self) -> "Dict[str, Typed]":
        return {name: _copied(value) for name, value in _gradients(self.session, self.model).items()}


def gradients_of_ranks(ranks: "Sequence[Capture]") -> int:
    """Tell which gradients show how the ranks exchange theirs: ``LEFT`` or ``TAKEN``.

    A wrapper brings them together within the backward pass, which then leaves the same in all ranks: whatever the step does afterwards
    (it clips them) is the update's affair. Where the backward pass leaves others in each rank, only a step of the user's own can have
    brought them together before the update took them.
    """
    exchanged = _shared([gradients_of(rank, LEFT) for rank in ranks])
    changed = any(gradients_of(rank, TAKEN) for rank in ranks)
    if changed and not exchanged:
        return TAKEN
    return LEFT


def gradients_of(capture: "Capture", call: int, **fields: Any) -> "Dict[str, Any]":
    """Name -> array of the gradients that were recorded at a point of a step."""
    found = capture.select(role="gradient", call=call, **fields)
    return {record.name: capture.array(record) for record in found if record.location is not None}


def _shared(ranks: "Sequence[Dict[str, Any]]") -> bool:
    """Whether all ranks have the same gradients, up to the rounding of a sum in another order."""
    first, *others = ranks
    return all(other.keys() == first.keys() and all(_near(first[name], other[name]) for name in first) for other in others)


def _near(one: Any, other: Any) -> bool:
    """Whether arrays are equal up to 1e-5 of the greatest element.

    Sums of float32 in another order are nearer, gradients of other samples are not.
    """
    if one.shape != other.shape:
        return False
    atol = 1e-5 * float(np.abs(one).max(initial=0.0))
    return bool(np.allclose(one, other, rtol=1e-5, atol=atol, equal_nan=True))


def _differ(left: "Dict[str, Typed]", now: "Dict[str, Typed]") -> bool:
    if left.keys() != now.keys():
        return True
    return any(not _same(left[name], now[name]) for name in left)


def _same(one: Typed, other: Typed) -> bool:
    return one.dtype == other.dtype and one.array.tobytes() == other.array.tobytes()


def _put(session: "Session", model: Any, given: "Dict[str, Typed]") -> None:
    """Lay gradients on the parameters that have one."""
    for entry in session.entries(model):
        if entry.name in given and entry.tensor.grad is not None:
            own = session.adapter.to_array(entry.tensor).dtype
            entry.tensor.grad = session.adapter.from_array(narrow(widen(given[entry.name]), own))


def _gradients(session: "Session", model: Any) -> Dict[str, Any]:
    """Name -> values of every gradient that is there."""
    adapter = session.adapter
    if not isinstance(adapter, Training):
        return {}
    return {name: adapter.to_array(value) for name, value in adapter.gradients(model).items() if value is not None}


def _copied(value: Typed) -> Typed:
    return Typed(np.array(value.array), value.dtype)


def loss_of(session: "Session", result: Any) -> Optional[float]:
    """The loss as a number; None where a step returned none."""
    try:
        value = scalar_of(result, session.adapter.is_tensor) if not isinstance(result, (int, float)) else result
    except UsageError:
        return None
    array = widen(session.adapter.to_array(value)) if session.adapter.is_tensor(value) else np.asarray(value)
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def size_of(session: "Session", batch: Any) -> Optional[int]:
    """How many samples a batch has: the length of the first axis of its first tensor."""
    for _, leaf in leaves(batch, session.adapter.is_tensor):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
    return None


def share(session: "Session", loader: Any) -> Share:
    """Which samples a loader gives in one epoch."""
    sampler, dataset = getattr(loader, "batch_sampler", None), getattr(loader, "dataset", None)
    length = len(dataset) if dataset is not None and hasattr(dataset, "__len__") else None
    if sampler is not None and hasattr(sampler, "__iter__"):
        found: List[List[Any]] = []
        count = 0
        for indices in sampler:
            found.append([int(index) for index in indices])
            count += len(found[-1])
            if count >= MOST:
                break
        return Share("index", found, count < MOST, length)
    read = list(islice(loader, READ + 1))
    return Share("content", [_contents(session, each) for each in read[:READ]], len(read) <= READ, length)


def contents(session: "Session", batch: Any) -> str:
    """What a whole batch is known by: its tensors and their types."""
    found = hashlib.sha256()
    for path, leaf in leaves(batch, session.adapter.is_tensor):
        try:
            value = to_value(leaf, session.adapter)
        except UnsupportedTensor:
            continue
        found.update(repr((path, value if isinstance(value, str) else (value.dtype, value.array.shape))).encode())
        found.update(b"" if isinstance(value, str) else np.ascontiguousarray(value.array).tobytes())
    return found.hexdigest()


def _contents(session: "Session", batch: Any) -> List[str]:
    """A hash of each sample of a batch."""
    arrays = []
    for _, leaf in leaves(batch, session.adapter.is_tensor):
        try:
            value = to_value(leaf, session.adapter)
        except UnsupportedTensor:
            continue
        if isinstance(value, Typed) and value.array.ndim:
            arrays.append(np.ascontiguousarray(value.array))
    count = min((len(array) for array in arrays), default=0)
    return [hashlib.sha256(b"".join(array[row].tobytes() for array in arrays)).hexdigest()[:16] for row in range(count)]


def digest(value: Typed) -> str:
    """What the exact values of a tensor are known by."""
    return hashlib.sha256(np.ascontiguousarray(value.array).tobytes()).hexdigest()[:16]


def numbers(session: "Session", value: Any) -> Dict[str, float]:
    """The single numbers in what an evaluation returned, by their paths.

    '' for one that is returned alone.
    """
    found = {}
    for path, leaf in leaves(value, session.adapter.is_tensor):
        try:
            recorded = to_value(leaf, session.adapter)
        except UnsupportedTensor:
            continue
        if isinstance(recorded, Typed) and recorded.array.size == 1:
            found[path] = float(widen(recorded).reshape(-1)[0])
    return found


def local_metric(
    session: "Session", model: Any, split: str, most: int, keep: "Optional[Callable[[List[Tuple[Any, Any]]], None]]" = None
) -> Optional[LocalMetric]:
    """The metric of what this process's loader gives, and of how many samples.

    None where the side lacks a function for it, or the loader does not end within so many batches.

    Args:
        session: of the side.
        model: as it evaluates.
        split: of the data loader.
        most: batches that are taken.
        keep: takes the outputs and labels of each batch.
    """
    if "metric" not in session.functions or "build_dataloader" not in session.functions:
        return None
    evaluated, rows = [], []
    with session.passing():
        for count, batch in enumerate(session.function("build_dataloader")(split)):
            if count >= most:
                return None
            given, wanted = split_batch(batch)
            evaluated.append((session.call(session.fresh(given), model), wanted))
            rows += _contents(session, batch)
        values = metric_over(session, evaluated)
    if keep is not None:
        keep(evaluated)
    return None if values is None else LocalMetric(values, len(rows), rows)


def metric_over(session: "Session", evaluated: List[Tuple[Any, Any]]) -> Optional[Dict[str, float]]:
    """The figures of the side's metric over batches of outputs and labels, all together.

    None where there are none, or where a metric that keeps no state would need batches of one shape.
    """
    if not evaluated:
        return None
    found = stateful.running(session, evaluated)
    if found is None:
        try:
            whole = [joined(session, [batch[place] for batch in evaluated]) for place in range(2)]
        except UsageError:
            return None
        found = stateful.function_of(session)(*whole)
    return numbers(session, found)


def keep_evaluated(session: "Session", writer: "CaptureWriter", rank: int, evaluated: List[Tuple[Any, Any]]) -> None:
    """Record a rank's outputs and labels for the metric over those of all ranks.

    Nothing where they are too large, or would not come back as they are.
    """
    kept: List[List[_Leaf]] = []
    size = 0
    for batch in evaluated:
        found = _as_they_are(session, batch)
        size += KEPT + 1 if found is None else sum(leaf.size for leaf in found)
        if found is None or size > KEPT:
            return
        kept.append(found)
    for number, (batch, found) in enumerate(zip(evaluated, kept)):
        name = f"{EVALUATED}_{number}"
        writer.manifest.settings.setdefault("trees", {})[name] = structure(batch, session.adapter.is_tensor)
        for leaf in found:
            writer.add(name, leaf.value, leaf=leaf.path, role="state", rank=rank, attrs={"kind": leaf.kind})


class _Leaf(NamedTuple):
    """A leaf of a batch as it is recorded; ``kind`` is what it has to become again."""

    path: str
    kind: str
    value: "Typed | str"

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.value) if isinstance(self.value, str) else int(self.value.array.nbytes)


def _as_they_are(session: "Session", batch: Any) -> Optional[List[_Leaf]]:
    """The leaves of a batch; None where it would not come back from them exactly."""
    known = session.adapter.is_tensor
    if not _is_plain(batch, known):
        return None
    found = []
    for path, leaf in leaves(batch, known):
        kind = _kind(leaf, known)
        try:
            value = to_value(leaf, session.adapter)
        except UnsupportedTensor:
            return None
        if not kind or (kind in _NUMPY and isinstance(value, Typed) and value.array.dtype != leaf.dtype):
            return None
        found.append(_Leaf(path, kind, value))
    return found if len({leaf.path for leaf in found}) == len(found) else None  # a key may hold a dot


def _is_plain(value: Any, known: Callable[[Any], bool]) -> bool:
    """Whether all containers are lists, tuples, and dicts with texts as keys.

    Others do not come back.
    """
    if known(value) or children(value) is None:
        return True
    if isinstance(value, dict):
        return type(value) in (dict, OrderedDict) and all(type(key) is str and _is_plain(inner, known) for key, inner in value.items())
    return type(value) in (list, tuple) and all(_is_plain(inner, known) for inner in value)


#: kinds of leaves: a tensor of the framework; an array and a number of numpy's; a number of Python's; a text
TENSOR, _NUMPY, NUMBER, TEXT = "tensor", ("array", "scalar"), "number", "text"


def _kind(leaf: Any, known: Callable[[Any], bool]) -> str:
    """What a leaf has to become again; '' of what cannot."""
    if known(leaf):
        return TENSOR
    if type(leaf) is np.ndarray:
        return _NUMPY[0]
    if isinstance(leaf, np.generic):
        return _NUMPY[1]
    if type(leaf) in (bool, int, float, complex):
        return NUMBER
    return TEXT if type(leaf) is str else ""


def kept_evaluated(session: "Session", capture: "Capture") -> List[Tuple[Any, Any]]:
    """What :func:`keep_evaluated` has recorded of a rank; nothing where it has not."""
    trees = capture.manifest.settings.get("trees", {})
    found: List[Tuple[Any, Any]] = []
    while f"{EVALUATED}_{len(found)}" in trees:
        name = f"{EVALUATED}_{len(found)}"
        records = {record.leaf: record for record in capture.select(name=name)}
        found.append(rebuild(trees[name], partial(_leaf, session, capture, records)))
    return found


def _leaf(session: "Session", capture: "Capture", records: "Dict[str, Record]", path: str) -> Any:
    record = records[path]
    kind = record.attrs["kind"]
    if kind == TEXT:
        return record.text
    value = capture.value(record)
    if kind == TENSOR:
        return session.adapter.from_array(value)
    if kind == _NUMPY[0]:
        return np.array(value.array)
    return value.array.reshape(-1)[0] if kind == _NUMPY[1] else value.array.item()


def joined(session: "Session", trees: List[Any]) -> Any:
    """Several trees as one, tensors joined along their first axis.

    What cannot be joined is the first tree's.

    Raises:
        UsageError: tensors of shapes that do not fit.
    """
    first = trees[0]
    known = session.adapter.is_tensor
    if isinstance(first, dict) and not known(first):
        return {key: joined(session, [tree[key] for tree in trees]) for key in first}
    if isinstance(first, (list, tuple)) and not known(first):
        parts = [joined(session, [tree[place] for tree in trees]) for place in range(len(first))]
        return type(first)(parts) if type(first) in (list, tuple) else type(first)(*parts)
    if not known(first) and not isinstance(first, np.ndarray):
        return first
    every = [to_value(tree, session.adapter) for tree in trees]
    values = [value for value in every if isinstance(value, Typed)]
    arrays = [value.array for value in values]
    if not arrays[0].ndim:
        return first
    if len({array.shape[1:] for array in arrays}) > 1:
        shapes = " and ".join(str(list(array.shape)) for array in arrays[:2])
        raise UsageError(f"batches of the shapes {shapes} cannot be joined", where=session.side, hint="pad all samples to one shape")
    whole = Typed(np.concatenate(arrays), values[0].dtype)
    return session.adapter.from_array(whole) if known(first) else whole.array
