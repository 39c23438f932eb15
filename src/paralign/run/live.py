"""A side whose objects live in this process: the same jobs, without a worker."""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, Any

from paralign.errors import ParalignError, UsageError, WorkerFailed
from paralign.registry import SIGNATURES
from paralign.worker.frames import user_frames
from paralign.worker.session import Session
from paralign.worker.tasks import perform
from paralign.worker.training import trainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import Side

#: one job at a time in this process: sides share its generators of random numbers, and often a framework's settings
_WORKING = threading.Lock()

#: argument of :class:`Side` that is a function -> how it is called
CALLED = {
    "optimizer": "optimizer(parameters) -> optimizer",
    **{argument: SIGNATURES[argument] for argument in ("loss", "metric", "predict", "transforms", "export")},
    **{argument: SIGNATURES[f"build_{argument}"] for argument in ("scheduler", "dataset", "dataloader")},
}


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


def check_functions(name: str, side: Side) -> None:
    """Refuse an object where a function is expected: an optimizer, say, that belongs to some other copy of the weights.

    Raises:
        UsageError: such an object.
    """
    given = [(argument, getattr(side, argument), signature) for argument, signature in CALLED.items()]
    given += [(f"functions[{key!r}]", function, SIGNATURES[key]) for key, function in side.functions.items() if key in SIGNATURES]
    for argument, function, signature in given:
        if function is not None and not callable(function):
            raise UsageError(
                f"the {name}'s {argument} must be a function, {signature}, not {_article(type(function).__name__)}",
                where=f"Side({argument.partition('[')[0]}=...)",
                hint=f"give what makes it, such as `lambda parameters: SGD(parameters, 0.1)`: {signature}"
                if argument == "optimizer"
                else f"give a function: {signature}",
            )


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
