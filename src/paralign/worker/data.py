"""Data sets, loaders and metrics: lengths, samples, transforms one by one, batches with the last partial one."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.dtypes import is_complex, is_floating, narrow, widen
from paralign.errors import UsageError
from paralign.worker import loaders, whole
from paralign.worker.facts import class_names
from paralign.worker.forward import attempt, nudge
from paralign.worker.session import DOUBLE, NATIVE, Session
from paralign.worker.trees import leaves, rebuild, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter

#: keys under which a batch that is a dict may hold its labels
LABEL_KEYS = ("labels", "label", "targets", "target", "y")


def add_leaves(session: Session, writer: CaptureWriter, name: str, value: Any, **fields: Any) -> None:
    """Record every leaf of a value; one that holds no array and no text is named in the notes."""
    from paralign.errors import UnsupportedTensor

    for path, leaf in leaves(value, session.adapter.is_tensor):
        try:
            recorded = to_value(leaf, session.adapter)
        except UnsupportedTensor as error:
            writer.note(f"{name}{'.' if path else ''}{path}: {error.what}")
            continue
        writer.add(name, recorded, leaf=path, **{"role": "sample", **fields})


# -- data ----------------------------------------------------------------------------------------------------------------------


def data(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
    """Length, first and last samples with each transform's output, all samples as fingerprints, batches from the first, and the last.

    Options: ``split``, ``samples``, ``batches``, ``most`` (batches after which iteration stops, 0: time decides), ``patience``
    (seconds that reading all samples, or all batches, may take), ``limit`` (samples that are read of the set, and of the loader).
    """
    split, answer = options["split"], {"dataset": False, "dataloader": False, "transforms": False, "truncated": False}
    session.seed()
    if "build_dataset" in session.functions:
        dataset = session.function("build_dataset")(split)
        answer["dataset"] = True
        _record_dataset(session, writer, dataset, options, answer)
    if "build_dataloader" in session.functions:
        session.seed()
        loader = session.function("build_dataloader")(split)
        answer["dataloader"] = True
        _record_batches(session, writer, loader, options, answer)
    return answer


def _record_dataset(session: Session, writer: CaptureWriter, dataset: Any, options: Dict[str, Any], answer: Dict[str, Any]) -> None:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        _record_stream(session, writer, iter(dataset), options, answer)
        return
    length = len(dataset)
    writer.add("length", np.int64(length), role="scalar")
    if length == 0:
        raise UsageError(
            f"the data set of split {options['split']!r} is empty", where=session.side, hint="check the path that build_dataset reads from"
        )
    steps = _transforms(session, options["split"])
    seconds = []
    for index in sorted({*range(min(options["samples"], length)), length - 1}):
        session.seed()
        began = time.perf_counter()
        attribute = transform_attribute(dataset)
        if steps and attribute:
            answer["transforms"] = True
            with _traced(session, writer, dataset, attribute, steps, f"sample_{index}"):
                sample = dataset[index]
        else:
            sample = dataset[index]
        seconds.append(time.perf_counter() - began)
        add_leaves(session, writer, f"sample_{index}", sample)
    found = whole.read(session, dataset, min(seconds), until=options["patience"], most=options.get("limit"))
    answer["whole"] = {**found.write(writer, "samples"), "total": length}
    answer["facts"], answer["classes"] = found.facts.told(), class_names(dataset)


def _record_stream(
    session: Session, writer: CaptureWriter, samples: Iterator[Any], options: Dict[str, Any], answer: Dict[str, Any]
) -> None:
    """The samples of a data set that has no index: the first whole, those that follow as fingerprints."""
    found = whole.Fingerprints(session)
    for number, sample in zip(range(options["samples"]), samples):
        add_leaves(session, writer, f"sample_{number}", sample)
        found.add(number, sample)
    ended = whole.followed(found, samples, most=options.get("limit"))
    answer["whole"] = {**found.write(writer, "samples"), "total": found.count if ended else None}
    answer["facts"] = found.facts.told()
    if ended:
        writer.add("length", np.int64(found.count), role="scalar")


def samples(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
    """Some samples of the data set, or batches of the loader, whole. Options: ``split``, ``indices``, ``of``: ``dataset`` or ``loader``."""
    session.seed()
    wanted = sorted(options["indices"])
    if options.get("of") == "loader":
        for number, given in zip(range(wanted[-1] + 1), session.function("build_dataloader")(options["split"])):
            if number in wanted:
                add_leaves(session, writer, f"dataloader_{number}", given)
        return {}
    dataset = session.function("build_dataset")(options["split"])
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        for index in wanted:
            session.seed()
            add_leaves(session, writer, f"sample_{index}", dataset[index])
        return {}
    for index, sample in zip(range(wanted[-1] + 1), dataset):
        if index in wanted:
            add_leaves(session, writer, f"sample_{index}", sample)
    return {}


def _transforms(session: Session, split: str) -> List[Callable[[Any], Any]]:
    """The side's transforms as a list; a composition is taken apart by its ``transforms`` attribute."""
    if "transforms" not in session.functions:
        return []
    steps = session.function("transforms")(split)
    steps = getattr(steps, "transforms", steps)
    return list(steps) if isinstance(steps, (list, tuple)) else [steps]


def transform_attribute(dataset: Any) -> str:
    """The attribute by which a data set transforms its samples: ``transform`` (one, or a list), or ``transforms`` (a list); else ''."""
    if hasattr(dataset, "transform"):
        return "transform"
    return "transforms" if isinstance(getattr(dataset, "transforms", None), (list, tuple)) else ""


@contextmanager
def _traced(
    session: Session, writer: CaptureWriter, dataset: Any, attribute: str, steps: List[Callable[[Any], Any]], name: str
) -> Iterator[None]:
    """Let the data set transform a sample step by step, each step's output recorded; its own transforms are put back."""
    own = getattr(dataset, attribute)

    def transform(value: Any) -> Any:
        add_leaves(session, writer, f"{name}.raw", value, attrs={"trace": True})
        for number, step in enumerate(steps):
            value = step(value)
            add_leaves(session, writer, f"{name}.transform_{number}", value, op=step_name(step), attrs={"trace": True})
        return value

    setattr(dataset, attribute, type(own)([transform]) if type(own) in (list, tuple) else transform)
    try:
        yield
    finally:
        setattr(dataset, attribute, own)


def step_name(step: Any) -> str:
    """What a transform is called: the function's name, or the class's."""
    name = getattr(step, "__name__", None)
    return str(name or type(step).__name__)


def _batches(session: Session, loader: Any, split: str, most: int) -> Iterator[Tuple[int, Any, bool]]:
    """Number, batch and whether it is the last that is looked at (the loader's last, or the one before ``most``)."""
    previous: List[Any] = []
    number = -1
    for number, batch in enumerate(loader):
        if previous:
            yield number - 1, previous.pop(), False
        if number >= most:
            return
        previous.append(batch)
    if not previous:
        raise UsageError(
            f"the data loader of split {split!r} gave no batch",
            where=session.side,
            hint="check the data set's length, the batch size and drop_last",
        )
    yield number, previous.pop(), True


def _record_batches(session: Session, writer: CaptureWriter, loader: Any, options: Dict[str, Any], answer: Dict[str, Any]) -> None:
    """The first batches and the last whole, all as fingerprints; where the order is random, the samples that they hold, too."""
    count, ended, seen = 0, False, 0
    found = whole.Fingerprints(session)
    until = options["patience"] if hasattr(loader, "__len__") else min(whole.ENDLESS, options["patience"])
    began = time.perf_counter()
    for number, given, last in _batches(session, loader, options["split"], options["most"] or sys.maxsize):
        count, ended = number + 1, last
        found.add(number, given)
        if number < options["batches"]:
            add_leaves(session, writer, f"dataloader_{number}", given)
        elif last:
            add_leaves(session, writer, "dataloader_last", given)
        if time.perf_counter() - began > until or count >= whole.MOST:
            break
        seen += loaders.rows_of(
            [leaf.shape[0] for _, leaf in leaves(given, session.adapter.is_tensor) if len(getattr(leaf, "shape", ())) > 0]
        )
        if options.get("limit") and seen >= options["limit"] and not last:
            answer["limited"] = True
            break
    answer["truncated"] = not ended
    total = count if ended else _length(loader)
    if total is not None and (ended or not options["most"]):
        writer.add("batches", np.int64(total), role="scalar")
    answer["batches"] = {**found.write(writer, "batches"), "total": total}
    answer["shuffled"] = _is_shuffled(session, loader, found)
    if answer["shuffled"] and ended:
        session.seed()
        answer["rows"] = whole.record_rows(session, writer, iter(loader), until=until)
    answer["settings"] = loaders.settings(loader)
    answer["epochs"] = loaders.record_epochs(session, writer, loader)


def _length(loader: Any) -> "Optional[int]":
    """How many batches a loader says it has; None of one that does not say."""
    try:
        return len(loader)
    except TypeError:
        return None


def _is_shuffled(session: Session, loader: Any, first: whole.Fingerprints) -> bool:
    """Whether another pass, from another seed, begins with another batch; a loader that gives its batches once is not asked."""
    if hasattr(loader, "__next__"):
        return False
    session.adapter.seed(session.base_seed + 1)
    again = whole.Fingerprints(session)
    for given in loader:
        again.add(0, given)
        break
    return again.hashes(0) != first.hashes(0)


# -- batches for other stages ------------------------------------------------------------------------------------------------------


def split_batch(batch: Any) -> Tuple[Any, Any]:
    """Inputs and labels of a batch: the last element of a list or tuple, or the label key of a dict, is the labels.

    Raises:
        UsageError: the batch is neither, or has no labels.
    """
    if isinstance(batch, dict):
        for key in LABEL_KEYS:
            if key in batch:
                return {k: v for k, v in batch.items() if k != key}, batch[key]
        raise UsageError(
            f"a batch with the keys {', '.join(map(str, batch))} has no labels", hint=f"name the labels one of: {', '.join(LABEL_KEYS)}"
        )
    if isinstance(batch, (list, tuple)) and len(batch) > 1:
        inputs = tuple(batch[:-1])
        return (inputs[0] if len(inputs) == 1 else inputs), batch[-1]
    raise UsageError(
        f"a batch of type {type(batch).__name__} cannot be split into inputs and labels",
        hint="let the data loader give (inputs, labels), or set [inputs] to a shape or a file",
    )


def batch(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
    """The first batch of the side's data loader, as ``inputs`` and ``labels``. Options: ``split``."""
    session.seed()
    loader = session.function("build_dataloader")(options["split"])
    for first in loader:
        inputs, labels = split_batch(first)
        session.save_tree(writer, "inputs", inputs, role="input")
        session.save_tree(writer, "labels", labels, role="input")
        return {}
    raise UsageError(
        f"the data loader of split {options['split']!r} gave no batch",
        where=session.side,
        hint="check the data set's length, the batch size and drop_last",
    )


def given(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:  # noqa: ARG001 - every task has these
    """What the side's own ``inputs()`` or ``labels()`` returns. Options: ``function``."""
    session.seed()
    name = options["function"]
    session.save_tree(writer, name, session.function(name)(), role="input")
    return {}


def evaluate(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:
    """The model's outputs and the labels, batch by batch, for the metric of both sides.

    From the side's data loader where it has one, else from the given inputs and labels, halved along the first axis where that is one of
    samples. Options:
    ``split``, ``batches``.
    """
    about: Dict[str, Any] = {}
    session.seed()
    with session.untouched():
        session.adapter.train(session.model, "eval")
        with session.passing():
            number = -1
            for number, (inputs, labels) in enumerate(_pairs_of(session, options, values, about)):
                session.save_tree(writer, f"output_{number}", session.call(session.fresh(inputs)))
                session.save_tree(writer, f"labels_{number}", labels, role="input")
    return {"batches": number + 1, **about}


def _pairs_of(session: Session, options: Dict[str, Any], values: Dict[str, Capture], about: Dict[str, Any]) -> Iterator[Tuple[Any, Any]]:
    """Inputs and labels; ``about`` gets the ``total`` of batches that a loader has, where it says."""
    if "build_dataloader" in session.functions:
        loader = session.function("build_dataloader")(options["split"])
        about["total"] = _length(loader)
        for number, given, last in _batches(session, loader, options["split"], options["most"]):
            if number < options["batches"] or last:
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
    """Whether the first axis of every tensor of a batch is that of its samples: it is as long in all of them."""
    records = [*inputs.select(name="inputs"), *labels.select(name="labels")]
    return len({r.shape[0] for r in records if r.shape}) <= 1


def _half(session: Session, shape: Dict[str, Any], capture: Capture, name: str, half: int) -> Any:
    from paralign.dtypes import Typed

    found = {r.leaf: r for r in capture.select(name=name)}

    def leaf(path: str) -> Any:
        value = capture.value(found[path])
        if value.array.ndim == 0:
            return session.tensor(value, NATIVE)
        middle = (value.array.shape[0] + 1) // 2
        part = value.array[:middle] if half == 0 or value.array.shape[0] == 1 else value.array[middle:]
        return session.tensor(Typed(np.ascontiguousarray(part), value.dtype), NATIVE)

    return rebuild(shape, leaf)


# -- metric ----------------------------------------------------------------------------------------------------------------------


def metric(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:
    """The side's metric on the reference's outputs: per batch, on all batches joined, and on probes that decide ties and empty classes.

    A probe that raises is named in the answer, not an error: few metrics are made for it. Options: ``noise`` (how far the metric moves by
    rounding, in place of all that: :func:`_metric_noise`).
    """
    given = values["evaluation"]
    if options.get("noise"):
        return _metric_noise(session, writer, given)
    count = given.manifest.settings["answer"]["batches"]
    function = session.function("metric")
    answer: Dict[str, Any] = {"batches": count, "probes": {}}
    session.seed()
    with session.adapter.no_grad():
        for number in range(count):
            outputs, labels = (session.tree(given, f"{what}_{number}", NATIVE) for what in ("output", "labels"))
            add_leaves(session, writer, f"batch_{number}", function(outputs, labels), role="scalar")
        whole_set = _joined_batches(given, count)
        if whole_set is not None:
            outputs, labels = whole_set
            tensors = _as_tensors(session, outputs), _as_tensors(session, labels)
            add_leaves(session, writer, "all", function(*tensors), role="scalar")
            for name, probe in (("ties", (_rounded(outputs), labels)), ("one_class", (outputs, _constant(labels)))):
                answer["probes"][name] = _probe(session, writer, f"probe_{name}", function, probe)
    return answer


Arrays = Tuple[Dict[str, Any], Dict[str, Any]]

#: what tells how far rounding moves a metric: its values moved by one unit in the last place, in float64, and both; and samples in reverse
MOVED, MOVED_DOUBLE, REVERSED = ("perturbed-0", "perturbed-1", "perturbed-2"), "float64-perturbed", "reversed"


def _metric_noise(session: Session, writer: CaptureWriter, given: Capture) -> Dict[str, Any]:
    """The metric on values that differ by rounding alone, each way a run of its own; one that raises has no records."""
    count = given.manifest.settings["answer"]["batches"]
    failed: Dict[str, str] = {}
    batches = [(f"batch_{n}", [_arrays(given, f"{what}_{n}") for what in ("output", "labels")]) for n in range(count)]
    whole_set = _joined_batches(given, count)
    points = [*batches, *([("all", list(whole_set))] if whole_set is not None else [])]
    with session.adapter.no_grad():
        for run in (*MOVED, DOUBLE, MOVED_DOUBLE, REVERSED):
            act = partial(_metric_run, session, writer, run, points)
            problem = attempt(act, tolerate=True)
            if problem:
                failed[run] = problem
    return {"without": failed}


def _metric_run(session: Session, writer: CaptureWriter, run: str, points: List[Tuple[str, List[Arrays]]]) -> None:
    random = np.random.RandomState(MOVED.index(run) if run in MOVED else len(MOVED))
    session.seed()
    for name, (outputs, labels) in points:
        moved = _floating(outputs, lambda value: nudge(value, random)) if run in MOVED else outputs
        if run in (DOUBLE, MOVED_DOUBLE):
            moved, labels = (_floating(a, lambda value: narrow(widen(value), DOUBLE)) for a in (outputs, labels))  # noqa: PLW2901
        if run == MOVED_DOUBLE:
            moved = _floating(moved, lambda value: nudge(value, random))
        if run == REVERSED:
            moved, labels = ((a[0], {k: v._replace(array=v.array[::-1].copy()) for k, v in a[1].items()}) for a in (outputs, labels))  # noqa: PLW2901
        add_leaves(
            session, writer, name, session.function("metric")(*(_as_tensors(session, a) for a in (moved, labels))), role="scalar", run=run
        )


def _floating(arrays: Arrays, act: Callable[[Any], Any]) -> Arrays:
    """Real floating leaves changed, the others as they are."""
    return arrays[0], {k: act(v) if is_floating(v.dtype) and not is_complex(v.dtype) else v for k, v in arrays[1].items()}


def _arrays(given: Capture, name: str) -> Arrays:
    """Structure and leaves of a recorded tree."""
    return given.manifest.settings["trees"][name], {r.leaf: given.value(r) for r in given.select(name=name)}


def _joined_batches(given: Capture, count: int) -> "Tuple[Arrays, Arrays] | None":
    """Outputs and labels of all batches, joined; None where they do not fit together, or samples do not lie along the first axis of all."""
    for number in range(count):
        records = [r for what in ("output", "labels") for r in given.select(name=f"{what}_{number}")]
        if len({r.shape[:1] for r in records}) != 1:
            return None
    outputs, labels = _joined(given, "output", count), _joined(given, "labels", count)
    return None if outputs is None or labels is None else (outputs, labels)


def _joined(given: Capture, what: str, count: int) -> "Arrays | None":
    """Structure and leaves of all batches, joined along the first axis; None where they do not fit together."""
    shape = given.manifest.settings["trees"][f"{what}_0"]
    joined: Dict[str, Any] = {}
    for record in given.select(name=f"{what}_0"):
        parts = [given.value(r) for n in range(count) for r in given.select(name=f"{what}_{n}", leaf=record.leaf)]
        fits = len(parts) == count and len({(p.dtype, p.array.shape[1:]) for p in parts}) == 1 and parts[0].array.ndim > 0
        if not fits:
            return None
        joined[record.leaf] = parts[0]._replace(array=np.concatenate([p.array for p in parts]))
    return shape, joined


def _as_tensors(session: Session, arrays: Arrays) -> Any:
    return rebuild(arrays[0], lambda path: session.tensor(arrays[1][path], NATIVE))


def _rounded(arrays: Arrays) -> Arrays:
    """Floating leaves on a grid so coarse that scores tie."""

    def coarse(value: Any) -> Any:
        if value.array.dtype.kind != "f" or value.array.size == 0:
            return value
        scale = np.abs(value.array).max() or 1.0
        return value._replace(array=(np.round(value.array / scale * 2) / 2).astype(value.array.dtype))

    return arrays[0], {k: coarse(v) for k, v in arrays[1].items()}


def _constant(arrays: Arrays) -> Arrays:
    """Integer leaves all equal to their first element: every other class is empty."""

    def constant(value: Any) -> Any:
        return (
            value._replace(array=np.full_like(value.array, value.array.flat[0]))
            if value.array.dtype.kind in "iu" and value.array.size
            else value
        )

    return arrays[0], {k: constant(v) for k, v in arrays[1].items()}


def _probe(session: Session, writer: CaptureWriter, name: str, function: Callable[..., Any], arrays: Tuple[Arrays, Arrays]) -> str:
    try:
        result = function(_as_tensors(session, arrays[0]), _as_tensors(session, arrays[1]))
    except Exception as error:  # noqa: BLE001 - the user's metric may refuse the probe in any way; the caller compares who refused
        return f"{type(error).__name__}: {error}"
    add_leaves(session, writer, name, result, role="scalar")
    return "ok"
