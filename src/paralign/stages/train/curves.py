"""The curves of one training, recorded by a worker or read from a log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.trainlog.lines import EVAL, TRAIN
from paralign.worker.protocol import Train, Trained
from paralign.worker.trainings.watchedlog import RATE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.training import Log

Array = np.ndarray[Any, Any]

#: names that logs use for the learning rate
RATES = (RATE, "lr", "learning_rate", "LR")

#: parts of the names of figures of which less is better
COSTS = ("loss", "error", "err", "mse", "mae", "rmse", "perplexity", "ppl", "fid", "distance", "wer", "cer")

#: those of them that never count samples
CONTINUOUS = ("loss", "mse", "mae", "rmse", "perplexity", "ppl", "fid", "distance")


@dataclass
class Run:
    """One training.

    Args:
        places: kind (``TRAIN``, ``EVAL``) -> epoch and number of the batch (of the step before it), shape ``(rows, 2)``.
        curves: kind and figure -> one value a row, NaN where the log has none.
        samples: samples of each batch, 0 where that is not told.
        costs: seconds that reading each batch took, and the whole step, shape ``(steps, 2)``; NaN where not timed.
        answer: what the worker said of the run; None for a log.
        name: what it is called in texts.
        printed: the values went through a text, so that their last digits are lost.
    """

    places: dict[str, Array]
    curves: dict[tuple[str, str], Array]
    samples: Array
    costs: Array
    answer: Trained | None = None
    name: str = ""
    printed: bool = False

    @property
    def stopped(self) -> tuple[str, str]:
        """Kind of and reason for an early end; both '' for a training that came to its end."""
        return ("", "") if self.answer is None else self.answer.stopped

    @property
    def lines(self) -> dict[str, str | None]:
        """``model``, ``optimizer`` -> the line that logged it; nothing for a log."""
        return {} if self.answer is None else self.answer.lines

    @property
    def steps(self) -> int:
        """How many steps it made."""
        return len(self.places[TRAIN])

    @property
    def rate(self) -> Array | None:
        """The rate of every step, as the optimizer told it, else as the log was told.

        None where neither was.
        """
        for name in RATES:
            if (TRAIN, name) in self.curves:
                return self.curves[TRAIN, name]
        return None

    def by_epoch(self, kind: str, figure: str) -> dict[int, float]:
        """A figure epoch by epoch: the mean of its steps, or of its evaluations."""
        values, epochs = self.curves[kind, figure], self.places[kind][:, 0]
        return {int(epoch): float(np.mean(values[epochs == epoch])) for epoch in np.unique(epochs[np.isfinite(values)])}

    def end(self, kind: str, figure: str, epoch: int | None = None) -> float:
        """A figure at its end: the last evaluation, or the mean of the last epoch's steps.

        Of an earlier ``epoch`` where one is told.
        """
        values, epochs = self.curves[kind, figure], self.places[kind][:, 0]
        if epoch is not None:
            values, epochs = values[epochs <= epoch], epochs[epochs <= epoch]
        if not len(values):
            return math.nan
        return float(values[-1]) if kind == EVAL else float(np.mean(values[epochs == epochs[-1]]))


def of_capture(capture: Capture, name: str = "") -> Run:
    """What a worker recorded of a training."""
    curves = {(r.run, r.leaf): np.array(capture.array(r)) for r in capture.select(name="curve")}
    places = {r.run: np.array(capture.array(r)) for r in capture.select(name="place")}
    (cost,) = (np.array(capture.array(r)) for r in capture.select(name="cost"))
    return Run(places, curves, cost[:, 0], cost[:, 1:], Train.answer(capture), name)


def of_log(log: Log) -> Run:
    """What a log says."""
    curves, places = {}, {}
    for kind in (TRAIN, EVAL):
        rows = [row for row in log.rows if row.kind == kind]
        places[kind] = np.array([(row.epoch, row.iteration) for row in rows], np.int64).reshape(-1, 2)
        for name in dict.fromkeys(name for row in rows for name in row.values):
            curves[kind, name] = np.array([row.values.get(name, math.nan) for row in rows])
    samples, costs = [], []
    for row in log.rows:
        if row.kind != TRAIN:
            continue
        timed = row.batch_cost > 0
        samples.append(row.samples)
        costs.append((row.reader_cost, row.batch_cost) if timed else (math.nan, math.nan))
    measured = np.array(costs, np.float64).reshape(-1, 2)
    return Run(places, curves, np.array(samples, np.float64), measured, name=log.path.name, printed=True)


def common(runs: list[Run]) -> list[tuple[str, str]]:
    """Kind and figure that all runs have, in the order of the first, learning rates left out."""
    return [key for key in runs[0].curves if all(key in run.curves for run in runs) and not is_rate(key[1])]


def is_rate(figure: str) -> bool:
    """Whether a figure is a learning rate."""
    return figure in RATES or figure.partition(".")[0] == RATE


def is_continuous(figure: str) -> bool:
    """Whether a figure, by its name, is none that counts samples.

    A share of errors may count, a mean square does not.
    """
    words = figure.lower().replace("-", "_").split("_")
    return any(word in CONTINUOUS or word.endswith("loss") for word in words)


def is_cost(figure: str) -> bool:
    """Whether less of a figure is better, as its name says."""
    words = figure.lower().replace("-", "_").split("_")
    return any(word in COSTS or word.endswith("loss") for word in words)
