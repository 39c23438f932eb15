"""What rewritten code reports of calls: arguments, parameters, and what is returned."""

from __future__ import annotations

import argparse
import functools
import inspect
import itertools
import types
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import numpy as np

from paralign.worker.instrumentation.events import TIMES, Call, Frame, is_common, is_same, same
from paralign.worker.instrumentation.expressions import CHANGING
from paralign.worker.instrumentation.value_hooks import ValueHooks
from paralign.worker.instrumentation.value_marks import attribute

if TYPE_CHECKING:
    from paralign.worker.instrumentation.expressions import FunctionSite

#: functions that copy a container's entries
_COPYING = (list, tuple, dict)

#: those of Python's own library for sorted lists
_HEAPS = ("heappush", "heapify", "heapreplace", "insort", "insort_left", "insort_right")

#: functions that change their first argument, an array or a list
FILLING = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "shuffle", *_HEAPS})

#: what calls a function for each element that it gives
_MAPPING = (map, itertools.starmap)

#: values that functions returned inside one call which are kept: a framework may run functions without end, and of those that ``map``
#: calls all count
LAST, RETURNS = 8, 256

#: an argument of a call: its name, value, and the event that made it
Argument = Tuple[str, Any, Optional[int]]


def _takes_functions(call: Call) -> bool:
    """Whether a call is given functions besides, which it may call too: the key of a sort."""
    return any(callable(held) for _, held, _ in call.arguments)


def _is_shuffling(owner: Any) -> bool:
    """Whether a function belongs to a module alone, or to what draws numbers."""
    if owner is None:
        return True
    return isinstance(owner, types.ModuleType) or type(owner).__module__.startswith(("random", "numpy.random"))


class CallHooks(ValueHooks):
    """Receives calls and functions."""

    # -- hooks: calls ------------------------------------------------------------------------------------------------------------

    def begin(self, frame: Frame, site: int, function: Any) -> Any:
        """A call begins: its arguments follow."""
        if not self._is_off():
            call = Call(frame, site, function)
            call.arguments += self._bound.get(id(function), ()) if isinstance(function, functools.partial) else ()
            self._calls.append(call)
        return function

    def argument(self, frame: Frame, site: int, key: str, made: int, value: Any) -> Any:
        """An argument of the call that began last."""
        if self._is_off() or not self._calls:
            return value
        call = self._calls[-1]
        if call.site != site or call.frame is not frame:
            return value
        number = self._event(frame, made)
        if key in ("*", "**"):
            entries = self._entries.get(id(value), {})
            listed = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, (list, tuple)) else []
            for place, item in listed:
                known = entries.get(place)
                inner = known[1] if known is not None and known[0] is item else self._part(site, place, number, item)
                call.arguments.append((str(place) if key == "**" else "", item, inner))
        else:
            call.arguments.append((key, value, number))
        return value

    def _part(self, site: int, place: Any, number: Optional[int], value: Any) -> Optional[int]:
        """An entry that a call is given out of a container whose entries are not known."""
        return None if number is None else self._add(site, "element", [(str(place), number)], value)

    def end(self, frame: Frame, site: int, value: Any) -> Any:
        """A call is done."""
        if self._is_off():
            return value
        call = None
        while self._calls:
            top = self._calls.pop()
            if top.site == site and top.frame is frame:
                call = top
                break
        if call is None:
            frame.last[site] = None
            return value
        returned = next((pair for pair in reversed(call.returns) if pair[0] is value), None)
        if returned is not None:
            frame.last[site] = self._add(site, "return", [("value", returned[1])], value) if returned[1] is not None else None
            if returned[1] is not None:
                return value
        frame.last[site] = self._called(call, value)
        return value

    def _called(self, call: Call, value: Any) -> Optional[int]:
        """The event of a call that ran no rewritten function to its end."""
        frame, site, function = call.frame, call.site, call.function
        copied = self._copied(call, value)
        if copied is not None:
            return copied
        call.arguments = [self._gone_through(call, argument) for argument in call.arguments]
        inputs = [pair for pair in self._children(frame, site) if pair[1] is not None]
        inputs += self._roles(function, call.arguments)
        name = str(attribute(function, "__name__", ""))
        number = self._add(site, "call", inputs, value)
        if number is None:
            return None
        owner = attribute(function, "__self__", None)
        if (name in CHANGING or (name.endswith("_") and not name.endswith("__"))) and owner is not None and not isinstance(owner, type):
            self._change(call, owner, name)
        self._fill(call, name)
        if isinstance(function, type) or (value is not None and attribute(value, "__dict__") is not None):
            self._made[self._keep(value)] = (value, number)
        self._hold(call, value)
        return number if function not in _COPYING else self._listed_out(site, value, number)

    def _gone_through(self, call: Call, argument: Argument) -> Argument:
        """An argument of a call that went through a generator: made of the elements it gave.

        What goes through ``map`` is made of what its function returned in the meantime.
        """
        key, held, number = argument
        function = call.function
        if isinstance(held, _MAPPING) and call.returns and not _takes_functions(call):
            made = [("element", event) for _, event in call.returns]
            return key, held, self._add(call.site, "display", [*made, ("iterable", number)], held)
        known = self._bound.get(id(held)) if number is None and isinstance(held, types.GeneratorType) else None
        if known is None or known[0][0] != "generator":
            return argument
        frame, site = known[0][1]
        given = frame.lists.get(site, []) if function in _COPYING else frame.lists.pop(site, [])
        if not given:
            return argument
        made = [("element", event) for _, event in given[:TIMES]]
        return key, held, self._add(site, "display", made, [value for value, _ in given])

    def _roles(self, function: Any, arguments: List[Tuple[str, Any, Optional[int]]]) -> List[Tuple[str, Optional[int]]]:
        """The arguments under the names of the parameters, where the callee tells them.

        Else under their places.
        """
        names = self._parameters(function)
        found, place = [], 0
        for key, _, number in arguments:
            role = key
            if not key:
                role = names[place] if place < len(names) else str(place)
                place += 1
            found.append((role, number))
        return found

    def _parameters(self, function: Any) -> List[str]:
        key = id(function) if not isinstance(function, types.MethodType) else id(function.__func__)
        if key not in self._signatures:
            self._busy = True
            try:
                signature = inspect.signature(function)
                kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                self._signatures[key] = function, [p.name for p in signature.parameters.values() if p.kind in kinds]
            except Exception:  # noqa: BLE001 - a foreign callable may raise anything when asked for its signature; then places count
                self._signatures[key] = function, []
            finally:
                self._busy = False
        return list(self._signatures[key][1])

    def _copied(self, call: Call, value: Any) -> Optional[int]:
        """The event of what a call only looks up: ``getattr``, ``dict.get``, ``dict.pop``."""
        function, arguments = call.function, call.arguments
        name, owner = str(attribute(function, "__name__", "")), attribute(function, "__self__", None)
        found = None
        if function is getattr and len(arguments) > 1 and isinstance(arguments[1][1], str):
            found = self._attribute_of(arguments[0][1], arguments[1][1], value)
        elif isinstance(owner, dict) and name in ("get", "pop", "setdefault") and arguments:
            found = self._entry(owner, arguments[0][1], value)
        default = (
            arguments[-1]
            if name in ("get", "pop", "getattr", "setdefault") and len(arguments) > (2 if function is getattr else 1)
            else None
        )
        if found is None and default is not None and default[1] is value:
            found = default[2]
            if name == "setdefault" and isinstance(owner, dict):
                self._entries.setdefault(self._keep(owner), {})[arguments[0][1]] = (value, found)
        return None if found is None else self._add(call.site, "copy", [("value", found)], value)

    def _hold(self, call: Call, value: Any) -> None:
        """Note what a new object holds of the arguments.

        Fields, entries of copies, what a partial binds, what is gone through.
        """
        function, arguments = call.function, call.arguments
        if function is functools.partial or isinstance(value, functools.partial):
            self._bound[self._keep(value)] = [*self._bound.get(id(arguments[0][1]), ()), *arguments[1:]] if arguments else []
        elif isinstance(value, map):
            self._bound[self._keep(value)] = [("map", call.site, None), *arguments[1:]]
        elif isinstance(value, (zip, enumerate, filter)) or (function in (reversed, iter) and arguments):
            self._bound[self._keep(value)] = list(arguments)
        elif isinstance(attribute(function, "__self__", None), dict) and function.__name__ in ("items", "values", "keys"):
            self._bound[self._keep(value)] = [("", function.__self__, None)]
        elif function in _COPYING and isinstance(value, _COPYING):
            self._copy(arguments, value)
        else:
            self._hold_fields(call, value)
            if issubclass(type(value), dict) and id(value) not in self._entries:
                self._gather(call, value)

    def _hold_fields(self, call: Call, value: Any) -> None:
        """Note which arguments a new object holds as attributes."""
        function, arguments = call.function, call.arguments
        if hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type):
            self._fields(list(value.__dataclass_fields__), arguments, value, function)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self._fields(list(value._fields), arguments, value, function)
        elif isinstance(function, type) and type(value) is function:
            self._own_fields(arguments, value, function)
        elif isinstance(value, argparse.Action):
            self._options[value.dest] = next(((held, n) for key, held, n in arguments if key == "default"), (None, None))
        elif function is vars and arguments:
            self._list_fields(arguments[0][1], value)
        elif isinstance(value, argparse.Namespace):
            self._parsed(value)
        elif function is setattr and len(arguments) == 3 and isinstance(arguments[1][1], str):  # noqa: PLR2004 - object, name, value
            self._attributes[(self._keep(arguments[0][1]), arguments[1][1])] = (arguments[2][1], arguments[2][2])

    def _fields(self, names: List[str], arguments: List[Tuple[str, Any, Optional[int]]], value: Any, function: Any) -> None:
        place = 0
        given: Dict[str, Tuple[Any, Optional[int]]] = {}
        replaced = not isinstance(function, type)
        for key, held, number in arguments:
            if key:
                given[key] = (held, number)
            elif replaced:  # dataclasses.replace(object, …)
                given.update({n: k for n in names if (k := self._attributes.get((id(held), n))) is not None})
            elif place < len(names):
                given[names[place]] = (held, number)
                place += 1
        for name, known in given.items():
            if is_same(attribute(value, name, None), known[0]):
                self._attributes[(self._keep(value), name)] = known
        if isinstance(value, tuple):
            self._entries[self._keep(value)] = {n: given[name] for n, name in enumerate(names) if name in given}

    def _own_fields(self, arguments: List[Argument], value: Any, function: Any) -> None:
        """The attributes of a new object under the names of its arguments.

        A namespace has such, a configuration, a layer. What the class's own rewritten code has stored is known better.
        """
        held = attribute(value, "__dict__", None)
        if not isinstance(held, dict) or not held:
            return
        names = self._parameters(function) if any(not key for key, _, _ in arguments) else []
        place = 0
        for key, given, number in arguments:
            name = key or (names[place] if place < len(names) else "")
            place += not key
            if name in held and is_same(held[name], given) and (id(value), name) not in self._attributes:
                self._attributes[(self._keep(value), name)] = (given, number)

    def _parsed(self, value: argparse.Namespace) -> None:
        """Options that nobody gave: what was written as their default."""
        for name, held in vars(value).items():
            given, number = self._options.get(name, (None, None))
            if number is not None and is_same(held, given):
                self._attributes[(self._keep(value), name)] = (given, number)

    def _change(self, call: Call, owner: Any, name: str) -> None:
        """A method changed its object."""
        if isinstance(owner, (list, dict)):
            entries = self._entries.setdefault(self._keep(owner), {})
            for key, held, number in call.arguments:
                if isinstance(owner, list) and name == "append" and owner and owner[-1] is held:
                    entries[len(owner) - 1] = (held, number)
                elif isinstance(owner, dict) and name == "update":
                    entries.update({key: (held, number)} if key else self._entries.get(id(held), {}))
                elif name in ("extend", "insert", "sort", "reverse"):
                    given = [(held, number)] if name == "insert" and held is call.arguments[-1][1] else []
                    known = [*entries.values(), *given, *self._entries.get(id(held), {}).values()]
                    self._entries[id(owner)] = {n: pair for n, item in enumerate(owner) for pair in known if pair[0] is item}
        self._mutate(call.frame, call.site, [(key or "value", number) for key, _, number in call.arguments], owner)

    def _fill(self, call: Call, name: str) -> None:
        """A library's function changed an argument: ``np.add.at(sums, …)``, ``out=``."""
        filled = [argument for argument in call.arguments if argument[0] == "out"]
        owner = attribute(call.function, "__self__")
        if (name == "at" and isinstance(owner, np.ufunc)) or (name in FILLING and _is_shuffling(owner)):
            filled += call.arguments[:1]
        for argument in filled:
            _, held, before = argument
            if before is None or not isinstance(held, (np.ndarray, list)):
                continue
            given = [(key or "value", number) for key, _, number in call.arguments if number is not None and number != before]
            number = self._add(call.site, "change", [("object", before), *given], held)
            if number is not None:
                self._replace(before, number)

    # -- hooks: functions --------------------------------------------------------------------------------------------------------

    def default(self, frame: Frame, function: int, name: str, made: int, value: Any) -> Any:
        """The default of a parameter."""
        if not self._is_off():
            number = self._event(frame, made)
            if number is not None:
                number = self._add(made, "default", [("value", number)], value)
            self._defaults[(function, name)] = (value, number)
        return value

    def enter(self, outer: Frame, number: int, values: Tuple[Any, ...]) -> Frame:
        """A function begins: its parameters are bound to the arguments of the call that led here."""
        frame = Frame(outer)
        if not self._is_off():
            frame.serving = self._calls[-1] if self._calls else None
            self._bind(frame, number, values)
        return frame

    def entered(self, frame: Frame, number: int, values: Tuple[Any, ...]) -> Optional[Call]:
        """Enter a lambda, which has no frame of its own; gives the call that it serves."""
        if self._is_off():
            return None
        serving = self._calls[-1] if self._calls else None
        kept, frame.serving = frame.serving, serving
        self._bind(frame, number, values)
        frame.serving = kept
        return serving

    def returned(self, frame: Frame, serving: Optional[Call], site: int, value: Any) -> Any:
        """A function is about to return."""
        call = serving or frame.serving
        if not self._is_off() and call is not None:
            call.returns.append((value, self._left(site, self._event(frame, site))))
            del call.returns[: -RETURNS if any(isinstance(held, _MAPPING) for _, held, _ in call.arguments) else -LAST]
        return value

    def yielded(self, frame: Frame, site: int, value: Any) -> Any:
        """A generator is about to give a value to the loop that goes through it."""
        if not self._is_off():
            self._yielded = (value, self._event(frame, site))
        return value

    def _bind(self, frame: Frame, number: int, values: Tuple[Any, ...]) -> None:
        function, call = self.functions[number], frame.serving
        names = [n for n in (*function.parameters, *function.keywords, function.starred, function.mapped) if n]
        given = dict(zip(names, values))
        offset = self._own_first(call, function, given)
        positional = [a for a in call.arguments if not a[0]] if call is not None else []
        words = {a[0]: a for a in call.arguments if a[0]} if call is not None else {}
        site = call.site if call is not None else -1
        for place, name in enumerate(names):
            value, found = given[name], None
            self._see(value)
            if place >= offset and place < len(function.parameters) and place - offset < len(positional):
                found = same(positional[place - offset], value)
            found = found or same(words.get(name), value) or next((a for a in positional if a[1] is value and not is_common(value)), None)
            if call is None:  # called by a framework on its own account
                frame.names[function.prefix + name] = self._outside(number, name, value)
            elif name in (function.starred, function.mapped):
                self._bind_rest(name == function.mapped, function, positional, words, value, offset)
            elif found is not None:
                frame.names[function.prefix + name] = None if found[2] is None else self._add(site, "parameter", [(name, found[2])], value)
            else:
                frame.names[function.prefix + name] = self._default_of(number, name, value, site)

    def _outside(self, number: int, name: str, value: Any) -> Optional[int]:
        """What a framework hands to a function: a number is taken as it is; a default is known."""
        known = self._defaults.get((number, name))
        if known is not None and known[0] is value:
            return known[1]
        return self.given(name, value) if isinstance(value, (int, float)) else None

    def _default_of(self, number: int, name: str, value: Any, site: int) -> Optional[int]:
        known = self._defaults.get((number, name))
        if known is None or known[0] is not value or known[1] is None:
            return None
        return self._add(site, "omitted", [(name, known[1])], value) if site >= 0 else known[1]

    def _bind_rest(
        self, mapped: bool, function: FunctionSite, positional: List[Any], words: Dict[str, Any], value: Any, offset: int
    ) -> None:
        """``*args`` and ``**kwargs``: entries that are the arguments left."""
        if mapped and isinstance(value, dict):
            self._entries[self._keep(value)] = {k: (words[k][1], words[k][2]) for k in value if k in words}
        elif isinstance(value, tuple):
            rest = positional[max(0, len(function.parameters) - offset) :]
            self._entries[self._keep(value)] = {n: (a[1], a[2]) for n, a in enumerate(rest) if n < len(value) and value[n] is a[1]}

    @staticmethod
    def _own_first(call: Optional[Call], function: FunctionSite, given: Dict[str, Any]) -> int:
        """1 where the first parameter is the object that was called, or made, or whose method was.

        Else 0.
        """
        if call is None or not function.parameters:
            return 0
        first = given[function.parameters[0]]
        called = call.function.func if isinstance(call.function, functools.partial) else call.function
        own = (
            first is called or first is attribute(called, "__self__", object()) or (isinstance(called, type) and isinstance(first, called))
        )
        return 1 if own else 0

    def classed(self, frame: Frame, prefix: str, made: Any) -> None:
        """A class is there: its attributes are what its body stored."""
        if self._is_off():
            return
        for key in [k for k in frame.names if k.startswith(prefix)]:
            name = key[len(prefix) :]
            value = attribute(made, "_field_defaults", {}).get(name, attribute(made, name, None))  # of a named tuple
            self._attributes[(self._keep(made), name)] = (value, frame.names[key])

    def imported(self, frame: Frame, module: str, level: int, own: str, names: Tuple[Tuple[str, str], ...]) -> None:
        """``from module import name``: the name leads where it leads there."""
        if self._is_off():
            return
        full = module
        if level:
            package = own.split(".")
            base = package[: len(package) - level] or package[:1]
            full = ".".join([*base, module] if module else base)
        other = self.modules.get(full)
        for name, here in names:
            if other is not None and name in other.names:
                frame.names[here] = other.names[name]
