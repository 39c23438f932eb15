"""Functions of a side that do not know of its card.

A metric that calls ``numpy()``, or a prediction that leaves its input on the CPU, runs in a program whose author moves things by hand, and
fails on what the check has put on a card. Such a function is called once more on the CPU, and from then on there alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Dict, List, Set

from paralign.errors import ParalignError

CPU = "cpu"

#: characters of an error that are said
MOST = 120


class Beside:
    """Which functions run on the CPU although their side is on a card."""

    def __init__(self) -> None:
        self._known: Dict[str, str] = {}
        self._works: Set[str] = set()
        self._used: Set[str] = set()

    def wrapped(self, session: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called again on the CPU where it fails, and from then on there alone.

        It is given back as it is where the side is on the CPU anyway. What it raises on its device is raised where it fails on both, and
        where it has worked there before: then the error is one of what it was given.

        Args:
            session: the side's :class:`~paralign.worker.sides.session.Session`.
            name: what the function is called.
            function: takes trees of tensors that are on the side's device.
        """
        if session.device == CPU:
            return function

        def call(*given: Any) -> Any:
            given = tuple(list(tree) if isinstance(tree, Iterator) else tree for tree in given)
            if name in self._known:
                return self._on_cpu(session, name, function, given)
            try:
                found = function(*given)
            except ParalignError:
                raise
            except Exception as error:  # frameworks have no type of their own for it
                if name in self._works:
                    raise
                session.seed()
                try:
                    found = self._on_cpu(session, name, function, given)
                except Exception:  # noqa: BLE001 - as above
                    raise error from None
                self._known[name] = f"{type(error).__name__}: {error}".splitlines()[0][:MOST]
            else:
                self._works.add(name)
            return found

        return call

    def notes(self, device: str) -> List[str]:
        """What is to be said of the functions that were called since this was asked."""
        said = [f"{name}() fails on {device} and was run on the CPU ({self._known[name]})" for name in sorted(self._used)]
        self._used.clear()
        return said

    def _on_cpu(self, session: Any, name: str, function: Callable[..., Any], given: Any) -> Any:
        with _moved(session):
            found = function(*map(session.fresh, given))
        self._used.add(name)
        return found


@contextmanager
def _moved(session: Any) -> Iterator[None]:
    """The model, and new tensors, are on the CPU inside."""
    adapter, model = session.adapter, session.model
    adapter.use_device(CPU)
    try:
        adapter.place(model)
        yield
    finally:
        adapter.use_device(session.device)
        adapter.place(model)
