"""What lists, tuples and dicts hold: which event made each entry, however it came there."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from paralign.worker.instrumentation.events import TIMES, Frame, Ledger, is_common, is_same
from paralign.worker.instrumentation.value_marks import attribute

if TYPE_CHECKING:
    from paralign.worker.instrumentation.events import Call

#: entries of a container that are looked at one by one
HELD = 4_096

#: entries that are noted altogether in containers that operators make
NOTED = 1 << 18

#: key or place -> the object there, and the event that made it
Entries = Dict[Any, Tuple[Any, Optional[int]]]


def _items(value: Any) -> List[Tuple[Any, Any]]:
    """The keys, or places, and entries of a container; none of a very large one.

    A class of the user's own is not asked: what it does when it is gone through is part of the program.
    """
    kind = next((each for each in (dict, list, tuple) if issubclass(type(value), each)), None)  # a proxy says that it is one, and is none
    if kind is None or kind.__len__(value) > HELD:
        return []
    return list(dict.items(value) if kind is dict else enumerate(kind.__iter__(value)))


class Containers(Ledger):
    """Knows the entries of containers that are written out, copied, joined, gone through."""

    def display(self, frame: Frame, site: int, value: Any) -> Any:
        """A list, tuple, set or dict was written out."""
        if self._is_off():
            return value
        children = self._children(frame, site)
        number = frame.last[site] = self._add(site, "display", children, value)
        self._spread(value, children)
        if number is not None and id(value) in self._alive:
            self._remember(value, number)
        return value

    def _spread(self, value: Any, children: List[Tuple[str, Optional[int]]]) -> None:
        """Take note of the entries of what was written out."""
        if isinstance(value, (list, tuple)):
            entries = self._placed(value, children)
            if entries:
                self._entries[self._keep(value)] = entries
        elif isinstance(value, dict):
            self._entries[self._keep(value)] = self._keyed(value, children)

    @staticmethod
    def _placed(value: Any, parts: List[Tuple[str, Optional[int]]]) -> Entries:
        """The entries of a list that stand before the first ``*``, and those after the last."""
        starred = [place for place, (role, _) in enumerate(parts) if role == "*"]
        if not starred:
            if len(parts) == len(value):
                return {n: (item, parts[n][1]) for n, item in enumerate(value)}
            return {}
        if any(isinstance(item, types.FunctionType) for item in value):
            return {}  # a lambda is no expression that is followed: places would be those of others
        after = len(parts) - 1 - starred[-1]
        entries = {n: (value[n], parts[n][1]) for n in range(starred[0])}
        for back in range(1, after + 1):
            entries[len(value) - back] = (value[-back], parts[-back][1])
        return entries

    def _keyed(self, value: Dict[Any, Any], children: List[Tuple[str, Optional[int]]]) -> Entries:
        """The entries of a dict: those that are written, and those that ``**`` takes in."""
        parts = [pair for pair in children if pair[0] != "key"]
        if all(role != "**" for role, _ in parts) and len(children) == 2 * len(parts) == 2 * len(value):
            return {key: (value[key], parts[n][1]) for n, key in enumerate(value)}
        entries: Entries = {}
        self._merge(entries, value)
        written, last = self._written(children)
        are_all_known = all(key in entries or key in written for key in value)
        for key, (place, number) in written.items():
            if key in value and (place > last or (key not in entries and self._stays(number, value[key], are_all_known=are_all_known))):
                entries[key] = (value[key], number)
        return entries

    def _written(self, children: List[Tuple[str, Optional[int]]]) -> Tuple[Dict[Any, Tuple[int, Optional[int]]], int]:
        """The written entries of a dict, key -> place and event; and the place of the last ``**``.

        Those of keys that are objects are left out.
        """
        found: Dict[Any, Tuple[int, Optional[int]]] = {}
        last, mark = -1, ["k"]
        for place, (role, number) in enumerate(children):
            if role == "**":
                last = place
            elif role == "key":
                mark = self.events[number].mark if number is not None else ["k"]
            else:
                if mark[0] == "s":
                    found[mark[1]] = place, number
                mark = ["k"]
        return found, last

    def _stays(self, number: Optional[int], value: Any, *, are_all_known: bool) -> bool:
        """Whether what was written before a ``**`` may be what the dict holds."""
        mark = self.events[number].mark if number is not None else ["k"]
        if mark[0] == "s" and is_common(value):
            return bool(mark[1] == value)
        return are_all_known

    def _merge(self, entries: Entries, value: Dict[Any, Any]) -> None:
        """Entries that came from other dicts: of the latest that holds the very object."""
        others = list(self._entries.values())
        for key, item in dict.items(value):
            for known in reversed(others):
                if key in known and known[key][0] is item:
                    entries[key] = known[key]
                    break

    def _list_fields(self, owner: Any, fields: Dict[str, Any]) -> None:
        """The entries of a dict with an object's attributes: what was stored there."""
        entries = {name: self._attributes.get((id(owner), name)) for name in fields}
        known = {name: pair for name, pair in entries.items() if pair is not None and is_same(pair[0], fields[name])}
        if known:
            self._entries[self._keep(fields)] = dict(known)

    def _contain(self, value: Any, entries: Optional[Entries] = None) -> None:
        """Note what a new list, tuple or dict holds, by the objects themselves.

        Args:
            value: the container.
            entries: those that are known already.
        """
        found: Entries = {} if entries is None else entries
        if self._noted <= NOTED:
            for key, item in _items(value):
                number = None if key in found else self._maker_of_number(item)
                if number is not None:
                    found[key] = (item, number)
        if found:
            self._noted += len(found)
            self._entries[self._keep(value)] = found

    @staticmethod
    def _holds(value: Any, key: Any, item: Any) -> bool:
        """Whether a container still holds an object at a place."""
        if issubclass(type(value), dict):
            return dict.get(value, key, _items) is item
        return (
            issubclass(type(value), list)
            and isinstance(key, int)
            and 0 <= key < list.__len__(value)
            and list.__getitem__(value, key) is item
        )

    def _join(self, value: Any) -> None:
        """Note the entries of containers that an operator put together, as ``|`` does."""
        if issubclass(type(value), (list, tuple, dict)) and id(value) not in self._entries:
            entries: Entries = {}
            if isinstance(value, dict) and len(self._entries) <= HELD:
                self._merge(entries, value)
            self._contain(value, entries)

    def _grow(self, value: Any) -> None:
        """Note what ``+=`` or ``|=`` has put into a list or dict."""
        if issubclass(type(value), (list, dict)):
            entries = {key: pair for key, pair in self._entries.get(id(value), {}).items() if self._holds(value, key, pair[0])}
            if isinstance(value, dict):
                fresh: Entries = {}
                if len(self._entries) <= HELD:
                    self._merge(fresh, {key: item for key, item in dict.items(value) if key not in entries})
                entries.update(fresh)
            self._contain(value, entries)

    def _gather(self, call: Call, value: Any) -> None:
        """Note what a dict holds that a library made, as ``asdict(x)`` or ``x.copy()``.

        What an argument holds under the same key, or as an attribute of that name. Of lists it may be the library that chose: their
        elements are what it made.
        """
        entries: Entries = {}
        sources = [id(attribute(call.function, "__self__")), *(id(held) for _, held, _ in call.arguments)]
        for key, item in _items(value):
            known = [self._entries.get(source, {}).get(key) or self._attributes.get((source, key)) for source in sources]
            found = next((pair for pair in known if pair is not None and is_same(pair[0], item)), None)
            if found is not None:
                entries[key] = found
        if entries:
            self._entries[self._keep(value)] = entries

    def _copy(self, arguments: List[Tuple[str, Any, Optional[int]]], value: Any) -> None:
        """``list(x)``, ``tuple(x)``, ``dict(x, a=1)``: the entries are those of ``x``."""
        entries: Entries = {}
        for key, held, number in arguments:
            source = self._bound.get(id(held))
            if key:
                entries[key] = (held, number)
            elif source is not None and source[0][0] == "generator":
                listed = source[0][1][0].lists.pop(source[0][1][1], [])
                entries.update(enumerate(listed) if len(listed) == len(value) else ())
            else:
                entries.update(self._rows(held, value))
        if entries:
            self._entries[self._keep(value)] = entries

    def _rows(self, source: Any, value: Any) -> Entries:
        """The entries that a copy has of what it goes through; those of a dict may come in pairs."""
        known = self._entries.get(id(source), {})
        if isinstance(source, dict) or len(value) > HELD:
            is_alike = isinstance(value, dict) or not isinstance(source, dict)  # a list of a dict has its keys
            held = dict(_items(value))
            return {key: pair for key, pair in known.items() if is_alike and key in held and held[key] is pair[0]}
        if not isinstance(value, dict):
            found = {n: (item, self._found(source, n, item)) for n, item in enumerate(value)} if isinstance(source, map) else known
            return {n: pair for n, pair in found.items() if pair[1] is not None and n < len(value) and value[n] is pair[0]}
        pairs = {key: (item, self._second(source, n, item, len(value))) for n, (key, item) in enumerate(value.items())}
        return {key: pair for key, pair in pairs.items() if pair[1] is not None}

    def _second(self, source: Any, place: int, item: Any, count: int) -> Optional[int]:
        """The event of the value in a pair of key and value, of so many pairs.

        Where a key occurs again, places are others.
        """
        made = self._maker_of_number(item)
        if made is not None:
            return made
        bound = self._bound.get(id(source))
        if isinstance(source, zip) and bound is not None and len(bound) == 2:  # noqa: PLR2004 - keys and values
            return self._found(bound[1][1], place, item) if self._length(bound[1][1]) == count else None
        row = self._entries.get(id(source), {}).get(place)
        return self._entry(row[0], 1, item) if row is not None else None

    def _length(self, source: Any) -> int:
        """How many elements a list has, or what ``map`` goes through; -1 where that is not known."""
        if isinstance(source, map):
            taken = self._bound.get(id(source), [])[1:]
            return len(self._entries.get(id(taken[0][1]), ())) if len(taken) == 1 else -1
        return len(source) if type(source) in (list, tuple) else -1

    def _listed_out(self, site: int, value: Any, number: int) -> int:
        """The event of a copy: made of its elements, where all are known."""
        entries = self._entries.get(id(value), {})
        made = [("element", pair[1]) for pair in entries.values() if pair[1] is not None]
        if not made or len(made) != len(value) or len(made) > TIMES:
            return number
        listed = self._add(site, "display", made, value)
        return number if listed is None else listed

    def _found(self, source: Any, number: int, item: Any) -> Optional[int]:
        """The event of a container's entry: at the place, else that of the very object."""
        if isinstance(source, map):
            return self._mapped(source, number, item)
        entries = self._entries.get(id(source))
        if entries is None:
            return None
        if isinstance(source, dict):
            known = next((pair for pair in entries.values() if pair[0] is item), None)
        else:
            known = entries.get(number)
            if known is None or known[0] is not item:
                known = next((pair for pair in entries.values() if pair[0] is item and not isinstance(item, (int, bool))), None)
        if known is not None and known[1] is not None:
            return self._latest(known[1])
        return None

    def _mapped(self, source: Any, place: int, item: Any) -> Optional[int]:
        """The event of what ``map`` gave in a turn.

        What its function made, else an element of what it goes through.
        """
        made, known = self._maker_of_number(item), self._bound.get(id(source))
        if made is not None or known is None:
            return made
        (_, site, _), *taken = known
        entries = [self._entries.get(id(held), {}).get(place) for _, held, _ in taken]
        children = [(str(n), pair[1]) for n, pair in enumerate(entries) if pair is not None]
        return self._add(site, "call", children, item) if len(children) == len(taken) else None

    def _zipped(self, taken: List[Any], known: List[Tuple[str, Any, Optional[int]]]) -> None:
        """The entries of what ``zip`` gave: tuples of the entries of its arguments."""
        for place, row in enumerate(taken):
            if len(row) == len(known):
                held = {n: (item, self._found(source, place, item)) for n, (item, (_, source, _)) in enumerate(zip(row, known))}
                self._entries[self._keep(row)] = held
