"""A side whose objects live in this process: the same jobs, without a worker."""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, Any

from paralign.errors import ParalignError, WorkerFailed
from paralign.worker.frames import user_frames
from paralign.worker.session import Session
from paralign.worker.tasks import perform
from paralign.worker.training import trainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import Side

#: one job at a time in this process: sides share its generators of random numbers, and often a framework's settings
_WORKING = threading.Lock()


class Live:
    """Jobs on live objects; the model is given back as it was on :meth:`close`."""

    def __init__(self, name: str, side: Side, *, seed: int) -> None:
        self.side = name
        self._session = Session(name, functions_of(side, self._parameters), side.framework, device=side.device, seed=seed, live=True)

    def _parameters(self, model: Any) -> list[Any]:
        return trainer(self._session).parameters(model)

    @property
    def alive(self) -> bool:
        """Always: what happens to this side happens to this process."""
        return True

    def request(self, job: dict[str, Any]) -> dict[str, Any]:
        """Do a job; waits for that of another live side, which seeds and draws from the same generators.

        Raises:
            WorkerFailed: the side's code raised.
        """
        try:
            with _WORKING:
                return perform(self._session, job)
        except ParalignError as error:
            raise WorkerFailed(type(error).__name__, str(error), side=self.side) from error
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            raise WorkerFailed(type(error).__name__, str(error), traceback=text, side=self.side, frames=user_frames(error)) from error

    def close(self) -> None:
        """Give the model back as it was."""
        self._session.close()


def functions_of(side: Side, parameters: Callable[[Any], list[Any]]) -> dict[str, Callable[..., Any]]:
    """The functions of a side given as live objects, under the names that a side's module would use.

    Args:
        side: the live objects.
        parameters: gives a model's parameters as its framework's optimizers take them.
    """
    functions: dict[str, Callable[..., Any]] = dict(side.functions)
    if side.model is not None:
        functions["build_model"] = lambda: side.model
    if side.optimizer is not None:
        make = side.optimizer
        functions["build_optimizer"] = lambda model: make(parameters(model))
    named = {
        "loss": side.loss,
        "build_scheduler": side.scheduler,
        "metric": side.metric,
        "build_dataset": side.dataset,
        "build_dataloader": side.dataloader,
        "transforms": side.transforms,
        "predict": side.predict,
        "export": side.export,
    }
    functions.update({name: function for name, function in named.items() if function is not None})
    return functions
