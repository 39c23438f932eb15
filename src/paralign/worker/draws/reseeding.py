"""A program that sets a seed itself, run under other seeds all the same."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Tuple

#: what sets the seed of a module: of the framework, numpy and Python
_SETTERS = (
    ("torch", "manual_seed"),
    ("torch.random", "manual_seed"),
    ("paddle", "seed"),
    ("numpy.random", "seed"),
    ("random", "seed"),
)

#: seeds are whole numbers below this everywhere
_MOST = 2**32


@contextmanager
def moved(by: int) -> Iterator[List[str]]:
    """Add ``by`` to the whole numbers that the program seeds with.

    Gives the names of the functions that it calls for that.

    Functions that its modules have imported by name stay as they are.
    """
    called: List[str] = []
    replaced: List[Tuple[Any, str, Callable[..., Any]]] = []
    for module_name, name in _SETTERS:
        module = sys.modules.get(module_name)
        own = getattr(module, name, None)
        if callable(own):
            replaced.append((module, name, own))
    for module, name, own in replaced:
        setattr(module, name, _moving(own, by, f"{module.__name__}.{name}", called))
    try:
        yield called
    finally:
        for module, name, own in replaced:
            setattr(module, name, own)


def _moving(own: Callable[..., Any], by: int, name: str, called: List[str]) -> Callable[..., Any]:
    """A function that seeds, with another seed."""

    def seed(*given: Any, **named: Any) -> Any:
        number = given[0] if given else named.get("seed")
        if type(number) is not int:
            return own(*given, **named)
        called.append(name)
        other = (number + by) % _MOST
        return own(other, *given[1:], **named) if given else own(**{**named, "seed": other})

    return seed
