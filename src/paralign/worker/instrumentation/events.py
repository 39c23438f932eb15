"""Events: which expression made each value, of which others.

They are numbered in the order in which they happen.

An event holds its site, its kind, the events that it was made of (with their roles), and a mark of the value. Names, attributes and
entries make no events: they lead to the event that made what they hold.
"""

from __future__ import annotations

import threading
import time
import types
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paralign.worker.instrumentation.expressions import Site
from paralign.worker.instrumentation.value_marks import Numbers, array_of, mark, texts_of

if TYPE_CHECKING:
    from paralign.worker.instrumentation.expressions import FunctionSite
    from paralign.worker.instrumentation.value_marks import Convert

#: events that are kept, and of one site: a loop over pixels would fill a capture (an event takes about 300 bytes)
EVENTS, TIMES = 150_000, 2_000

#: elements that are looked at altogether, about 50 ns each, and seconds of the thread's own work after which nothing more
#: is recorded: on a busy machine the same is recorded
ELEMENTS, PATIENCE = 1 << 27, 40.0

#: kinds of events that make a list
MAKING = frozenset({"call", "display", "operation"})

#: kinds of events that make an object
_FIRST = frozenset({"call", "operation", "change"})

#: kind of the events of values that a condition left to a name: they make nothing, and are no expressions
LEFT = "left"

Edge = Tuple[str, int]


class Event(NamedTuple):
    """One value: its expression, its kind, the events it was made of, what is kept of it.

    ``under`` is the event of the condition that let it happen. An event of kind ``left`` is a value that a condition left to a name.
    """

    site: int
    kind: str
    inputs: Tuple[Edge, ...]
    mark: List[Any]
    under: Optional[int] = None


class Frame:
    """A function under way: what made the values of its names, and those of its expressions."""

    __slots__ = ("depth", "held", "last", "lists", "names", "outer", "places", "serving", "tests")

    def __init__(self, outer: "Optional[Frame]") -> None:
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.names: Dict[str, Optional[int]] = {}
        self.last: Dict[int, Optional[int]] = {}
        self.held: Dict[int, Any] = {}
        self.places: Dict[int, Any] = {}
        self.tests: Dict[int, bool] = {}
        self.lists: Dict[int, List[Tuple[Any, Optional[int]]]] = {}
        self.serving: Optional[Call] = None


class Call:
    """A call under way: who is called with what, and what rewritten functions inside returned."""

    __slots__ = ("arguments", "frame", "function", "returns", "site")

    def __init__(self, frame: Frame, site: int, function: Any) -> None:
        self.frame, self.site, self.function = frame, site, function
        self.arguments: List[Tuple[str, Any, Optional[int]]] = []
        self.returns: List[Tuple[Any, Optional[int]]] = []


class Ledger:
    """What was recorded so far, and what led to the values that objects hold.

    Args:
        convert: a tensor as an array, None for what is none.

    Attributes:
        events: in their order.
        sites: of all modules, with the file of each in ``files``.
        exhausted: there was more than is recorded.
        watched: what the user's functions are looked at for taking: id -> object and name.
        sightings: each time that a name is bound to a watched object: how many events there were, and its name.
    """

    def __init__(self, convert: "Convert" = array_of) -> None:
        self.events: List[Event] = []
        self.sites: List[Site] = []
        self.files: List[str] = []
        self.functions: List[FunctionSite] = []
        self.function_files: List[str] = []
        self.modules: Dict[str, Frame] = {}
        self.exhausted = ""
        self.watched: Dict[int, Tuple[Any, str]] = {}
        self.sightings: List[Tuple[int, str]] = []
        self._convert = convert
        self._targets: Dict[int, List[Tuple[Any, ...]]] = {}
        self._thread = threading.get_ident()
        self._until = time.thread_time() + PATIENCE
        self._elements = 0
        self.numbers = Numbers()
        self._busy = False
        self._yielded: Tuple[Any, Optional[int]] = (None, None)
        self._calls: List[Call] = []
        self._times: Dict[int, int] = {}
        self._constants: Dict[int, int] = {}
        self._defaults: Dict[Tuple[int, str], Tuple[Any, Optional[int]]] = {}
        self._newer: Dict[int, int] = {}
        #: site of a condition -> the event that tells how it decided last
        self._decisions: Dict[int, int] = {}
        self._attributes: Dict[Tuple[int, str], Tuple[Any, Optional[int]]] = {}
        self._entries: Dict[int, Dict[Any, Tuple[Any, Optional[int]]]] = {}
        self._made: Dict[int, Tuple[Any, int]] = {}
        self._bound: Dict[int, List[Tuple[str, Any, Optional[int]]]] = {}
        self._alive: Dict[int, Any] = {}
        #: entries that were noted by the objects themselves
        self._noted = 0
        #: id -> the object, or a weak reference to it, and the event that made it
        self._makers: Dict[int, Tuple[Any, int]] = {}
        self._signatures: Dict[int, Any] = {}
        #: option of a command line -> its default, and the event that made it
        self._options: Dict[str, Tuple[Any, Optional[int]]] = {}

    def _is_off(self) -> bool:
        if self.exhausted:
            return True
        return self._busy or threading.get_ident() != self._thread

    def _add(self, site: int, kind: str, inputs: Sequence[Tuple[str, Optional[int]]], value: Any) -> Optional[int]:
        """A new event; None where there is no more room."""
        count = self._times[site] = self._times.get(site, 0) + 1
        if count > TIMES:
            return None
        if len(self.events) >= EVENTS or time.thread_time() > self._until or self._elements > ELEMENTS:
            self.exhausted = f"{len(self.events)} values, {self._elements} elements"
            return None
        self._busy = True
        try:
            known = mark(value, self._convert, self.numbers)
            texts = texts_of(value) if known[0] == "k" and kind in MAKING else None
            known = [*known, texts] if texts is not None else known
        finally:
            self._busy = False
        if known[0] == "a":
            size = 1
            for n in known[1]:
                size *= n
            self._elements += size
        edges = tuple((role, self._latest(number)) for role, number in inputs if number is not None)
        self.events.append(Event(site, kind, edges, known, self._decision(site)))
        if kind in _FIRST:
            self._remember(value, len(self.events) - 1)
        return len(self.events) - 1

    def _remember(self, value: Any, number: int) -> None:
        """Note the event that made an object, by which it is known wherever it turns up.

        Numbers are kept for that; arrays and other objects are not kept alive.
        """
        if isinstance(value, (float, np.number)) or id(value) in self._alive:
            self._makers[id(value)] = value, number
        elif not is_common(value):
            with suppress(TypeError):  # of what bears no such reference
                self._makers[id(value)] = weakref.ref(value), number

    def _maker(self, value: Any) -> Optional[int]:
        """The event that made an object; None where that was not seen, or tells nothing."""
        known = self._makers.get(id(value))
        if known is None or (known[0]() if isinstance(known[0], weakref.ref) else known[0]) is not value:
            return None
        return self._latest(known[1])

    def _decision(self, site: int) -> Optional[int]:
        """The event of the condition that let an expression be evaluated; None without one."""
        under = self.sites[site].under
        while under >= 0 and under not in self._decisions:
            under = self.sites[under].under
        return self._decisions.get(under)

    def _left(self, site: int, number: Optional[int]) -> Optional[int]:
        """The event of a value that an expression only hands on, if a condition let it."""
        decision = self._decision(site) if site >= 0 else None
        if number is None or decision is None or (number > decision and self.events[number].kind != "constant"):
            return number
        return self._handed(site, number, decision)

    def _handed(self, site: int, number: int, decider: int, role: str = "test") -> int:
        """The event of a value that a condition left somewhere.

        Or, in the role ``of``, what was chosen itself and chose the value.
        """
        handed = self._add(site, LEFT, [("value", number), (role, decider)], None)
        return number if handed is None else handed

    def _see(self, value: Any) -> None:
        """A name was bound to a value: note it where that is watched."""
        known = self.watched.get(id(value))
        if known is not None and known[0] is value:
            self.sightings.append((len(self.events), known[1]))

    def _maker_of_number(self, value: Any) -> Optional[int]:
        """As :meth:`_maker`, of numbers and written containers alone.

        Which collection an object such as a parameter came through tells more than who made it.
        """
        return self._maker(value) if isinstance(value, (float, np.number, list, tuple, dict)) else None

    def _latest(self, number: int) -> int:
        """The event that last changed what an event made."""
        last = number
        while last in self._newer:
            last = self._newer[last]
        if last != number:
            self._newer[number] = last  # a list that grows in a loop has a long way
        return last

    def _event(self, frame: Frame, site: int) -> Optional[int]:
        """The event that made the value of an expression just evaluated."""
        if site < 0:
            return None
        known = self.sites[site]
        if known.kind == "constant":
            if site not in self._constants:
                number = self._add(site, "constant", (), known.constant)
                if number is None:
                    return None
                self._constants[site] = number
            return self._constants[site]
        if known.kind == "name":
            return self._named(frame, known.keys)
        number = frame.last.get(site)
        return None if number is None else self._latest(number)

    def _named(self, frame: Frame, keys: Tuple[str, ...]) -> Optional[int]:
        around: Optional[Frame] = frame
        while around is not None:
            for key in keys:
                if key in around.names:
                    number = around.names[key]
                    return None if number is None else self._latest(number)
            keys, around = keys[-1:], around.outer
        return None

    def _children(self, frame: Frame, site: int) -> List[Tuple[str, Optional[int]]]:
        return [(role, self._event(frame, child)) for role, child in self.sites[site].children]

    def _keep(self, value: Any) -> int:
        self._alive[id(value)] = value
        return id(value)

    def _attribute_of(self, owner: Any, name: str, value: Any) -> Optional[int]:
        if isinstance(owner, types.ModuleType):
            frame = self.modules.get(owner.__name__)
            return self._named(frame, (name,)) if frame is not None else None
        for place in (owner, *getattr(type(owner), "__mro__", ()), *(owner.__mro__ if isinstance(owner, type) else ())):
            known = self._attributes.get((id(place), name))
            if known is not None and is_same(known[0], value):
                return None if known[1] is None else self._latest(known[1])
        return None

    def _entry(self, container: Any, key: Any, value: Any) -> Optional[int]:
        entries = self._entries.get(id(container))
        if entries is None:
            return None
        if isinstance(key, int) and key < 0 and isinstance(container, (list, tuple)):
            key += len(container)
        try:
            known = entries.get(key)
        except TypeError:
            return None
        if known is not None and known[1] is not None and is_same(known[0], value):
            return self._latest(known[1])
        return None

    def given(self, name: str, value: Any) -> Optional[int]:
        """The event of a value that comes from outside, with those of its entries."""
        if self._is_off():
            return None
        site = len(self.sites)
        self.sites.append(Site(0, "input", name))
        self.files.append("")
        parts = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, (list, tuple)) else []
        entries = {key: (item, self.given(f"{name}.{key}", item)) for key, item in parts}
        if entries:
            self._entries[self._keep(value)] = entries
        return self._add(site, "input", [], value)


def is_same(one: Any, other: Any) -> bool:
    """Whether two references are the same value: one object, or equal numbers or texts."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    return isinstance(one, (int, float, str, bool)) and one == other


def is_common(value: Any) -> bool:
    """Whether Python may have one object for a value wherever it occurs."""
    return value is None or isinstance(value, (bool, int, str, float, type, types.FunctionType))


def same(argument: "Optional[Tuple[str, Any, Optional[int]]]", value: Any) -> "Optional[Tuple[str, Any, Optional[int]]]":
    """The argument of a call, if it is the very object."""
    if argument is not None and argument[1] is value:
        return argument
    return None
