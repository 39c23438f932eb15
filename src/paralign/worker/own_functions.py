"""Calls of the user's own functions, recorded while the model runs.

They are made again by themselves with what was recorded.

The reference's task notes what each function of a module's top level is given and what it gives back. The candidate's takes that capture
as ``calls`` and calls its function of the same name with the same arguments, whether its own model would have called it or not.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from paralign.errors import message_of, one_line
from paralign.worker.protocol import FunctionCall, FunctionCalls, Functions
from paralign.worker.ran_lines import RanLines
from paralign.worker.session import DOUBLE, Session

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.capture import Capture, CaptureWriter

#: levels of containers that arguments may have: deeper ones hold themselves
DEPTH = 8

#: tensors of one call that are recorded
TENSORS = 64

#: characters of what a function raised
SAID = 200

_PLAIN = (bool, int, float, str)


class NotPlain(Exception):
    """A value that is not plain; the message says what it is.

    Plain are tensors, numbers, texts, and lists, tuples or dicts of them.
    """


def functions(session: Session, writer: "CaptureWriter", options: Functions, values: "Dict[str, Capture]") -> FunctionCalls:
    """Record calls, or make those of ``calls`` again, in float64."""
    if "calls" in values:  # the model is not asked for: a function may be right in a port that cannot be built
        session.seed()
        return _again(session, writer, values["calls"])
    with session.untouched():
        session.to_double()
        session.adapter.train(session.model, "eval")
        session.seed()
        inputs = session.inputs(values["inputs"], DOUBLE)
        recorder = _Recorder(session, writer, options)
        with session.passing():
            before = sys.getprofile()
            sys.setprofile(recorder.event)
            try:
                session.call(session.fresh(inputs))
            finally:
                sys.setprofile(before)
        return FunctionCalls(recorder.calls, *_lines(session, inputs, options.modules))


def _lines(session: Session, inputs: Any, modules: List[str]) -> "Tuple[Dict[str, List[int]], Dict[str, List[int]]]":
    """Lines that a pass runs, and those that building a model runs; what fails has none."""
    if not modules:
        return {}, {}
    passed, built = RanLines(modules), RanLines(modules)
    session.seed()
    with session.passing(), passed.watching():
        session.call(inputs)
    with suppress(Exception), built.watching():  # a model that can be built once only: no line of its building counts
        session.rebuilt(session.base_seed)
    return passed.lines, built.lines


class _Recorder:
    """Take the interpreter's events of calls and returns of the wanted functions."""

    def __init__(self, session: Session, writer: "CaptureWriter", options: Functions) -> None:
        self.session, self.writer, self.most = session, writer, options.most
        self.codes = _codes(options.names)
        self.calls: List[FunctionCall] = []
        self._counts: Dict[str, int] = {}
        self._open: Dict[int, Tuple[FunctionCall, List[Any]]] = {}
        self._weights = {id(e.tensor) for e in session.entries() if len(getattr(e.tensor, "shape", ())) > 1}
        self._at_work = False

    def event(self, frame: "FrameType", event: str, value: Any) -> None:
        """What ``sys.setprofile`` calls."""
        if self._at_work or frame.f_code not in self.codes:
            return
        self._at_work = True  # what recording calls is none of the program's
        try:
            if event == "call":
                self._begin(frame)
            elif event == "return" and id(frame) in self._open:
                self._end(*self._open.pop(id(frame)), value)
        finally:
            self._at_work = False

    def _begin(self, frame: "FrameType") -> None:
        name = self.codes[frame.f_code]
        number = self._counts[name] = self._counts.get(name, 0) + 1
        if number > self.most:
            return
        call = FunctionCall(name, number)
        self.calls.append(call)
        given: List[Any] = []
        try:
            call.arguments = self._told(_arguments(frame), f"{name}#{number}", "input", given)
        except NotPlain as problem:
            call.problem = f"it is given {problem}"
            return
        if any(id(each) in self._weights for each in given):
            call.problem = "it is given weights of the model, which lie in another layout on the other side"
            return
        self._open[id(frame)] = (call, given)

    def _end(self, call: FunctionCall, given: List[Any], value: Any) -> None:
        _note_result(self.session, self.writer, call, value, given)

    def _told(self, value: Any, name: str, role: str, tensors: List[Any]) -> str:
        return _recorded(self.session, self.writer, value, name, role, tensors)


def _codes(names: List[str]) -> "Dict[CodeType, str]":
    """Code -> name of the plain functions.

    Generators and coroutines return before they are done.
    """
    found = {}
    for name in names:
        function = _function(name, imports=False)
        code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
        if code is not None and not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            found[code] = name
    return found


def _function(name: str, *, imports: bool) -> Optional[Callable[..., Any]]:
    """A function by ``module:name``; None where the module was not imported, or has none."""
    place, _, last = name.partition(":")
    module = importlib.import_module(place) if imports else sys.modules.get(place)
    found = vars(module).get(last) if module is not None else None
    return found if callable(found) and not isinstance(found, type) else None


def _arguments(frame: "FrameType") -> Dict[str, Any]:
    """What a call was given: ``positional`` in order, ``named`` by keyword."""
    code, local = frame.f_code, frame.f_locals
    count = code.co_argcount
    names = list(code.co_varnames)
    positional = [local[name] for name in names[:count]]
    named = {name: local[name] for name in names[count : count + code.co_kwonlyargcount]}
    at = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        positional += list(local[names[at]])
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        named.update(local[names[at]])
    return {"positional": positional, "named": named}


def _note_result(session: Session, writer: "CaptureWriter", call: FunctionCall, value: Any, given: List[Any]) -> None:
    """Record what a call gave back.

    Where that holds no tensor, also what it may have changed in place.
    """
    made: List[Any] = []
    name = f"{call.name}#{call.number}"
    try:
        call.result = _recorded(session, writer, value, name, "output", made)
    except NotPlain as problem:
        call.problem = f"it gives back {problem}"
        return
    if not made:
        _recorded(session, writer, given, name, "output", made)


def _recorded(session: Session, writer: "CaptureWriter", value: Any, name: str, role: str, tensors: List[Any]) -> str:
    """A value as JSON, its tensors as numbers of records that are written beside."""

    def told(each: Any, depth: int) -> Any:
        if session.adapter.is_tensor(each):
            if len(tensors) >= TENSORS:
                raise NotPlain(f"more than {TENSORS} tensors")
            writer.add(name, session.adapter.to_array(each), role=role, leaf=str(len(tensors)), run=DOUBLE)
            tensors.append(each)
            return {"tensor": len(tensors) - 1}
        if each is None or type(each) in _PLAIN:
            return {"plain": repr(each) if isinstance(each, float) else each, "kind": type(each).__name__}
        if depth >= DEPTH:
            raise NotPlain("containers within containers without end")
        if type(each) in (list, tuple):
            return {type(each).__name__: [told(inner, depth + 1) for inner in each]}
        if type(each) is dict and all(type(key) is str for key in each):
            return {"dict": {key: told(inner, depth + 1) for key, inner in each.items()}}
        raise NotPlain(f"a {type(each).__name__}")

    return json.dumps(told(value, 0))


def _rebuilt(shape: Any, tensors: Dict[str, Any]) -> Any:
    """The value of what :func:`_recorded` said."""
    if "tensor" in shape:
        return tensors[str(shape["tensor"])]
    if "list" in shape:
        return [_rebuilt(each, tensors) for each in shape["list"]]
    if "tuple" in shape:
        return tuple(_rebuilt(each, tensors) for each in shape["tuple"])
    if "dict" in shape:
        return {key: _rebuilt(each, tensors) for key, each in shape["dict"].items()}
    return float(shape["plain"]) if shape["kind"] == "float" else shape["plain"]


def _again(session: Session, writer: "CaptureWriter", calls: "Capture") -> FunctionCalls:
    """Each recorded call made again with this side's function of the same name."""
    answer = FunctionCalls()
    for due in Functions.answer(calls).calls:
        if due.problem or not due.result:
            continue
        call = FunctionCall(due.name, due.number)
        answer.calls.append(call)
        function = _function(due.name, imports=True)
        if function is None:
            call.problem = "the port has no function of this name"
            continue
        records = {r.leaf: r for r in calls.select(name=f"{due.name}#{due.number}", run=DOUBLE) if r.role == "input"}
        tensors = {leaf: session.tensor(calls.value(record), DOUBLE) for leaf, record in records.items()}
        given = _rebuilt(json.loads(due.arguments), tensors)
        try:
            with session.passing():
                value = function(*given["positional"], **given["named"])
        except Exception as error:  # noqa: BLE001 - whatever the port raises is what is told of it
            call.problem = f"the port raises {type(error).__name__}: {one_line(message_of(error))[:SAID]}"
            continue
        _note_result(session, writer, call, value, list(tensors.values()))
    return answer
