"""One sample in detail: every step, traced twice so that random steps show."""

from __future__ import annotations

import itertools
import os
import time
import zlib
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

import numpy as np

from paralign.capture.digest import moments
from paralign.errors import UnsupportedTensor, UsageError
from paralign.worker.datasets import redrawn
from paralign.worker.datasets.data import add_leaves
from paralign.worker.draws.tape import Tape
from paralign.worker.optimization.optimizers import construction
from paralign.worker.protocol import SampleTraced, Trace
from paralign.worker.traces.tracing import Tracer
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session

#: seconds that looking through other samples may take
PATIENCE = 20.0


def trace(session: Session, writer: CaptureWriter, options: Trace, values: Dict[str, Capture]) -> SampleTraced:
    """Trace one sample of the data set, or one batch of a loader without one.

    Recorded: digests of the first samples as ``scan_<n>``; in run ``seed-<n>``: ``step_<n>`` for every step, with the line that made
    it and the records that it was made from, and the sample itself.
    """
    session.seed()
    with construction(_wanted) as built:
        building = Tracer(lambda value: _array(session, value), built.source)
        with building.watching():
            loader = session.function("build_dataloader")(options.split) if options.of == "loader" else None
            dataset = session.function("build_dataset")(options.split) if loader is None else loader
    inner = getattr(loader, "dataset", None)
    found: Any = inner if hasattr(inner, "__getitem__") else dataset
    answer = SampleTraced(
        {"dataset": built.source(found) or built.source(dataset), "loader": built.source(loader)},
        length=len(found) if hasattr(found, "__len__") else None,
        batch=loader is not None and found is not inner,
    )
    for number, seed in enumerate(options.seeds):
        if number and _gives_once(found):
            found = session.function("build_dataset" if loader is None else "build_dataloader")(options.split)
        tracer = building.continued()
        with _drawing(session, writer, options, values.get("draws")) if options.draws and not number else nullcontext():
            sample = _taken(session, found, options.index, redrawn.seed_of(session, options.index) if options.draws else seed, tracer)
        _record(session, writer, tracer, sample, f"seed-{number}")
        answer.exhausted = answer.exhausted or tracer.exhausted
    _scan(session, writer, found, options.scan)
    return answer


@contextmanager
def _drawing(session: Session, writer: CaptureWriter, options: Trace, given: Optional[Capture]) -> "Iterator[None]":
    """Record what is drawn inside; or put what the other side has drawn in its place."""
    tape = Tape(session, None if given is None else redrawn.read(given, options.index))
    with tape.running():
        yield
    if given is None:
        redrawn.record(writer, options.index, tape.draws)


def _gives_once(dataset: Any) -> bool:
    """Whether a data set or loader is an iterator, which gives its samples once."""
    return hasattr(dataset, "__next__") and not hasattr(dataset, "__getitem__")


def _wanted(made: Any) -> bool:
    return callable(made) or hasattr(type(made), "__getitem__") or hasattr(type(made), "__iter__")


def _array(session: Session, value: Any) -> "Optional[Typed]":
    """A value as an array; None for text and for what holds none."""
    if value is None or isinstance(value, (str, bytes, type)) or callable(value):
        return None
    try:
        if isinstance(value, (list, tuple)):
            texts = value and isinstance(value[0], str)
            value = np.asarray([zlib.crc32(os.path.basename(v).encode("utf-8", "surrogateescape")) for v in value] if texts else value)
        found = to_value(value, session.adapter)
    except (UnsupportedTensor, ValueError):  # a list of lists of different lengths is no array
        return None
    return found if not isinstance(found, str) else None


def _taken(session: Session, dataset: Any, index: int, seed: int, tracer: Tracer) -> Any:
    """The sample, taken while the tracer watches."""
    session.adapter.seed(seed)
    if hasattr(dataset, "__getitem__"):
        with tracer.watching():
            return dataset[index]
    rest = itertools.islice(iter(dataset), index, None)
    with tracer.watching():
        for sample in rest:
            return sample
    raise UsageError(f"there is no sample {index}", where=session.side, hint="the data set gives fewer samples than it did before")


def _record(session: Session, writer: CaptureWriter, tracer: Tracer, sample: Any, run: str) -> None:
    ids: List[int] = []
    for step in tracer.steps:
        record = writer.add(
            f"step_{step.number}",
            step.value,
            role="sample",
            run=run,
            op=step.op,
            source=step.source,
            inputs=tuple(ids[n] for n in step.inputs),
            attrs={"kind": step.kind, "number": step.number, "function": step.function},
        )
        ids.append(record.id)
    for path, leaf in leaves(sample, session.adapter.is_tensor):
        made = tracer.result[path] if path in tracer.result else _alike(session, tracer, leaf)
        add_leaves(session, writer, "sample" + (f".{path}" if path else ""), leaf, run=run, attrs={"made": made})


def _alike(session: Session, tracer: Tracer, leaf: Any) -> Optional[int]:
    """The last step that holds the same values, for a leaf that was wrapped on its way out."""
    value = _array(session, leaf)
    if value is None:
        return None
    equal = (s.number for s in reversed(tracer.steps) if s.value.dtype == value.dtype and np.array_equal(s.value.array, value.array))
    return next(equal, None)


def _scan(session: Session, writer: CaptureWriter, dataset: Any, count: int) -> None:
    """Digests of the first samples, to recognise one of the other side among them."""
    if not count or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return
    began = time.perf_counter()
    for index in range(min(count, len(dataset))):
        if time.perf_counter() - began > PATIENCE:
            return
        session.seed()
        for path, leaf in leaves(dataset[index], session.adapter.is_tensor):
            value = _array(session, leaf)
            if value is not None and value.array.size > 1:
                writer.add(f"scan_{index}", value, role="sample", leaf=path, digest=moments(value), keep=False)
