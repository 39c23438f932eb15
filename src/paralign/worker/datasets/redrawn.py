"""Samples made with draws: recorded, replaced by another side's, or taken many times."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from paralign.adapters._drawing import Kind
from paralign.dtypes import widen
from paralign.errors import UnsupportedTensor
from paralign.worker.datasets import whole
from paralign.worker.datasets.data import add_leaves
from paralign.worker.draws.tape import Draw, Tape
from paralign.worker.protocol import Redrawn, Replayed
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: numbers that are kept of the draws of all samples: 256 MB
DRAWN = 1 << 25

_KINDS = list(Kind)

#: figures of a value that is drawn many times
FIGURES = ("mean", "deviation", "size", "mean of the first half", "first element")


def replayed(session: Session, writer: CaptureWriter, options: Replayed, values: Dict[str, Capture]) -> Redrawn:
    """Make samples, and record what was drawn for them.

    Another side's draws (``values["draws"]``) take the place of their own where they are given.

    Recorded as ``sample_<n>``; draws as ``draw_<n>`` of step 0, 1, …; where each is drawn many times, ``figures_<n>`` of shape
    (times, figures) in place of all else. Every sample, and every turn, has a seed of its own.
    """
    given = values.get("draws")
    answer = Redrawn()
    session.seed()
    dataset = session.function("build_dataset")(options.split)
    for index in options.indices:
        if options.times:
            _record_figures(session, writer, dataset, index, options.times, options.patience / len(options.indices))
            continue
        tape = Tape(session, None if given is None else read(given, index))
        session.adapter.seed(seed_of(session, index))
        with tape.running():
            sample = dataset[index]
        add_leaves(session, writer, f"sample_{index}", sample)
        answer.draws[str(index)] = len(tape.draws)
        if tape.apart:
            answer.misfits[str(index)] = tape.apart
        if given is None:
            record(writer, index, tape.draws)
    if options.every:
        answer.failed = _every(session, writer, dataset, options, given)
    return answer


def _every(session: Session, writer: CaptureWriter, dataset: Any, options: Replayed, given: Optional[Capture]) -> Dict[str, str]:
    """Fingerprint every sample as ``replayed``, as many as time allows; tell the unreadable.

    What was drawn for each is recorded.

    With another side's draws in place, of the samples for which that side recorded them; one whose draws are others is left out.
    """
    known = None if given is None else read_all(given)
    found, drawn, tape = whole.Fingerprints(session), _Drawn(), Tape(session)
    began = time.perf_counter()
    with tape.running():
        for index in _indices(dataset, options) if known is None else known:
            if time.perf_counter() - began > options.patience or len(found.failed) >= whole.FAILURES or drawn.size > DRAWN:
                break
            tape.start(None if known is None else known[index])
            session.adapter.seed(seed_of(session, index))
            try:
                sample = dataset[index]
            except Exception as error:  # noqa: BLE001 - the user's data set may fail in any way; the caller compares who failed
                found.failing(index, error)
                continue
            draws, apart = tape.draws, tape.apart
            tape.start(None)  # taking fingerprints is none of the sample's
            if not apart:
                found.add(index, sample)
                drawn.add(index, draws)
    found.write(writer, "replayed", len(dataset))
    if known is None:
        drawn.write(writer)
    return found.failed


def _indices(dataset: Any, options: Replayed) -> "Iterable[int]":
    """All samples, spread over the set: where time ends, both sides have read the same ones."""
    most = len(dataset) if options.most is None else min(options.most, len(dataset))
    return (int(index) for index in np.random.RandomState(0).permutation(most)[: whole.MOST])


class _Drawn:
    """The draws of many samples, in two arrays."""

    def __init__(self) -> None:
        self._layout: List[Tuple[int, int, int, int]] = []
        self._values: List[Any] = []
        self.size = 0

    def add(self, index: int, draws: List[Draw]) -> None:
        """Take in what was drawn for one sample; of none, a row of its own says so."""
        self._layout += [(index, _KINDS.index(draw.kind), draw.span, draw.values.size) for draw in draws] or [(index, -1, 0, 0)]
        self._values += [np.asarray(draw.values, np.float64).ravel() for draw in draws]
        self.size += sum(draw.values.size for draw in draws)

    def write(self, writer: CaptureWriter) -> None:
        """Record ``draws.layout`` (index, kind, span, size) and ``draws.values``."""
        writer.add("draws.layout", np.array(self._layout, np.int64).reshape(-1, 4), role="state")
        writer.add("draws.values", np.concatenate([np.zeros(0), *self._values]), role="state")


def seed_of(session: Session, index: int, turn: int = 0) -> int:
    """The seed under which a sample is drawn, another for every sample and turn.

    What one seed draws is a single case.
    """
    return (session.base_seed + 1009 * (index + 1) + 7919 * turn) % 2**32


def _record_figures(session: Session, writer: CaptureWriter, dataset: Any, index: int, times: int, until: float) -> None:
    found: Dict[str, List[Any]] = defaultdict(list)
    began = time.perf_counter()
    for turn in range(times):
        if turn and time.perf_counter() - began > until:
            break
        session.adapter.seed(seed_of(session, index, turn + 1))
        for path, leaf in leaves(dataset[index], session.adapter.is_tensor):
            try:
                value = to_value(leaf, session.adapter)
            except UnsupportedTensor:
                continue
            if not isinstance(value, str):
                found[path].append(_figures(np.asarray(widen(value).real, np.float64)))
    for path, rows in found.items():
        writer.add(f"figures_{index}", np.array(rows, np.float64), leaf=path, role="state")


def _figures(array: Any) -> List[float]:
    if not array.size:
        return [0.0] * len(FIGURES)
    flat = array.reshape(-1)
    return [float(flat.mean()), float(flat.std()), float(flat.size), float(flat[: max(1, flat.size // 2)].mean()), float(flat[0])]


def read_all(capture: Capture) -> Dict[int, List[Draw]]:
    """The draws of every sample that was read, in the order in which they were."""
    layout, values = (capture.array(capture.select(name=f"draws.{part}", role="state")[0]) for part in ("layout", "values"))
    found: Dict[int, List[Draw]] = {}
    place = 0
    for index, kind, span, size in layout.tolist():
        draws = found.setdefault(index, [])
        if kind >= 0:
            draws.append(Draw(_KINDS[kind], span, np.asarray(values[place : place + size]), "the reference"))
        place += size
    return found


def record(writer: CaptureWriter, index: int, draws: List[Draw]) -> None:
    """Record what was drawn for a sample."""
    for number, draw in enumerate(draws):
        fields = {"kind": draw.kind.value, "span": draw.span, "said": draw.said}
        writer.add(f"draw_{index}", np.asarray(draw.values, np.float64), role="state", step=number, attrs=fields)


def read(capture: Capture, index: int) -> List[Draw]:
    """The draws that were recorded for a sample."""
    records = sorted(capture.select(name=f"draw_{index}", role="state"), key=lambda r: r.step)
    return [Draw(Kind(r.attrs["kind"]), int(r.attrs["span"]), np.asarray(capture.array(r)), str(r.attrs["said"])) for r in records]
