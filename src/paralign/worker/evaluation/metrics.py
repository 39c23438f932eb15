"""Metrics of both sides.

The reference's outputs for both, each side's metric on them, and each side's own evaluation of its own loader.
"""

from __future__ import annotations

import hashlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from paralign.dtypes import Typed, is_complex, is_floating, narrow, widen
from paralign.errors import UsageError
from paralign.worker.datasets.data import add_leaves, following, length_of, split_batch
from paralign.worker.datasets.feed import tensors_of
from paralign.worker.passes.forward import attempt, nudge
from paralign.worker.protocol import Evaluate, Evaluated, Metric, MetricTaken, Own, OwnEvaluated
from paralign.worker.sides import stateful
from paralign.worker.sides.session import DOUBLE, HALVES, NATIVE, SINGLE, Session
from paralign.worker.values.trees import leaves, rebuild, structure

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter


def evaluate(session: Session, writer: CaptureWriter, options: Evaluate, values: Dict[str, Capture]) -> Evaluated:
    """The model's outputs and the labels, batch by batch, for the metric of both sides.

    From the side's data loader where it has one, else from the given inputs and labels, halved along the first axis where that is one of
    samples.
    """
    answer = Evaluated(0)
    session.seed()
    with session.untouched():
        session.adapter.train(session.model, "eval")
        with session.passing():
            number = -1
            for number, (inputs, labels) in enumerate(_pairs_of(session, options, values, answer)):
                session.save_tree(writer, f"output_{number}", session.call(session.fresh(inputs)))
                session.save_tree(writer, f"labels_{number}", labels, role="input")
    answer.batches = number + 1
    return answer


def _pairs_of(session: Session, options: Evaluate, values: Dict[str, Capture], answer: Evaluated) -> Iterator[Tuple[Any, Any]]:
    """The inputs and labels of every batch to be evaluated.

    The answer gets the ``total`` of batches that a loader has, where it says.
    """
    if "build_dataloader" in session.functions and not options.given:
        loader = session.function("build_dataloader")(options.split)
        answer.loader, answer.total = True, length_of(loader)
        for number, given, last in following(session, loader, options.split, options.most):
            if number < options.batches or last:
                yield split_batch(given)
        return
    if "labels" not in values:
        raise UsageError(
            "the metric needs labels", where=session.side, hint="define labels(), set [labels], or define build_dataloader(split)"
        )
    inputs = values["inputs"].manifest.settings["trees"]["inputs"], values["inputs"], "inputs"
    labels = values["labels"].manifest.settings["trees"]["labels"], values["labels"], "labels"
    if not _batched_first(inputs[1], labels[1]):  # a graph's edges, say: half of them are no batch
        yield session.tree(*inputs[1:], NATIVE), session.tree(*labels[1:], NATIVE)
        return
    for half in (0, 1):
        yield _half(session, *inputs, half), _half(session, *labels, half)


def _batched_first(inputs: Capture, labels: Capture) -> bool:
    """Whether the first axis of every tensor of a batch is that of its samples.

    It is as long in all of them.
    """
    records = [*inputs.select(name="inputs"), *labels.select(name="labels")]
    return len({r.shape[0] for r in records if r.shape}) <= 1


def _half(session: Session, shape: Dict[str, Any], capture: Capture, name: str, half: int) -> Any:
    from paralign.dtypes import Typed

    found = {r.leaf: r for r in capture.select(name=name)}

    def leaf(path: str) -> Any:
        if found[path].text is not None:
            return found[path].text
        value = capture.value(found[path])
        if value.array.ndim == 0:
            return session.tensor(value, NATIVE)
        middle = (value.array.shape[0] + 1) // 2
        part = value.array[:middle] if half == 0 or value.array.shape[0] == 1 else value.array[middle:]
        return session.tensor(Typed(np.ascontiguousarray(part), value.dtype), NATIVE)

    return rebuild(shape, leaf, plain=name == "inputs")


# -- metric ----------------------------------------------------------------------------------------------------------------------


def metric(session: Session, writer: CaptureWriter, options: Metric, values: Dict[str, Capture]) -> MetricTaken:
    """Run the side's metric on the reference's outputs.

    Per batch, and on all batches joined; one with a state also over the batches.

    For ``noise``, how far the metric moves by rounding, in place of all that: :func:`_metric_noise`.
    """
    given, session.widens = values["evaluation"], options.widens
    if options.noise:
        return _metric_noise(session, writer, given, options.skip)
    count = Evaluate.answer(given).batches
    function = stateful.function_of(session)
    failed: Dict[str, str] = {}

    def take(name: str, outputs: Any, labels: Any, *, tolerate: bool) -> None:
        act = partial(_take, session, writer, name, function, outputs, labels)
        problem = attempt(act, tolerate=tolerate)
        if problem:
            failed[name] = problem

    session.seed()
    with session.adapter.no_grad():
        for number in range(count):
            others = number < count - 1 or len(failed) < number  # one batch at least has to succeed
            take(f"batch_{number}", *batch_of(session, given, number), tolerate=options.tolerant and others)
        whole_set = joined_batches(given, count)
        if whole_set is not None:
            take("all", as_tensors(session, whole_set[0]), as_tensors(session, whole_set[1]), tolerate=options.tolerant)
        kept = [number for number in range(count) if f"batch_{number}" not in failed]
        result = stateful.running(session, (batch_of(session, given, number) for number in kept))
        if result is not None:
            add_leaves(session, writer, "running", result, role="scalar")
    return MetricTaken(count, result is not None, failed=failed)


def _take(session: Session, writer: CaptureWriter, name: str, function: Callable[..., Any], outputs: Any, labels: Any) -> None:
    """Record what a metric makes of outputs and labels."""
    add_leaves(session, writer, name, function(outputs, labels), role="scalar")


def batch_of(session: Session, given: Capture, number: int) -> Tuple[Any, Any]:
    """Outputs and labels of one recorded batch, as tensors of this side."""
    return session.tree(given, f"output_{number}", NATIVE, whole=True), session.tree(given, f"labels_{number}", NATIVE)


# -- each side's own evaluation ----------------------------------------------------------------------------------------------------

#: bytes of outputs and labels that are kept to be judged at once; beyond it the batches alone are
KEPT = 1 << 28


def own(session: Session, writer: CaptureWriter, options: Own, values: Dict[str, Capture]) -> OwnEvaluated:  # noqa: ARG001 - every task has these
    """Run the side's own evaluation: its model over its loader.

    Its metric per batch, over all of them, and how many samples that were.
    """
    answer = OwnEvaluated()
    function = stateful.function_of(session)
    kept: List[Tuple[Any, Any]] = []
    session.adapter.seed(session.base_seed + options.shift)
    with session.untouched():
        session.adapter.train(session.model, "eval")
        with session.passing():
            loader = session.function("build_dataloader")(options.split)
            answer.total = length_of(loader)
            began, size = time.perf_counter(), 0
            for given in loader:
                first, second = split_batch(given)
                inputs, labels = tensors_of(session, first, inputs=True), tensors_of(session, second)
                outputs = session.call(session.fresh(inputs))
                act = partial(_take, session, writer, f"own_{answer.batches}", function, outputs, labels)
                # the metric of the whole set is what counts; one of a last batch that is too small for it says nothing
                attempt(act, tolerate=answer.batches > 0)
                answer.batches += 1
                _count(session, labels, answer)
                answer.seen = _with_rows(session, answer.seen, (inputs, labels))
                size += sum(_bytes(leaf) for part in (outputs, labels) for _, leaf in leaves(part, session.adapter.is_tensor))
                kept.append((outputs, labels) if size <= KEPT else (None, None))
                if time.perf_counter() - began > options.patience:
                    answer.whole = answer.batches == answer.total
                    break
            if size <= KEPT:
                result = stateful.running(session, kept)
                together = None if result is not None else _together(session, kept)
                if result is None and together is not None:
                    result = function(*together)
                if result is not None:
                    answer.joined = True
                    add_leaves(session, writer, "own_all", result, role="scalar")
    return answer


def _count(session: Session, labels: Any, answer: OwnEvaluated) -> None:
    """Add how many samples a batch of labels has.

    That is the first axis of its first leaf that has one; where the leaves differ in it, each is counted.
    """
    first = None
    for path, leaf in leaves(labels, session.adapter.is_tensor):
        shape: Any = getattr(leaf, "shape", ())
        if len(shape) > 0:
            answer.counts[path] = answer.counts.get(path, 0) + int(shape[0])
            first = int(shape[0]) if first is None else first
    if first is None:
        first = len(labels) if isinstance(labels, (list, tuple)) else 1
    answer.samples += first
    answer.sizes.append(first)


#: samples of which an evaluation tells which they were
TOLD = 1 << 16


def _with_rows(session: Session, seen: "List[str] | None", batch: Tuple[Any, Any]) -> "List[str] | None":
    """Digests of samples with those of a batch; None of too many, or without rows."""
    if seen is None:
        return None
    found = [leaf for part in batch for _, leaf in leaves(part, session.adapter.is_tensor)]
    arrays = [session.adapter.to_array(leaf).array for leaf in found if session.adapter.is_tensor(leaf)]
    sizes = {array.shape[:1] for array in arrays}
    if len(sizes) != 1 or sizes == {()} or any(array.dtype.kind not in "biuf" for array in arrays):
        return None
    with np.errstate(all="ignore"):
        rows = [array.astype(np.float32 if array.dtype.kind == "f" else np.int64) for array in arrays]
    for number in range(len(rows[0])):
        digest = hashlib.blake2b(digest_size=8)
        for each in rows:
            digest.update(each[number].tobytes())
        seen.append(digest.hexdigest())
    return seen if len(seen) <= TOLD else None


def _bytes(leaf: Any) -> int:
    return 8 * int(np.prod(tuple(getattr(leaf, "shape", ())), dtype=np.int64))


def _together(session: Session, batches: List[Tuple[Any, Any]]) -> "Tuple[Any, Any] | None":
    """Outputs and labels of all batches joined along the first axis.

    None where they do not fit together.
    """
    joined = []
    for part in (0, 1):
        trees = [dict(leaves(batch[part], session.adapter.is_tensor)) for batch in batches]
        made: Dict[str, Typed] = {}
        for path in trees[0] if trees else ():
            if any(path not in tree or not session.adapter.is_tensor(tree[path]) for tree in trees):
                return None
            values = [session.adapter.to_array(tree[path]) for tree in trees]
            if any(v.array.ndim == 0 or v.array.shape[1:] != values[0].array.shape[1:] for v in values):
                return None
            made[path] = values[0]._replace(array=np.concatenate([v.array for v in values]))
        joined.append((structure(batches[0][part], session.adapter.is_tensor), made))
    sizes = {v.array.shape[0] for _, made in joined for v in made.values()}
    return (as_tensors(session, joined[0]), as_tensors(session, joined[1])) if len(sizes) == 1 else None


Arrays = Tuple[Dict[str, Any], Dict[str, Any]]

#: what tells how far rounding moves a metric: its values moved by one unit in the last place, in float64, and both; and samples in reverse
MOVED, MOVED_DOUBLE, REVERSED = ("perturbed-0", "perturbed-1", "perturbed-2"), "float64-perturbed", "reversed"


def _metric_noise(session: Session, writer: CaptureWriter, given: Capture, skip: Tuple[str, ...]) -> MetricTaken:
    """Run the metric on values that differ by rounding alone.

    Each way is a run of its own; one that raises has no records.
    """
    count = Evaluate.answer(given).batches
    failed: Dict[str, str] = {}
    batches = [(f"batch_{n}", [arrays_of(given, f"{what}_{n}") for what in ("output", "labels")]) for n in range(count)]
    whole_set = joined_batches(given, count)
    whole = [("all", list(whole_set))] if whole_set is not None else []
    points = [(name, arrays) for name, arrays in (*batches, *whole) if name not in skip]
    with session.adapter.no_grad():
        for run in (*MOVED, DOUBLE, MOVED_DOUBLE, REVERSED):
            act = partial(_metric_run, session, writer, run, points)
            problem = attempt(act, tolerate=True)
            if problem:
                failed[run] = problem
    return MetricTaken(without=failed)


def _metric_run(session: Session, writer: CaptureWriter, run: str, points: List[Tuple[str, List[Arrays]]]) -> None:
    random = np.random.RandomState(MOVED.index(run) if run in MOVED else len(MOVED))
    session.seed()
    for name, (outputs, labels) in points:
        moved = _floating(outputs, lambda value: nudge(value, random)) if run in MOVED else outputs
        if run in (DOUBLE, MOVED_DOUBLE):
            moved, labels = (_floating(a, lambda value: narrow(widen(value), DOUBLE)) for a in (outputs, labels))  # noqa: PLW2901
        if run == MOVED_DOUBLE:
            moved = _floating(moved, lambda value: nudge(value, random))
        if run == REVERSED and _has_texts(outputs, labels):
            continue  # a text stays with its sample
        if run == REVERSED:
            moved, labels = (_reversed(a) for a in (outputs, labels))  # noqa: PLW2901
        add_leaves(
            session, writer, name, stateful.function_of(session)(*(as_tensors(session, a) for a in (moved, labels))), role="scalar", run=run
        )


def _floating(arrays: Arrays, act: Callable[[Any], Any]) -> Arrays:
    """Real floating leaves changed, the others as they are."""
    return arrays[0], {k: act(v) if not isinstance(v, str) and _is_real(v) else v for k, v in arrays[1].items()}


def _is_real(value: Typed) -> bool:
    return is_floating(value.dtype) and not is_complex(value.dtype)


def _has_texts(*parts: Arrays) -> bool:
    return any(isinstance(value, str) for part in parts for value in part[1].values())


def _reversed(arrays: Arrays) -> Arrays:
    """Samples in the opposite order."""
    return arrays[0], {k: v._replace(array=v.array[::-1].copy()) for k, v in arrays[1].items()}


def arrays_of(given: Capture, name: str) -> Arrays:
    """Structure and leaves of a recorded tree; texts are leaves too."""
    found = given.select(name=name)
    return given.manifest.settings["trees"][name], {r.leaf: given.value(r) if r.text is None else r.text for r in found}


def joined_batches(given: Capture, count: int) -> "Tuple[Arrays, Arrays] | None":
    """Outputs and labels of all batches, joined.

    None where they do not fit together, or samples do not lie along the first axis of all.
    """
    for number in range(count):
        records = [r for what in ("output", "labels") for r in given.select(name=f"{what}_{number}")]
        if len({r.shape[:1] for r in records}) != 1 or any(r.text is not None for r in records):
            return None
    outputs, labels = _joined(given, "output", count), _joined(given, "labels", count)
    if outputs is None or labels is None:
        return None
    return (outputs, labels)


def _joined(given: Capture, what: str, count: int) -> "Arrays | None":
    """Structure and leaves of all batches, joined along the first axis.

    None where they do not fit together.
    """
    shape = given.manifest.settings["trees"][f"{what}_0"]
    joined: Dict[str, Any] = {}
    for record in given.select(name=f"{what}_0"):
        parts = [given.value(r) for n in range(count) for r in given.select(name=f"{what}_{n}", leaf=record.leaf)]
        fits = len(parts) == count and len({(p.dtype, p.array.shape[1:]) for p in parts}) == 1 and parts[0].array.ndim > 0
        if not fits:
            return None
        joined[record.leaf] = parts[0]._replace(array=np.concatenate([p.array for p in parts]))
    return shape, joined


def as_tensors(session: Session, arrays: Arrays) -> Any:
    """A recorded tree as tensors of this side."""

    def leaf(path: str) -> Any:
        value = arrays[1][path]
        if isinstance(value, str):
            return value
        whole = session.widens and value.dtype in HALVES
        return session.tensor(value, NATIVE, SINGLE if whole else "")

    return rebuild(arrays[0], leaf)
