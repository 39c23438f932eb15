"""The first steps of a side's own ``train(log)``, run rewritten.

What made its model, its optimizer, and what each step left.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, List

from paralign.adapters.base import Training
from paralign.worker.optimization.schedule import schedule_of
from paralign.worker.protocol import Train
from paralign.worker.steps.own_step import before_updates
from paralign.worker.trainings.watchedlog import Stopped, WatchedLog

if TYPE_CHECKING:
    from paralign.worker.provenance.run import Run


class TracedLog(WatchedLog):
    """A watched log that keeps, of each step, what made the tensors that are asked for."""

    def __init__(self, run: Run, folder: str) -> None:
        orders = Train(run.session.base_seed, steps=run.options.steps, quiet=True)
        super().__init__(run.session, run.writer, orders, run.captures, folder)
        self._run, self._updates = run, ExitStack()

    def model(self, model: Any) -> Any:
        """The model that is trained; all that was recorded before belongs to its construction."""
        given = super().model(model)
        for path, module in self._session.adapter.modules(given) if len(self.models) == 1 else ():
            self._run.root(f"module:{path}", self._run.recorder.made_by(module))
        self._run.root("model", len(self._run.recorder.events) - 1)
        return given

    def optimizer(self, optimizer: Any, scheduler: Any = None) -> Any:
        """An optimizer of the training, with the event that constructed it."""
        if not self.optimizers:
            self._run.root("optimizer", self._run.recorder.made_by(optimizer))
            self._run.root("scheduler", self._run.recorder.made_by(schedule_of(optimizer, scheduler)))
        return super().optimizer(optimizer, scheduler)

    def _begin(self, batch: Any, epoch: int, number: int) -> None:
        super()._begin(batch, epoch, number)
        step, run = len(self.steps), self._run
        run.root(f"step:{step}", len(run.recorder.events) - 1)
        run.root(f"begin:{step}", len(run.recorder.events))
        run.rates.append(list(self._rates))
        if self.models and isinstance(self._session.adapter, Training):
            note = partial(run.gradients_of, f"gradient:{step}", self.models[0], self._tensors())
            self._updates.enter_context(before_updates(self.optimizers, note))

    def _end(self, epoch: int, number: int) -> None:
        self._updates.close()
        self._run.values(f"after:{len(self.steps)}", {entry.name: entry.tensor for entry in self._tensors()})
        super()._end(epoch, number)

    def _tensors(self) -> List[Any]:
        return [entry for entry in self.entries() if entry.name in self._run.options.names]

    def close_watches(self) -> None:
        """Stop watching, whatever ended the training."""
        self._updates.close()
        super().close_watches()


def train(run: Run) -> None:
    """Run the first ``steps`` of the training, without dropout.

    They begin with the given weights, and take the given batches.
    """
    with tempfile.TemporaryDirectory(prefix="paralign-train-") as folder:
        log = TracedLog(run, folder)
        run.session.adapter.seed(log.seed)
        try:
            run.recorder.run(run.functions["train"], {"log": log})
        except Stopped:
            pass
        finally:
            log.close_watches()
