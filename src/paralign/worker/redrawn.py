"""Samples made with draws: what was drawn for them, with another side's draws in place, or their figures over many draws."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

from paralign.adapters._drawing import Kind
from paralign.dtypes import widen
from paralign.errors import UnsupportedTensor
from paralign.worker.data import add_leaves
from paralign.worker.protocol import Redrawn, Replayed
from paralign.worker.tape import Draw, Tape
from paralign.worker.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.session import Session

#: figures of a value that is drawn many times
FIGURES = ("mean", "deviation", "size", "mean of the first half", "first element")


def replayed(session: Session, writer: CaptureWriter, options: Replayed, values: Dict[str, Capture]) -> Redrawn:
    """Samples with what was drawn for them, or with another side's draws in place of their own (``values["draws"]``).

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
        session.adapter.seed(_seed(session, index, 0))
        with tape.running():
            sample = dataset[index]
        add_leaves(session, writer, f"sample_{index}", sample)
        answer.draws[str(index)] = len(tape.draws)
        if tape.misfit or tape.left_over:
            count = len(tape.draws)
            answer.misfits[str(index)] = tape.misfit or f"it drew {count} times, the reference {count + tape.left_over} times"
        if given is None:
            for number, draw in enumerate(tape.draws):
                fields = {"kind": draw.kind.value, "span": draw.span, "said": draw.said}
                writer.add(f"draw_{index}", np.asarray(draw.values, np.float64), role="state", step=number, attrs=fields)
    return answer


def _seed(session: Session, index: int, turn: int) -> int:
    """Another one for every sample and every turn: what one seed draws would be a single case."""
    return (session.base_seed + 1009 * (index + 1) + 7919 * turn) % 2**32


def _record_figures(session: Session, writer: CaptureWriter, dataset: Any, index: int, times: int, until: float) -> None:
    found: Dict[str, List[Any]] = defaultdict(list)
    began = time.perf_counter()
    for turn in range(times):
        if turn and time.perf_counter() - began > until:
            break
        session.adapter.seed(_seed(session, index, turn + 1))
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


def read(capture: Capture, index: int) -> List[Draw]:
    """The draws that were recorded for a sample."""
    records = sorted(capture.select(name=f"draw_{index}", role="state"), key=lambda r: r.step)
    return [Draw(Kind(r.attrs["kind"]), int(r.attrs["span"]), np.asarray(capture.array(r)), str(r.attrs["said"])) for r in records]
