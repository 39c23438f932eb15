"""The random numbers of a sample, recorded on one side and given to the other."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from paralign.adapters._drawing import FUNCTIONS, Function, Kind, Law, refill
from paralign.dtypes import typed

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session


class Draw(NamedTuple):
    """What one call drew.

    The kind, the span of whole numbers and permutations (else 0), and canonical values in order.
    """

    kind: Kind
    span: int
    values: Any
    said: str


class _Place(NamedTuple):
    """Where a function that draws is bound, and what stands in for it."""

    holder: Any
    name: str
    original: Any
    wrapped: Callable[..., Any]


class Tape:
    """Record the draws of this process, or replace them by those of another.

    One sample at a time.

    ``misfit`` says where what was asked for is not what was drawn there: from then on the side draws its own.
    """

    def __init__(self, session: Session, given: Optional[List[Draw]] = None) -> None:
        self._session, self._inside = session, False
        self.start(given)

    def start(self, given: Optional[List[Draw]]) -> None:
        """Begin another sample."""
        self.draws: List[Draw] = []
        self.misfit = ""
        self._given = given

    @property
    def apart(self) -> str:
        """Where what was drawn is not what was given, in words; empty where all of it was taken."""
        count = len(self.draws)
        return self.misfit or (f"it drew {count} times, the reference {count + self.left_over} times" if self.left_over else "")

    @property
    def left_over(self) -> int:
        """Draws that were given and never asked for."""
        return 0 if self._given is None else max(0, len(self._given) - len(self.draws))

    def call(self, function: Function, original: Callable[..., Any], args: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
        """One call of a function that draws."""
        law = None if self._inside else function.law(args, named)
        if law is None:
            return original(*args, **named)
        self._inside = True
        try:
            made = original(*args, **named)
            draw = self._drawn(function, law, made, args)
            if draw is None:
                return made
            self.draws.append(draw)
            if self._given is None or self.misfit:
                return made
            return self._replaced(function, law, made, draw, args)
        finally:
            self._inside = False

    def _drawn(self, function: Function, law: Law, made: Any, args: Tuple[Any, ...]) -> Optional[Draw]:
        adapter = self._session.adapter
        if function.name == "choice":
            places = [n for n, value in enumerate(args[0]) if value is made]
            array = np.array(places[:1], np.float64)
        elif adapter.is_tensor(made):
            array = np.asarray(adapter.to_array(made).array, np.float64)
        else:
            array = np.asarray(made, np.float64)
        said = f"{function.owner}.{function.name}"
        if law.kind is Kind.UNIFORM:
            return Draw(law.kind, 0, (array - law.low) / ((law.high - law.low) or 1.0), said)
        if law.kind is Kind.NORMAL:
            return Draw(law.kind, 0, (array - law.low) / law.high, said)
        return Draw(law.kind, int(law.high) - int(law.low), array - law.low, said) if array.size else None

    def _replaced(self, function: Function, law: Law, made: Any, own: Draw, args: Tuple[Any, ...]) -> Any:
        place = len(self.draws) - 1
        given = (self._given or [])[place] if place < len(self._given or []) else None
        if given is None or given.kind is not own.kind or given.span != own.span or given.values.size != own.values.size:
            wanted = "nothing" if given is None else f"{_said(given)} by {given.said}"
            self.misfit = f"draw {place}: {_said(own)} by {own.said}, where the reference drew {wanted}"
            return made
        self.draws[-1] = own._replace(values=given.values)
        scale = 1.0 if law.kind in (Kind.WHOLE, Kind.ORDER) else law.high - law.low if law.kind is Kind.UNIFORM else law.high
        array = given.values.reshape(own.values.shape) * scale + law.low
        if function.name == "choice":
            return args[0][int(array.reshape(-1)[0])]
        return self._like(made, array)

    def _like(self, made: Any, array: Any) -> Any:
        """Values in the form in which the function gave them: a number, an array, a tensor.

        The tensor is the same one where it was filled in place.
        """
        adapter = self._session.adapter
        if isinstance(made, np.ndarray):
            return array.astype(made.dtype)
        if adapter.is_tensor(made):
            dtype = adapter.to_array(made).array.dtype
            tensor = adapter.from_array(typed(array.astype(dtype)))
            refill(adapter.name, made, tensor)
            return made
        return type(made)(array.reshape(-1)[0])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have calls of all known functions go through this inside.

        On leaving, every name is bound to what it was.
        """
        wanted: Dict[str, List[Tuple[Any, Callable[..., Any]]]] = {}  # a name -> the functions called so, and what stands in for each
        places: List[_Place] = []
        for function in [*FUNCTIONS[""], *FUNCTIONS.get(self._session.adapter.name, ())]:
            owner = _owner(function.owner)
            original = getattr(owner, function.name, None)
            if owner is None or original is None:
                continue
            wrapped = _wrapped(self, function, original)
            wanted.setdefault(function.name, []).append((original, wrapped))
            places.append(_Place(owner, function.name, original, wrapped))
        places += _held(wanted)
        try:
            for place in places:
                setattr(place.holder, place.name, place.wrapped)
            yield
        finally:
            for place in reversed(places):
                setattr(place.holder, place.name, place.original)


def _said(draw: Draw) -> str:
    words = {
        Kind.UNIFORM: "uniform",
        Kind.NORMAL: "normal",
        Kind.WHOLE: f"whole (below {draw.span})",
        Kind.ORDER: f"permutation of {draw.span}",
    }
    return f"{draw.values.size} {words[draw.kind]}"


def _wrapped(tape: Tape, function: Function, original: Callable[..., Any]) -> Callable[..., Any]:
    def draw(*args: Any, **named: Any) -> Any:
        return tape.call(function, original, args, named)

    return draw


def _owner(path: str) -> Any:
    """A module that is loaded, or a class in one; None where it is not."""
    if path in sys.modules:
        return sys.modules[path]
    head, _, name = path.rpartition(".")
    return getattr(sys.modules.get(head), name, None)


def _held(wanted: Dict[str, List[Tuple[Any, Callable[..., Any]]]]) -> Iterator[_Place]:
    """Where the user's modules have bound functions by their own names.

    As ``from random import random`` does. All functions are looked for at once: there are thousands of modules.
    """
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or "site-packages" in file or module.__name__ in ("random", "paralign"):
            continue
        held = vars(module)
        for name in wanted.keys() & held.keys():
            for original, wrapped in wanted[name]:
                if held[name] is original:
                    yield _Place(module, name, original, wrapped)
