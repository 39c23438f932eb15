"""Watch a training that breaks down now and then.

Stop it, go back to the last good checkpoint, keep samples on the way.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from paralign.errors import ParalignError, UsageError
from paralign.trainlog.band import Band, Parted
from paralign.trainlog.lines import TRAIN, Row
from paralign.trainlog.log import number


class Unstable(ParalignError):
    """A training has broken down more often than it may."""


class Watchdog:
    """Ends a training at a limit or a NaN, or has it go on from the last good checkpoint.

    A checkpoint is written while all figures are finite and within their limits; earlier ones stay. The order of batches and random
    numbers after going back are the training's own business: where both are the same again, so is the breakdown.

    Args:
        save: ``save(path)`` writes all that the training needs: model, optimizers, schedules.
        load: ``load(path)`` reads it back.
        folder: where checkpoints and samples go.
        limits: figure -> its greatest absolute value.
        every: steps between two checkpoints.
        retries: how often the training may go back; 0 for a training that is to end at once.
        samples: ``samples(path)`` writes samples, as a grid of pictures; None for none.
        samples_every: steps between two of them.
        against: the band of the reference's trainings, whose logs tell the step as the batch of epoch 0; a training that leaves it ends
            with :class:`~paralign.trainlog.Parted`: going back would not mend it.

    Raises:
        UsageError: a number of steps below 1, or retries below 0.

    Example:
        >>> import tempfile
        >>> kept = {}
        >>> dog = Watchdog(lambda path: kept.update(saved=True), lambda path: None, tempfile.mkdtemp(), limits={"loss": 10.0}, every=2)
        >>> [dog.step(0, loss=1.0), dog.step(1, loss=1.0), dog.step(2, loss=99.0)]
        [1, 2, 2]
        >>> dog.reports
        ['step 2: loss is 99, its limit 10; back to the checkpoint after step 1']
    """

    def __init__(
        self,
        save: Callable[[str], Any],
        load: Callable[[str], Any],
        folder: str = "checkpoints",
        *,
        limits: Optional[Dict[str, float]] = None,
        every: int = 500,
        retries: int = 3,
        samples: Optional[Callable[[str], Any]] = None,
        samples_every: int = 500,
        against: Optional[Band] = None,
    ) -> None:
        if min(every, samples_every) < 1 or retries < 0:
            raise UsageError(
                "every and samples_every must be at least 1, retries at least 0", hint="the numbers of steps between two files"
            )
        self.reports: List[str] = []
        self.left = retries
        self._save, self._load, self._samples = save, load, samples
        self._folder, self._limits = Path(folder), dict(limits or {})
        self._every, self._samples_every, self._against = every, samples_every, against
        self._last: Optional[int] = None

    def path(self, step: int) -> str:
        """The checkpoint after a step."""
        return str(self._folder / f"step_{step}")

    def step(self, step: int, **values: Any) -> int:
        """Look at a step's figures (numbers, or tensors of one element).

        Returns:
            The number of the step to go on with: the next, or after a breakdown the one that follows the last good checkpoint.

        Raises:
            Unstable: a breakdown without a checkpoint to go back to, or after all retries.
            Parted: the figures have left the reference's band.
        """
        figures = {name: number(name, value) for name, value in values.items()}
        wrong = self._wrong(figures)
        if wrong:
            return self._back(step, wrong)
        left = "" if self._against is None else self._against.look(Row(TRAIN, 0, step, figures))
        if left:
            raise Parted(left, hint="compare the two programs up to there, or give a wider band")
        if (step + 1) % self._every == 0:
            self._keep(step)
        if self._samples is not None and (step + 1) % self._samples_every == 0:
            folder = self._folder / "samples"
            folder.mkdir(parents=True, exist_ok=True)
            self._samples(str(folder / f"step_{step}"))
        return step + 1

    def _wrong(self, values: Dict[str, float]) -> str:
        for name, value in values.items():
            if not math.isfinite(value):
                return f"{name} is {value}"
            if abs(value) > self._limits.get(name, math.inf):
                return f"{name} is {value:g}, its limit {self._limits[name]:g}"
        return ""

    def _keep(self, step: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._save(self.path(step))
        self._last = step

    def _back(self, step: int, wrong: str) -> int:
        if self._last is None or self.left == 0:
            why = "there is no checkpoint yet" if self._last is None else "it went back as often as it may"
            raise Unstable(
                f"the training broke down at step {step}: {wrong}; {why}", hint="a smaller rate, clipping, or a checkpoint sooner"
            )
        self.left -= 1
        self._load(self.path(self._last))
        self.reports.append(f"step {step}: {wrong}; back to the checkpoint after step {self._last}")
        sys.stderr.write(self.reports[-1] + "\n")
        return self._last + 1
