"""A side whose objects live in this process: the same jobs, without a worker."""

from __future__ import annotations

import random
import traceback
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.adapters import finding
from paralign.adapters._operations import nested
from paralign.adapters.base import Lending
from paralign.errors import ParalignError, UsageError, WorkerFailed
from paralign.registry import SIGNATURES
from paralign.run.borrowing import Borrowed
from paralign.worker.sides.frames import user_frames
from paralign.worker.sides.session import Session
from paralign.worker.sides.stateful import is_stateful
from paralign.worker.steps.training import trainer
from paralign.worker.tasks import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from paralign.model import Side
    from paralign.worker.protocol import Job

#: argument of :class:`Side` that is a function -> how it is called
CALLED = {
    "optimizer": "optimizer(parameters) -> optimizer",
    **{argument: SIGNATURES[argument] for argument in ("loss", "metric", "predict", "transforms", "export")},
    **{argument: SIGNATURES[f"build_{argument}"] for argument in ("scheduler", "dataset", "dataloader")},
}


class Live:
    """Jobs on live objects; :meth:`close` gives the objects back as they were.

    They are the model, the optimizer and the schedule.

    The thread that asks for jobs has the turn (``run/turns.py``), and does them itself.
    """

    def __init__(self, name: str, side: Side, *, seed: int) -> None:
        self.side = name
        self._borrowed = Borrowed()
        functions = functions_of(side, self._parameters)
        for build in ("build_optimizer", "build_scheduler"):
            if build in functions:
                functions[build] = self._borrowing(functions[build])
        self._session = Session(name, functions, side.framework, device=side.device, seed=seed, live=True)

    def _borrowing(self, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def borrow(of: Any) -> Any:
            return self._borrowed.take(build(of), [entry.tensor for entry in self._session.entries()])

        return borrow

    def _parameters(self, model: Any) -> list[Any]:
        return trainer(self._session).parameters(model)

    @property
    def alive(self) -> bool:
        """Always: what happens to this side happens to this process."""
        return True

    def request(self, job: Job) -> None:
        """Do a job.

        Raises:
            WorkerFailed: the side's code raised, or ended the process (``sys.exit``).
        """
        try:
            with nested(), self._afresh():
                perform(self._session, job)
        except ParalignError as error:
            raise WorkerFailed(type(error).__name__, str(error), side=self.side) from error
        except (Exception, SystemExit) as error:  # an exporter that fails may end the process: that is the side's failure
            text = "".join(traceback.format_exception(error))
            raise WorkerFailed(type(error).__name__, str(error), traceback=text, side=self.side, frames=user_frames(error)) from error

    def _afresh(self) -> AbstractContextManager[None]:
        adapter = self._session.adapter
        return adapter.afresh() if isinstance(adapter, Lending) else nullcontext()

    def dismiss(self) -> None:
        """Nothing of live sides ends by itself."""

    def close(self) -> None:
        """Give model, optimizer and schedule back as they were."""
        try:
            self._borrowed.give_back()
        finally:
            self._session.close()


@contextmanager
def untouched_process() -> Iterator[None]:
    """Put generators and devices in use back as they were before, on leaving.

    Those of Python, numpy and the imported frameworks.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global generator is what checks seed
    frameworks: list[tuple[Lending, Any]] = []
    for name in finding.imported():
        with suppress(ParalignError):  # imported, but too old for a side: not seeded either
            adapter = finding.load(name)
            if isinstance(adapter, Lending):
                frameworks.append((adapter, adapter.process_state()))
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002 - as above
        for framework, state in frameworks:
            framework.put_process_state(state)


def functions_of(side: Side, parameters: Callable[[Any], list[Any]]) -> dict[str, Callable[..., Any]]:
    """The functions of a side given as live objects, under the names of a side's module.

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
    """Refuse an object where a function is expected.

    An optimizer, say, belongs to some other copy of the weights.

    Raises:
        UsageError: such an object.
    """
    given = [(argument, getattr(side, argument), signature) for argument, signature in CALLED.items()]
    given += [(f"functions[{key!r}]", function, SIGNATURES[key]) for key, function in side.functions.items() if key in SIGNATURES]
    for argument, function, signature in given:
        if function is not None and not callable(function) and not (argument == "metric" and is_stateful(function)):
            raise UsageError(
                f"the {name}'s {argument} must be a function, {signature}, not {_article(type(function).__name__)}",
                where=f"Side({argument.partition('[')[0]}=...)",
                hint=f"give what makes it, such as `lambda parameters: SGD(parameters, 0.1)`: {signature}"
                if argument == "optimizer"
                else f"give a function: {signature}",
            )


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
