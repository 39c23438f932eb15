"""An entry of the user's program, run once while calls of its definitions are recorded.

Recorded are the arguments of functions, how objects of the source's classes were made, what their methods were given, and the state of
models when they are first called. Both sides make the calls again (``passes/again.py``); of what they gave back here are kept a few
figures alone.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import runpy
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from paralign.errors import UsageError, did_you_mean, message_of, one_line, quoted
from paralign.worker.calls.own_functions import SAID, arguments_of
from paralign.worker.calls.plain_values import NotPlain, recorded
from paralign.worker.calls.result_figures import attributes_of, figures
from paralign.worker.protocol import Definition, Entry, EntryCall, EntryTold, MadeObject
from paralign.worker.sides.session import DOUBLE, NATIVE, Session

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.capture import Capture, CaptureWriter

#: bytes of all that is recorded of one entry: what a temporary folder holds
ROOM = 1 << 32

#: methods that make, end or look up objects: they are part of other calls
_PARTS = {"__new__", "__del__", "__getattr__", "__getattribute__", "__setattr__", "__init_subclass__", "__class_getitem__", "__post_init__"}

#: code objects that return before they are done
_LATER = {
    inspect.CO_GENERATOR: "it is a generator",
    inspect.CO_COROUTINE: "it is a coroutine",
    inspect.CO_ASYNC_GENERATOR: "it is a generator",
}


def entry(session: Session, writer: "CaptureWriter", options: Entry, values: "Dict[str, Capture]") -> EntryTold:
    """Run the entry; what it raises is the side's failure.

    Raises:
        UsageError: there is no such function, or the program ends with another code than 0.
    """
    recorder = _Recorder(session, writer, options)
    act = _act(session, options, values)
    before = sys.getprofile()
    sys.setprofile(recorder.event)
    try:
        act()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise UsageError(
                f"the entry ends with sys.exit({end.code!r})", where=options.target, hint="give an entry that succeeds"
            ) from end
    finally:
        sys.setprofile(before)
    return recorder.end()


def _act(session: Session, options: Entry, values: "Dict[str, Capture]") -> Callable[[], Any]:
    """What runs the entry."""

    def run_function() -> None:
        _entry_function(options.target)()

    def run_model() -> None:
        session.adapter.train(session.model, "eval")
        inputs = session.inputs(values["inputs"], NATIVE)
        with session.passing():
            session.call(inputs)

    return {"script": lambda: _run_script(options.target), "function": run_function, "model": run_model}[options.kind]


def _run_script(path: str) -> None:
    """Run a file as ``python FILE`` would, without arguments."""
    arguments, folders = sys.argv, list(sys.path)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = arguments, folders


def _entry_function(target: str) -> Callable[[], Any]:
    place, _, name = target.partition(":")
    found = getattr(importlib.import_module(place), name, None)
    if not callable(found):
        near = did_you_mean(name, [each for each in dir(sys.modules[place]) if not each.startswith("_")])
        raise UsageError(f"the module {place} has no function {quoted(name)}{near}", where=target, hint="--entry module:function")
    return found  # type: ignore[no-any-return] # a callable, as was just asked


class Places:
    """The source's definitions by code object, by class, and by key."""

    def __init__(self, definitions: List[Definition]) -> None:
        self._by_path: Dict[str, List[Definition]] = {}
        for each in definitions:
            self._by_path.setdefault(os.path.realpath(each.path), []).append(each)
        self._codes: "Dict[CodeType, Optional[Definition]]" = {}
        self._classes: Dict[type, Optional[Definition]] = {}

    def of_code(self, code: "CodeType") -> Optional[Definition]:
        """The function or method that a code object is the body of."""
        if code not in self._codes:
            self._codes[code] = self._looked_up(code)
        return self._codes[code]

    def _looked_up(self, code: "CodeType") -> Optional[Definition]:
        for each in self._by_path.get(os.path.realpath(code.co_filename), []):
            same = each.kind != "class" and each.name.rpartition(".")[2] == code.co_name
            if same and code.co_firstlineno in (each.first, each.line):
                return each
        return None

    def of_class(self, kind: type) -> Optional[Definition]:
        """The class statement of a class at a module's top level."""
        if kind not in self._classes:
            file = getattr(sys.modules.get(kind.__module__), "__file__", None)
            known = self._by_path.get(os.path.realpath(file), []) if file else []
            found = [each for each in known if each.kind == "class" and each.name == kind.__qualname__]
            self._classes[kind] = found[0] if found else None
        return self._classes[kind]


class _Recorder:
    """Take the interpreter's events of calls and returns."""

    def __init__(self, session: Session, writer: "CaptureWriter", options: Entry) -> None:
        self._session, self._writer, self._most = session, writer, options.most
        self._places = Places(options.definitions)
        self._target = options.target if options.kind == "function" else ""
        self.told = EntryTold()
        self._numbers: "Counter[str]" = Counter()
        self._made: "Counter[str]" = Counter()
        self._calls: "Counter[int]" = Counter()
        self._objects: Dict[int, Tuple[Any, MadeObject]] = {}
        self._busy: "Counter[int]" = Counter()
        self._models = 0
        self._open: Dict[int, Tuple[int, bool]] = {}
        self._awaited: Dict[int, Tuple[EntryCall, Any]] = {}
        self._states: Dict[int, str] = {}
        self._room = ROOM
        self._at_work = False
        self._unmade: Dict[Tuple[str, str], str] = {}

    def end(self) -> EntryTold:
        """What was called.

        Calls that are not made again, as those of copies, hide their class where the same method has no call that is.
        """
        recorded = {
            (self.told.objects[each.object_ - 1].class_, each.name)
            for each in self.told.calls
            if each.object_ and (not each.problem or self.told.objects[each.object_ - 1].model)  # those of models are told apart later
        }
        for (kind, method), reason in self._unmade.items():
            if (kind, method) not in recorded:
                for key in (kind, method):
                    self.told.hidden.setdefault(key, reason)
        return self.told

    def event(self, frame: "FrameType", event: str, value: Any) -> None:
        """What ``sys.setprofile`` calls."""
        if self._at_work:
            return
        if event == "return":
            if id(frame) in self._awaited:
                self._returned(*self._awaited.pop(id(frame)), value)
            if id(frame) in self._open:
                self._leave(*self._open.pop(id(frame)))
            return
        if event != "call":
            return
        definition = self._places.of_code(frame.f_code)
        if definition is None and frame.f_code.co_name != "__init__":
            return
        self._at_work = True  # what recording calls is none of the program's
        try:
            self._called(frame, definition)
        except Exception as error:  # noqa: BLE001 - it is none of the program's
            if definition is not None:
                self.told.hidden.setdefault(definition.key, f"a call of it cannot be recorded: {_said(error)}")
        finally:
            self._at_work = False

    def _called(self, frame: "FrameType", definition: Optional[Definition]) -> None:
        code = frame.f_code
        if definition is not None:
            self._reach(definition)
            later = next((told for flag, told in _LATER.items() if code.co_flags & flag), "")
            if later:
                self.told.hidden.setdefault(definition.key, later)
                return
        if code.co_name == "__init__" and (definition is None or definition.kind == "method"):
            self._construct(frame)
        elif definition is None or definition.kind == "other" or definition.key == self._target or code.co_name in _PARTS:
            return
        elif definition.kind == "method":
            self._method(frame, definition)
        else:
            given = arguments_of(frame)
            if definition.kind == "classmethod":
                given["positional"] = given["positional"][1:]
            call = self._note(definition, given, 0)
            if call is not None:
                self._awaited[id(frame)] = call, None

    def _reach(self, definition: Definition) -> None:
        for key in (definition.key, definition.key.rpartition(".")[0] if "." in definition.name else ""):
            if key and key not in self.told.reached:
                self.told.reached.append(key)

    # -- objects -----------------------------------------------------------------------------------------------------------

    def _construct(self, frame: "FrameType") -> None:
        """Note how an object is made; a constructor that another one calls is a part of it."""
        if not frame.f_code.co_argcount:
            return
        given = arguments_of(frame)
        made = given["positional"].pop(0)
        definition = self._places.of_class(type(made))
        if definition is None or self._busy[id(made)]:
            return
        self._enter(frame, made, model=False)
        self._reach(definition)
        self._objects.pop(id(made), None)  # an earlier object of this number has ended
        if self._made[definition.key] < self._most:
            self._keep(made, definition, given)
            if self.told.calls and self.told.calls[-1].object_ == len(self.told.objects):
                self._awaited[id(frame)] = self.told.calls[-1], made

    def _keep(self, made: Any, definition: Definition, given: Dict[str, Any]) -> MadeObject:
        self._made[definition.key] += 1
        known = MadeObject(len(self.told.objects) + 1, definition.key, model=self._session.adapter.is_model(made))
        tensors: List[Any] = []
        try:
            known.arguments = self._recorded(given, f"object#{known.number}", tensors)
        except NotPlain as problem:
            known.problem = f"its constructor is given {problem}"
        self.told.objects.append(known)
        self._objects[id(made)] = made, known
        if not known.model and not _is_plain(type(made)):
            self.told.calls.append(EntryCall(f"{definition.key}.__init__", known.number, problem=known.problem, object_=known.number))
        return known

    def _method(self, frame: "FrameType", definition: Definition) -> None:
        given = arguments_of(frame)
        if not given["positional"]:
            return
        owner = given["positional"].pop(0)
        if self._busy[id(owner)]:
            return  # a part of another call of this object
        model = self._session.adapter.is_model(owner)
        self._enter(frame, owner, model=model)
        known = self._known(owner, definition)
        if known is None:
            return
        if self._calls[known.number] >= self._most:
            self._unmade.setdefault((known.class_, definition.key), f"only the first {self._most} calls of an object are recorded")
            return
        self._calls[known.number] += 1
        if not known.called:
            known.called, known.depth = True, self._models - int(model)
            if model and not known.problem:
                self._note_state(owner, known)
        call = self._note(definition, given, known.number)
        if call is not None and (not model or self._is_as_noted(owner, known)):
            self._awaited[id(frame)] = call, None if model else owner

    def _known(self, owner: Any, definition: Definition) -> Optional[MadeObject]:
        """The object whose method is called; None of one that is not recorded."""
        kind = self._places.of_class(type(owner))
        if kind is None:
            self.told.hidden.setdefault(definition.key.rpartition(".")[0], "its object is of a class within a function")
            return None
        self._reach(kind)
        if id(owner) in self._objects and self._objects[id(owner)][0] is owner:
            return self._objects[id(owner)][1]
        if self._made[kind.key] >= self._most:
            self._unmade.setdefault((kind.key, definition.key), f"only the first {self._most} objects of a class are recorded")
            return None
        if _is_plain(type(owner)):
            return self._keep(owner, kind, {"positional": [], "named": {}})
        self._unmade.setdefault((kind.key, definition.key), "its constructor is none of Python's own, or its object is a copy")
        return None

    def _note_state(self, model: Any, known: MadeObject) -> None:
        try:
            entries = [each for each in self._session.adapter.state(model) if each.shared is None]
            self._take_room([each.tensor for each in entries])
            for each in entries:
                value = self._session.adapter.to_array(each.tensor)
                self._writer.add(f"state#{known.number}", value, role=each.role, leaf=each.name, run=DOUBLE)
            self._writer.flush()
        except NotPlain as problem:
            known.problem = str(problem)
        except Exception as error:  # noqa: BLE001 - lazy and quantised weights; it is none of the program's
            known.problem = f"its weights cannot be recorded: {_said(error)}"
        else:
            self._states[known.number] = self._state_figures(model)

    def _state_figures(self, model: Any) -> str:
        return figures(self._session.adapter, [each.tensor for each in self._session.adapter.state(model) if each.shared is None])

    def _is_as_noted(self, model: Any, known: MadeObject) -> bool:
        """Whether a model is in eval mode, with the weights that were noted."""
        if any(getattr(each, "training", False) for _, each in self._session.adapter.modules(model)):
            return False
        return bool(self._states.get(known.number)) and self._states[known.number] == self._state_figures(model)

    # -- calls -------------------------------------------------------------------------------------------------------------

    def _note(self, definition: Definition, given: Dict[str, Any], owner: int) -> Optional[EntryCall]:
        """Note a call; None where it is not made again."""
        number = self._numbers[definition.key] + 1
        if not owner and number > self._most:
            return None
        self._numbers[definition.key] = number
        call = EntryCall(definition.key, number, object_=owner)
        self.told.calls.append(call)
        tensors: List[Any] = []
        try:
            call.arguments = self._recorded(given, f"{call.name}#{number}", tensors)
        except NotPlain as problem:
            call.problem = f"it is given {problem}"
            return None
        if any(type(each).__name__ == "Parameter" and len(each.shape) > 1 for each in tensors):
            call.problem = "it is given weights of a model, which may lie in another layout on the other side"
            return None
        return call

    def _returned(self, call: EntryCall, owner: Any, value: Any) -> None:
        """Note figures of what a call gave back, and of its object then."""
        self._at_work = True
        try:
            parts = {"state": attributes_of(owner)} if call.name.endswith(".__init__") else {"result": value, "state": attributes_of(owner)}
            call.gave = figures(self._session.adapter, parts)
        except Exception as error:  # noqa: BLE001 - attributes that cannot be read; it is none of the program's
            self.told.hidden.setdefault(call.name, f"what it gives back cannot be read: {_said(error)}")
        finally:
            self._at_work = False

    def _recorded(self, given: Dict[str, Any], name: str, tensors: List[Any]) -> str:
        """Arguments as JSON.

        Raises:
            NotPlain: a part of them cannot be recorded, whatever the reason.
        """
        try:
            text = recorded(self._session, self._writer, given, name, "input", tensors, self._named)
            self._take_room(tensors)
            self._writer.flush()
        except NotPlain:
            raise
        except Exception as error:  # sparse, nested and quantised tensors; it is none of the program's
            raise NotPlain(f"what cannot be recorded: {_said(error)}") from error
        return text

    def _take_room(self, tensors: List[Any]) -> None:
        self._room -= sum(8 * math.prod(int(size) for size in each.shape) for each in tensors)
        if self._room < 0:
            raise NotPlain(f"more than is recorded of one entry ({ROOM >> 30} GiB)")

    def _named(self, value: Any) -> Optional[Dict[str, Any]]:
        """The source's own functions, classes and objects as JSON."""
        if isinstance(value, type):
            kind = self._places.of_class(value)
            return None if kind is None else {"named": kind.key}
        if inspect.isfunction(value):
            found = self._places.of_code(value.__code__)
            own = found is not None and found.kind == "function"
            if found is not None and own:
                return {"named": found.key}
            return None
        made, known = self._objects.get(id(value), (None, None))
        if known is None or made is not value or known.model or known.problem:
            return None
        return {"object": known.number}

    # -- what is under way -------------------------------------------------------------------------------------------------

    def _enter(self, frame: "FrameType", owner: Any, *, model: bool) -> None:
        self._busy[id(owner)] += 1
        self._models += int(model)
        self._open[id(frame)] = id(owner), model

    def _leave(self, owner: int, model: bool) -> None:
        self._busy[owner] -= 1
        if not self._busy[owner]:
            del self._busy[owner]
        self._models -= int(model)


def _said(error: Exception) -> str:
    """What an exception says, in a line."""
    return f"{type(error).__name__}: {one_line(message_of(error))[:SAID]}"


def _is_plain(kind: type) -> bool:
    """Whether objects of a class are made without arguments, as Python does it."""
    return not any(name in vars(each) for each in kind.__mro__ if each is not object for name in ("__init__", "__new__"))


__all__ = ["Places", "entry"]
