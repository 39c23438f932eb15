"""What rewritten code reports of operations, copies, stores and loops."""

from __future__ import annotations

import itertools
import types
from collections import deque
from contextlib import suppress
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from paralign.worker.instrumentation.containers import Containers
from paralign.worker.instrumentation.events import LEFT, TIMES, Frame
from paralign.worker.instrumentation.value_marks import attribute

#: operators that evaluate an operand only where the one before it does not decide
_PARTLY = frozenset({"And", "Or"})

#: containers that a program fills by and by
_GROWING = (list, dict, set, deque)

#: numbers of an array that are told apart where an assignment takes it apart
ROW = 64

#: what is gone through only once: its elements are not there before
_ONCE = (types.GeneratorType, zip, map, filter)


class ValueHooks(Containers):
    """Receives values that are computed, stored, and gone through."""

    # -- hooks: operations and copies --------------------------------------------------------------------------------------------

    def value(self, frame: Frame, site: int, value: Any) -> Any:
        """An operation was evaluated."""
        if not self._is_off():
            is_partly = self.sites[site].label in _PARTLY
            made = None if is_partly else self._maker(value)  # by an operator of the user's own
            frame.last[site] = number = self._add(site, "operation", [*self._children(frame, site), ("made", made)], value)
            if number is not None:
                self._join(value)
            if is_partly:
                for _, child in self.sites[site].children:
                    frame.last.pop(child, None)
        return value

    def decided(self, frame: Frame, site: int, made: int, value: Any) -> bool:
        """The test of a statement or comprehension: whether it holds, with what told so."""
        holds = bool(value)
        if not self._is_off():
            number = self._event(frame, made)
            is_told = number is not None and self.events[number].site == made and self.events[number].mark == ["s", holds]
            if not is_told:
                number = self._add(site, "condition", [("value", number)], holds)
            if number is None:
                self._decisions.pop(site, None)  # there was no more room: an older decision has no say
            else:
                self._decisions[site] = number
        return holds

    def joined(self, frame: Frame, site: int, names: Tuple[Tuple[str, int], ...]) -> None:
        """Either branch of a condition is done: it left some names what they were."""
        decision = self._decisions.get(site)
        if self._is_off() or decision is None:
            return
        for name, depth in names:
            holder = frame
            while holder.depth > depth and holder.outer is not None:
                holder = holder.outer
            number = holder.names.get(name)
            known = None if number is None else self._latest(number)
            if known is not None and known < decision:
                holder.names[name] = self._handed(site, known, decision)

    def _is_chosen(self, number: int) -> bool:
        """Whether a condition left a value where it is."""
        event = self.events[number]
        if event.kind == LEFT:
            return True
        return any(role == "test" for role, _ in event.inputs)

    def _part_of(self, site: int, container: Optional[int], number: Optional[int]) -> Optional[int]:
        """The event of a part of a container.

        What chose the container, or the place in it, chose the part.
        """
        if number is None or container is None or not self._is_chosen(container):
            return number
        return self._handed(site, number, container, "of")

    def held(self, frame: Frame, site: int, value: Any) -> Any:
        """An object of which an attribute or an entry follows."""
        if not self._is_off():
            frame.held[site] = value
        return value

    def index(self, frame: Frame, site: int, value: Any) -> Any:
        """What stands in brackets."""
        if not self._is_off():
            frame.places[site] = value
        return value

    def attribute(self, frame: Frame, site: int, value: Any) -> Any:
        """An attribute was read: what was stored there, else a value made of its object."""
        if not self._is_off():
            known = self.sites[site]
            number = self._attribute_of(frame.held.get(site), known.label, value)
            if number is None and not isinstance(value, (types.FunctionType, types.MethodType, types.ModuleType, type)):
                made = self._maker(value)  # of a property
                number = self._add(site, "attribute", [*self._children(frame, site), ("made", made)], value)
                if _is_to_be_filled(value) and number is not None:  # what is put into it is found when it is read again
                    self._attributes[(self._keep(frame.held.get(site)), known.label)] = (value, number)
            if known.label == "__dict__" and isinstance(value, dict):
                self._list_fields(frame.held.get(site), value)
            frame.last[site] = number
        return value

    def item(self, frame: Frame, site: int, value: Any) -> Any:
        """An entry was read: what was put there, else a value made of its container."""
        if not self._is_off():
            number = self._entry(frame.held.get(site), frame.places.get(site), value)
            for _, held in self._children(frame, site) if number is not None else ():
                number = self._part_of(site, held, number)
            frame.last[site] = number if number is not None else self._read(frame, site, value)
        return value

    def _read(self, frame: Frame, site: int, value: Any) -> Optional[int]:
        """The event of an entry of which nobody saw how it came to its container."""
        number = self._add(site, "item", [*self._children(frame, site), ("made", self._maker(value))], value)
        container, key = frame.held.get(site), frame.places.get(site)
        if _is_to_be_filled(value) and isinstance(container, (list, dict)) and number is not None:
            with suppress(TypeError):
                self._entries.setdefault(self._keep(container), {})[key] = (value, number)
        return number

    def tested(self, frame: Frame, site: int, value: Any) -> Any:
        """What decides between two expressions."""
        if not self._is_off():
            frame.tests[site] = bool(value)
        return value

    def choice(self, frame: Frame, site: int, value: Any) -> Any:
        """One of two expressions was evaluated."""
        if not self._is_off():
            taken = "body" if frame.tests.get(site) else "orelse"
            children = [(role, number) for role, number in self._children(frame, site) if role in ("test", taken)]
            frame.last[site] = self._add(site, "copy", [("value" if role == taken else role, n) for role, n in children], value)
        return value

    # -- hooks: stores -----------------------------------------------------------------------------------------------------------

    def put(self, frame: Frame, site: int, made: int, value: Any) -> Any:
        """A value is about to be stored; what is gone through only once is taken apart here."""
        if self._is_off():
            return value
        targets = self._targets.get(site, ())
        if len(targets) == 1 and targets[0][0] == "tuple" and isinstance(value, _ONCE):
            value = self._taken_apart(value, targets[0][1:])
        number = self._left(site, self._event(frame, made))
        frame.last[site] = number
        for target in targets:
            self._store(frame, target, value, number, site)
        return value

    def _taken_apart(self, value: Any, parts: Tuple[Any, ...]) -> List[Any]:
        """The elements that targets take of a generator or the like, with what made them."""
        known = self._bound.get(id(value))
        is_starred = any(part[0] == "starred" for part in parts)
        taken = list(value) if is_starred else list(itertools.islice(value, len(parts) + 1))
        if isinstance(value, types.GeneratorType) and known is not None and known[0][0] == "generator":
            frame, site = known[0][1]
            self._listed(frame, site, taken)
        elif isinstance(value, zip) and known is not None:
            self._zipped(taken, known)
        elif isinstance(value, map):
            self._entries[self._keep(taken)] = {n: (item, self._found(value, n, item)) for n, item in enumerate(taken)}
        return taken

    def _store(self, frame: Frame, target: Tuple[Any, ...], value: Any, number: Optional[int], site: int) -> None:
        if target[0] == "name":
            self._see(value)
            holder = frame
            while holder.depth > target[2] and holder.outer is not None:
                holder = holder.outer
            holder.names[target[1]] = number
        elif target[0] == "tuple":
            parts = list(value) if isinstance(value, (list, tuple)) or _is_row(value) else None
            if parts is not None and any(part[0] == "starred" for part in target[1:]):
                self._store_starred(frame, target[1:], value, number, site)
                return
            for place, part in enumerate(target[1:]):
                if parts is None or len(parts) != len(target) - 1:
                    self._store(frame, part, None, number, site)
                    continue
                inner = self._part_of(site, number, self._entry(value, place, parts[place]))
                inner = self._maker_of_number(parts[place]) if inner is None else inner
                if inner is None and number is not None:
                    inner = self._add(site, "element", [(str(place), number)], parts[place])
                self._store(frame, part, parts[place], inner, site)

    def _store_starred(self, frame: Frame, parts: Tuple[Any, ...], value: Any, number: Optional[int], site: int) -> None:
        """``first, *rest = value``: each name gets its entries."""
        before = next(place for place, part in enumerate(parts) if part[0] == "starred")
        if len(value) < len(parts) - 1:
            return  # too few: Python raises its own error
        after = len(value) - (len(parts) - 1 - before)
        for place, part in enumerate(parts):
            index = place if place < before else place - len(parts) + len(value)
            held: Any = list(value[before:after]) if place == before else value[index]
            found = None if place == before else self._entry(value, index, held)
            if found is None and number is not None:
                found = self._add(site, "element", [(str(place), number)], held)
            self._store(frame, part[1] if place == before else part, held, found, site)

    def kept(self, frame: Frame, site: int, store: int) -> None:
        """An attribute was set."""
        if self._is_off() or site not in frame.held:
            return
        owner, name = frame.held[site], self.sites[site].label
        value = attribute(owner, name, None)
        number = frame.last.get(store)
        if number is not None and self._targets.get(store) and self._targets[store][0][0] == "tuple":
            number = self._add(site, "attribute", [("object", number)], value)
        self._attributes[(self._keep(owner), name)] = (value, number)

    def entered_item(self, frame: Frame, site: int, store: int) -> None:
        """An entry was set."""
        if self._is_off() or site not in frame.held:
            return
        container: Any = frame.held[site]
        number = frame.last.get(store)
        key = frame.places.get(site)
        if isinstance(container, (list, dict)):
            if isinstance(container, list) and isinstance(key, int) and key < 0:
                key += len(container)
            held: Any = container
            try:
                value = held[key]
                self._entries.setdefault(self._keep(container), {})[key] = (value, number)
            except (TypeError, LookupError):
                pass
        self._mutate(frame, site, [("value", number)], container)

    def _mutate(self, frame: Frame, site: int, inputs: List[Tuple[str, Optional[int]]], container: Any) -> None:
        """An object was changed in place: what made it before leads to this from now on."""
        children = self._children(frame, site)
        before = next((number for role, number in children if role in ("object", "self", "left")), None)
        number = self._add(site, "change", [*children, *inputs], container)
        if number is None:
            return
        self._replace(before, number)
        base = self.sites[next((c for r, c in self.sites[site].children if r in ("object", "self")), site)]
        if base.kind == "name" and before is None:
            frame.names[base.keys[-1]] = number

    def _replace(self, before: Optional[int], number: int) -> None:
        """What made an object leads to its change from now on; a constant made others too."""
        while before is not None and self.events[before].kind != "constant":
            self._newer[before] = number
            before = self.events[before].inputs[0][1] if self.events[before].kind == LEFT else None

    def changed(self, frame: Frame, site: int, value: Any) -> None:
        """``name += …``."""
        if self._is_off():
            return
        children = self._children(frame, site)
        number = self._add(site, "operation", children, value)
        before = children[0][1] if children and children[0][0] == "left" else None
        if number is not None and _changes_in_place(value):
            self._replace(before, number)
            self._grow(value)
        for target in self._targets.get(site, ()):
            self._store(frame, target, value, number, site)

    def changed_inside(self, frame: Frame, site: int) -> None:
        """``object.name += …`` or ``object[key] += …``."""
        if self._is_off() or site not in frame.held:
            return
        owner, known = frame.held[site], self.sites[site]
        held: Any = owner
        if known.kind == "attribute":
            value = attribute(owner, known.label, None)
            before = self._attributes.get((id(owner), known.label))
            right = [pair for pair in self._children(frame, site) if pair[0] == "right"]
            number = self._add(site, "operation", [("left", before[1] if before is not None else None), *right], value)
            self._attributes[(self._keep(owner), known.label)] = (value, number)
        elif isinstance(owner, (list, dict)):
            key = frame.places.get(site)
            try:
                before = self._entries.get(id(owner), {}).get(key)
                value = held[key]
            except (TypeError, LookupError):
                return
            right = [pair for pair in self._children(frame, site) if pair[0] == "right"]
            number = self._add(site, "operation", [("left", before[1] if before is not None else None), *right], value)
            self._entries.setdefault(self._keep(owner), {})[key] = (value, number)
        else:
            self._mutate(frame, site, [], owner)

    # -- hooks: loops ------------------------------------------------------------------------------------------------------------

    def first(self, frame: Frame, site: int, listed: int, iterable: Any) -> Any:
        """The first loop of a comprehension begins."""
        if not self._is_off():
            frame.lists[listed] = []
        return self.each(frame, site, listed, iterable)

    def each(self, frame: Frame, site: int, _: int, iterable: Any) -> Any:
        """A loop begins: what it takes is bound round by round."""
        if self._is_off():
            return iterable
        return self._rounds(frame, site, iterable, self._children(frame, site))

    def _rounds(self, frame: Frame, site: int, iterable: Any, children: List[Tuple[str, Optional[int]]]) -> Iterator[Any]:
        target = self._targets[site][0]
        sources = self._sources(iterable)
        for number, value in enumerate(iterable):
            if not self._is_off():
                self._round(frame, site, target, value, number, sources, children)
            yield value

    def _sources(self, iterable: Any) -> List[Any]:
        """The containers behind an iterable.

        Itself, or what ``zip``, ``enumerate`` and the views of a dict were made of.
        """
        known = self._bound.get(id(iterable))
        if known is None or isinstance(iterable, map):
            return [iterable]
        return [held for _, held, _ in known]

    def _round(
        self, frame: Frame, site: int, target: Tuple[Any, ...], value: Any, number: int, sources: List[Any], children: List[Any]
    ) -> None:
        if target[0] == "tuple" and isinstance(value, tuple) and len(value) == len(target) - 1 and self._entries.get(id(value)) is None:
            for place, (part, item) in enumerate(zip(target[1:], value)):
                own = sources[place : place + 1] if len(sources) == len(value) else []  # of zip
                found = next((e for e in (self._found(s, number, item) for s in (*own, *sources)) if e is not None), None)
                if found is None and children:
                    found = self._add(site, "element", [*children, ("made", self._maker_of_number(item))], item)
                self._store(frame, part, item, found, site)
            return
        found = next((e for e in (self._found(s, number, value) for s in sources) if e is not None), None)
        if found is None and self._yielded[0] is value and isinstance(sources[0], types.GeneratorType):
            found = self._yielded[1]
        if found is None:
            found = self._add(site, "element", [*children, ("made", self._maker_of_number(value))], value)
        self._store(frame, target, value, found, site)

    def element(self, frame: Frame, site: int, made: int, value: Any) -> Any:
        """An entry of a comprehension."""
        if not self._is_off():
            frame.lists.setdefault(site, []).append((value, self._event(frame, made)))
        return value

    def collected(self, frame: Frame, site: int, value: Any) -> Any:
        """A comprehension is done; a generator has yet to run."""
        if self._is_off():
            return value
        if isinstance(value, (list, set, dict)):
            self._listed(frame, site, value)
        else:
            self._bound[self._keep(value)] = [("generator", (frame, site), None)]
        return value

    def _listed(self, frame: Frame, site: int, value: Any) -> None:
        found = frame.lists.pop(site, [])
        frame.last[site] = self._add(site, "display", [("element", number) for _, number in found[:TIMES]], value)
        if isinstance(value, dict) and len(found) == len(value):
            self._entries[self._keep(value)] = dict(zip(value, found))
        elif isinstance(value, (list, tuple)) and len(found) == len(value):
            self._entries[self._keep(value)] = dict(enumerate(found))


def _is_to_be_filled(value: Any) -> bool:
    """Whether a value is an empty container, as a program fills by and by."""
    return type(value) in _GROWING and not value


def _is_row(value: Any) -> bool:
    """Whether a value is an array of a few numbers, which an assignment takes apart."""
    return type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "biuf" and value.size <= ROW


def _changes_in_place(value: Any) -> bool:
    """Whether ``name += …`` may change the object itself: it has an operator for that."""
    return any(hasattr(type(value), name) for name in ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ior__"))
