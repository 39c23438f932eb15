"""How fast a data loader is, and how much of its batches is padding.

It is timed beside a training step, and with other numbers of workers.
"""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from paralign.errors import UnsupportedTensor
from paralign.worker.datasets.loaders import rebuilt
from paralign.worker.protocol import LoaderTimed, LoaderTold, Loading, Memory, Padding
from paralign.worker.trainings.memory import step_of
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: batches that are timed for each number of workers, after the first and those that the workers have ready by then
BATCHES = 30

#: batches that a worker reads ahead where a loader does not say: PyTorch's default and Paddle's
AHEAD = 2

#: share of rows that have to end in the number that pads; how often it may stand within rows, as a part of its places behind them:
#: ids that are drawn at random end in any number now and then, and have it inside as well
SHORT, INSIDE = 0.1, 0.01

#: steps that are timed, after one that builds kernels
STEPS = 5


def loading(session: Session, writer: CaptureWriter, options: Loading, values: Dict[str, Capture]) -> LoaderTold:  # noqa: ARG001 - every task has these
    """Read the loader with several numbers of workers, and time a training step."""
    session.seed()
    loader = session.function("build_dataloader")(options.split)
    told = getattr(loader, "num_workers", None)
    own = told if isinstance(told, int) else None
    answer = LoaderTold(own, _cores())
    seen: List[Any] = []
    answer.tried.append(_timed_own(loader, own, options.seconds, seen))
    for workers in options.workers:
        if workers == own:
            continue
        try:
            other = longer(loader, workers)
            if other is not None:
                answer.tried.append(_timed(other, workers, options.seconds, []))
        except Exception as error:  # noqa: BLE001 - the user's data set may not bear other processes, or a second round, in any way
            answer.failed[str(workers)] = f"{type(error).__name__}: {error}"
    if values:
        answer.step = _step_seconds(session, values)
    answer.padding = padding(session, seen)
    return answer


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def longer(loader: Any, workers: int) -> Any:
    """The same loader with another number of workers; None where it cannot be made.

    One that goes by indices has batches enough for a timing.
    """
    made = rebuilt(loader, workers, _enough(loader, workers))
    return _streamed(loader, workers) if made is None else made


def _streamed(loader: Any, workers: int) -> Any:
    """The same loader of a data set without indices: of a batch size, no sampler."""
    dataset = getattr(loader, "dataset", None)
    size = getattr(loader, "batch_size", None) or getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    if size is None or not hasattr(dataset, "__iter__") or not hasattr(loader, "num_workers"):
        return None
    given = {
        "num_workers": workers,
        "collate_fn": getattr(loader, "collate_fn", None),
        "drop_last": bool(getattr(loader, "drop_last", False)),
    }
    try:
        return type(loader)(dataset, batch_size=size, **given)
    except Exception:  # noqa: BLE001 - as above
        return None


def _enough(loader: Any, workers: int) -> Optional[List[Any]]:
    """Batches of indices that suffice for a timing; None where a loader tells none.

    Workers have as many under way when the time is stopped as when it is started.
    """
    sampler: Any = getattr(loader, "batch_sampler", None)
    needed = BATCHES + 1 + 2 * workers * AHEAD
    batches = list(islice(iter(sampler), needed)) if hasattr(sampler, "__iter__") else []
    return list(islice(cycle(batches), needed)) or None


def _timed_own(loader: Any, own: Optional[int], seconds: float, seen: List[Any]) -> LoaderTimed:
    """Seconds a batch of the loader as it is.

    One that ends too early gives its batches again, as those with other numbers of workers do: times of a few batches hold the start.
    """
    began = time.perf_counter()
    first = _timed(loader, own, seconds, seen)
    if own is not None and first.batches <= BATCHES and time.perf_counter() - began < seconds:
        try:
            other = rebuilt(loader, own, _enough(loader, own))
            again = None if other is None else _timed(other, own, seconds, [])
        except Exception:  # noqa: BLE001 - the user's sampler or data set may not bear a second round
            again = None
        if again is not None and again.batches > first.batches:
            return again
    return first


def _timed(loader: Iterable[Any], workers: Optional[int], seconds: float, seen: List[Any]) -> LoaderTimed:
    """Seconds a batch in the long run.

    While workers make the first batch they make others as well, which then seem to cost nothing: these are not timed. Where a loader has
    no more than these, the time from the start is taken, which starts the workers too. Batches are kept in ``seen``.
    """
    ready = (workers or 0) * (getattr(loader, "prefetch_factor", None) or AHEAD)
    began, times = time.perf_counter(), []
    for batch in loader:
        times.append(time.perf_counter())
        if len(seen) < BATCHES:
            seen.append(batch)
        if len(times) > BATCHES + ready or times[-1] - began > seconds:
            break
    after = times[ready:]
    counted = after if len(after) > ready or not ready else [began, *times]
    steady = np.diff(counted)
    return LoaderTimed(
        workers,
        batches=len(counted) if counted is after else len(times),
        first=times[0] - began if times else None,
        seconds=float(np.mean(steady)) if len(steady) else None,
        spread=float(np.std(steady)) if len(steady) else None,
    )


def _step_seconds(session: Session, values: Dict[str, Capture]) -> Optional[float]:
    """Seconds of a training step, or of a forward pass where the side has no loss."""
    what = "step" if {"loss", "build_optimizer"} <= set(session.functions) and "labels" in values else "forward"
    with session.untouched():
        session.adapter.train(session.model, "train")
        act, _ = step_of(session, Memory(what, STEPS, 1), values)
        act()
        began = time.perf_counter()
        for _ in range(STEPS):
            act()
        return (time.perf_counter() - began) / STEPS


# -- padding -----------------------------------------------------------------------------------------------------------------------


def padding(session: Session, batches: List[Any]) -> List[Padding]:
    """The share of padding in rows of whole numbers, one entry a leaf that has any.

    Beside it, the share that batches of sorted rows would have.
    """
    rows: Dict[str, List[Any]] = {}
    for batch in batches:
        for path, leaf in leaves(batch, session.adapter.is_tensor):
            try:
                value = to_value(leaf, session.adapter)
            except UnsupportedTensor:
                continue
            if not isinstance(value, str) and value.array.ndim == 2 and value.array.dtype.kind in "iu":  # noqa: PLR2004 - rows of ids
                rows.setdefault(path, []).append(value.array)
    found = []
    for path, arrays in rows.items():
        shares = padded(arrays)
        if shares is not None:
            found.append(Padding(path, *shares, batches=len(arrays)))
    return found


def padded(arrays: List[Any]) -> "Optional[Tuple[float, float, int]]":
    """The share of padding, that of sorted rows, and the number that pads.

    None where rows do not end in one and the same number: at least a tenth of the rows have to, at different places.

    >>> share, after, mark = padded([np.array([[5, 6, 7, 8], [5, 0, 0, 0]]), np.array([[3, 4, 5, 6], [7, 0, 0, 0]])])
    >>> round(share, 3), round(after, 3), mark
    (0.375, 0.0, 0)
    """
    arrays = [array for array in arrays if array.size]
    if not arrays:
        return None
    lasts = np.concatenate([array[:, -1] for array in arrays])
    marks, counts = np.unique(lasts, return_counts=True)
    mark = marks[int(np.argmax(counts))]
    lengths = [_lengths(a, mark) for a in arrays]
    every = np.concatenate(lengths)
    short = every < np.concatenate([np.full(len(a), a.shape[1]) for a in arrays])
    padding_places = sum(a.size for a in arrays) - int(every.sum())
    inside = sum(int((a == mark).sum()) for a in arrays) - padding_places
    if short.mean() < SHORT or len(np.unique(every)) < 2 or inside > INSIDE * padding_places:  # noqa: PLR2004 - several lengths
        return None
    total = sum(a.size for a in arrays)
    ordered, after, place = np.sort(every), 0, 0
    for array in arrays:
        part = ordered[place : place + len(array)]
        after += len(part) * int(part.max())
        place += len(array)
    tokens = int(every.sum())
    return 1 - tokens / total, 1 - tokens / max(1, after), int(mark)


def _lengths(array: Any, mark: Any) -> Any:
    """Length of each row without the run of ``mark`` at its end."""
    other = array != mark
    return np.where(other.any(1), array.shape[1] - np.argmax(other[:, ::-1], 1), 0)
