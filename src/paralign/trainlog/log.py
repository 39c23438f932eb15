"""Losses, rates and costs of a training, written as the guides want them.

Their own cost is not in the figures.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from paralign.errors import UsageError
from paralign.trainlog.band import Band, Parted
from paralign.trainlog.checkpoints import Checkpoints
from paralign.trainlog.lines import EVAL, STYLES, TRAIN, Row, as_json

#: environment variables that launchers set to the number of the process among all, in the order in which they are asked
RANKS = ("RANK", "PADDLE_TRAINER_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class TrainLog:
    """Writes the log of a training: lines for people, JSON lines for programs.

    Times are taken after the device has finished. The time that the log itself takes is in no figure, nor are the first batches of
    the training (``warmup``), which build kernels and fill caches. Only rank 0 writes. Each line is one write at the end of the
    file: a kill loses at most the line that was being written, and a resumed training goes on in the same file.

    Args:
        path: file of the lines; the JSON lines go beside it, ``train.log`` and ``train.jsonl``. None writes no file.
        every: batches between two lines.
        style: ``root`` or ``print``, the guide's two formats.
        show: print the lines too.
        warmup: batches at the start of the training whose times do not count.
        rank: number of this process; None asks the launcher's environment.
        synchronize: waits for the device; None takes that of the framework that is imported.
        seed: of the training, for ``train(log)``; nothing is seeded here.
        folder: where the training writes its checkpoints.
        resume: whether :meth:`resume` is to go on from one that lies there.
        against: the band of the reference's trainings; where a curve leaves it, the training ends with :class:`~paralign.trainlog.Parted`.

    Raises:
        UsageError: an unknown style, ``every`` below 1, or a file that cannot be written.

    Example:
        >>> log = TrainLog(None, every=2, style="print", show=False, rank=0)
        >>> for step, batch in log.batches([[1, 2], [3, 4], [5, 6]], epoch=0):
        ...     log.step(samples=len(batch), loss=sum(batch))
        >>> [(row.iteration, row.values["loss"]) for row in log.rows]
        [(1, 7.0), (2, 11.0)]
    """

    def __init__(
        self,
        path: Optional[str] = "train.log",
        *,
        every: int = 10,
        style: str = "root",
        show: bool = True,
        warmup: int = 1,
        rank: Optional[int] = None,
        synchronize: Optional[Callable[[], None]] = None,
        seed: int = 0,
        folder: str = ".",
        resume: bool = False,
        against: "Optional[Band]" = None,
    ) -> None:
        if style not in STYLES:
            raise UsageError(f"there is no style {style!r} of log lines", hint="choose one of: " + ", ".join(STYLES))
        if every < 1:
            raise UsageError(f"every must be at least 1, not {every}", hint="the number of batches between two lines")
        self.rank = own_rank() if rank is None else rank
        self.seed, self.folder, self.resuming = seed, folder, resume
        self.rows: List[Row] = []
        self._against, self._left = against, ""
        self._every, self._style, self._show, self._warmup = every, STYLES[style], show, warmup
        self._synchronize = synchronize or _wait_for_device
        self._files = [_opened(p) for p in (path, _beside(path))] if path is not None and self.rank == 0 else []
        self._interval = _Interval()
        self._own = 0.0  # seconds that the log itself took in the batch under way
        self._seen = 0
        self._at: Tuple[int, int] = (0, -1)

    def batches(self, loader: Iterable[Any], epoch: int) -> Iterator[Tuple[int, Any]]:
        """The batches of a loader with their numbers, timed.

        How long each took to be read, and to be computed with.
        """
        iterator = iter(loader)
        number = 0
        while True:
            began = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                break
            read = time.perf_counter() - began
            self._at, self._own = (epoch, number), 0.0
            try:
                yield number, batch
            except GeneratorExit:  # the loop was left: what it came to is written all the same
                self._write_interval()
                raise
            self._synchronize()
            self._timed(read, time.perf_counter() - began - self._own)
            number += 1
            if number % self._every == 0:
                self._write_interval()
                self._end_where_left()
        self._write_interval()
        self._end_where_left()

    def step(self, samples: int, **values: Any) -> None:
        """Note what a batch came to: its size, and figures such as ``loss``, ``lr``, ``acc``.

        Figures are numbers, or tensors of one element.
        """
        self._synchronize()
        began = time.perf_counter()
        self._interval.add(samples, {name: number(name, value) for name, value in values.items()})
        self._own += time.perf_counter() - began

    def model(self, model: Any) -> Any:
        """The model as it is; ``paralign check`` puts initial weights into it here."""
        return model

    def optimizer(self, optimizer: Any, scheduler: Any = None) -> Any:  # noqa: ARG002 - what a check looks at
        """The optimizer as it is; ``paralign check`` reads its rates."""
        return optimizer

    def evaluation(self, epoch: int, **values: Any) -> None:
        """What an evaluation came to."""
        self._write(Row(EVAL, epoch, -1, {name: number(name, value) for name, value in values.items()}))
        self._end_where_left()

    def checkpoint(self, epoch: int, save: Callable[[str], Any]) -> None:
        """Write ``model_N`` and ``latest`` below :attr:`folder`, on rank 0.

        See :class:`~paralign.trainlog.Checkpoints`.
        """
        Checkpoints(self.folder, self.rank).write(epoch, save)

    def resume(self, load: Callable[[str], Any]) -> int:
        """The epoch to begin with, 0 unless ``resume=True``.

        Then it is the one after the checkpoint that is loaded.
        """
        return Checkpoints(self.folder, self.rank).resume(load) if self.resuming else 0

    def close(self) -> None:
        """Close the files; what was written is there whether this is called or not."""
        for file in self._files:
            os.close(file)
        self._files = []

    def __enter__(self) -> "TrainLog":  # noqa: PYI034 - Self needs Python 3.11, or a package
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_where_left(self) -> None:
        if self._left:
            self._part(self._left)

    def _part(self, why: str) -> None:
        """End the training.

        Raises:
            Parted: always.
        """
        raise Parted(why, hint="what comes next would be trained for nothing: compare the two programs up to there, or give a wider band")

    def _timed(self, read: float, whole: float) -> None:
        self._seen += 1
        if self._seen > self._warmup:
            self._interval.timed += 1
            self._interval.reader_cost += read
            self._interval.batch_cost += whole
            self._interval.timed_samples += self._interval.last_samples

    def _write_interval(self) -> None:
        now, self._interval = self._interval, _Interval()
        if now.batches == 0:
            return
        timed = max(now.timed, 1)
        ips = now.timed_samples / now.batch_cost if now.batch_cost > 0 else 0.0
        self._write(Row(TRAIN, *self._at, now.last, now.samples / now.batches, now.reader_cost / timed, now.batch_cost / timed, ips))

    def _write(self, row: Row) -> None:
        row.time = time.time()
        self.rows.append(row)
        if self._against is not None and not self._left:
            self._left = self._against.look(row)
        if self.rank != 0:
            return
        line = self._style(row)
        for file, text in zip(self._files, (line, as_json(row))):
            os.write(file, (text + "\n").encode("utf-8"))
        if self._show:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class _Interval:
    """What has been seen since the last line."""

    def __init__(self) -> None:
        self.batches = self.timed = 0
        self.samples = self.last_samples = self.timed_samples = 0
        self.reader_cost = self.batch_cost = 0.0
        self.last: Dict[str, float] = {}

    def add(self, samples: int, values: Dict[str, float]) -> None:
        self.batches += 1
        self.samples += samples
        self.last_samples = samples
        self.last = values


def number(name: str, value: Any) -> float:
    """A figure as a number: that of a tensor of one element too.

    Raises:
        UsageError: it is no number, or a tensor of several.
    """
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{name} is no single number: {error}", hint="give a number, or a tensor of one element") from error


def own_rank() -> int:
    """The number of this process as its launcher says it; 0 where none does."""
    for name in (*RANKS, "LOCAL_RANK"):
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return 0


def _beside(path: Optional[str]) -> str:
    return str(Path(str(path)).with_suffix(".jsonl"))


def _opened(path: str) -> int:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(f"the log cannot be written: {error.strerror}", where=str(path), hint="name another file") from error


def _wait_for_device() -> None:
    from paralign.adapters.finding import imported, load

    for name in imported():
        wait = getattr(load(name), "synchronize", None)
        if wait is not None:
            wait()
