"""Calls of the user's own functions, recorded while the model runs.

They are made again by themselves with what was recorded.

The reference's task notes what each function of a module's top level is given and what it gives back. The candidate's takes that capture
as ``calls`` and calls its function of the same name with the same arguments, whether its own model would have called it or not.
"""

from __future__ import annotations

import dis
import importlib
import inspect
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from paralign.errors import message_of, one_line
from paralign.worker.calls.effects import Change, Effects, Marks, says_something
from paralign.worker.calls.plain_values import NotPlain, rebuilt, recorded, tensors_of
from paralign.worker.calls.ran_lines import RanLines
from paralign.worker.protocol import FunctionCall, FunctionCalls, Functions
from paralign.worker.sides.session import DOUBLE, Session

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.calls.plain_values import More

#: characters of what a function raised
SAID = 200


def functions(session: Session, writer: "CaptureWriter", options: Functions, values: "Dict[str, Capture]") -> FunctionCalls:
    """Record calls, or make those of ``calls`` again, in float64."""
    if "calls" in values:  # the model is not asked for: a function may be right in a port that cannot be built
        session.seed()
        return _again(session, writer, options, values["calls"])
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


@dataclass
class Around:
    """What stood before a call: its arguments, and the variables that it may change."""

    given: Dict[str, Any]
    mark: str
    effects: Effects

    @staticmethod
    def of(session: Session, given: Dict[str, Any], modules: List[str]) -> "Around":
        """Look at arguments and variables as they are now."""
        return Around(given, Marks(session.adapter, set()).of(given), Effects(session, modules))


class _Recorder:
    """Take the interpreter's events of calls and returns of the wanted functions."""

    def __init__(self, session: Session, writer: "CaptureWriter", options: Functions) -> None:
        self.session, self.writer, self.most, self.modules = session, writer, options.most, options.modules
        self.codes = _codes(options.names)
        self.calls: List[FunctionCall] = []
        self._counts: Dict[str, int] = {}
        self._open: Dict[int, Tuple[FunctionCall, Around]] = {}
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
                call, around = self._open.pop(id(frame))
                if value is None and has_raised(frame):
                    call.problem = "the original raises"
                else:
                    note_result(self.session, self.writer, call, value, around)
        finally:
            self._at_work = False

    def _begin(self, frame: "FrameType") -> None:
        name = self.codes[frame.f_code]
        number = self._counts[name] = self._counts.get(name, 0) + 1
        if number > self.most:
            return
        call = FunctionCall(name, number)
        self.calls.append(call)
        given, tensors = arguments_of(frame), []  # type: Dict[str, Any], List[Any]
        try:
            call.arguments = recorded(self.session, self.writer, given, f"{name}#{number}", "input", tensors)
        except NotPlain as problem:
            call.problem = f"it is given {problem}"
            return
        if any(id(each) in self._weights for each in tensors):
            call.problem = "it is given weights of the model, which lie in another layout on the other side"
            return
        self._open[id(frame)] = call, Around.of(self.session, given, self.modules)


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


def arguments_of(frame: "FrameType") -> Dict[str, Any]:
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


def has_raised(frame: "FrameType") -> bool:
    """Whether a frame that is left with None raises: it is left elsewhere than at a return."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return not name.startswith("RETURN")


def note_result(session: Session, writer: "CaptureWriter", call: FunctionCall, value: Any, around: Around) -> None:
    """Record what a call gave back and what it changed.

    It may change variables of the modules, and its arguments.
    """
    changes = around.effects.changes()
    changed = changed_values(changes)
    is_same = Marks(session.adapter, set()).of(around.given) == around.mark
    call.silent = not changes and is_same and not says_something(session.adapter, value)
    call.hidden = next((each.problem for each in changes if each.problem), "")
    note_values(session, writer, call, {"result": value, "changed": changed} if changed else value, around.given)


def changed_values(changes: List[Change]) -> Dict[str, Any]:
    """The values of changes that can be compared, by owner and name."""
    return {each.key: each.value for each in changes if not each.problem}


def note_values(
    session: Session, writer: "CaptureWriter", call: FunctionCall, value: Any, given: Any, more: "Optional[More]" = None
) -> None:
    """Record a result and the arguments after the call; what is not plain is told of the call."""
    name, tensors = f"{call.name}#{call.number}", []  # type: str, List[Any]
    try:
        call.result = recorded(session, writer, value, name, "output", tensors, more)
    except NotPlain as problem:
        call.problem = f"it gives back {problem}"
        return
    try:
        call.given = recorded(session, writer, given, name, "output", tensors, more)
    except NotPlain as problem:
        call.hidden = call.hidden or f"its arguments hold {problem} after it, which is not compared"


def _again(session: Session, writer: "CaptureWriter", options: Functions, calls: "Capture") -> FunctionCalls:
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
        tensors = tensors_of(session.adapter, calls, f"{due.name}#{due.number}")
        given = rebuilt(json.loads(due.arguments), tensors)
        around = Around.of(session, given, options.modules)
        try:
            with session.passing():
                value = function(*given["positional"], **given["named"])
        except Exception as error:  # noqa: BLE001 - whatever the port raises is what is told of it
            call.problem = f"the port raises {type(error).__name__}: {one_line(message_of(error))[:SAID]}"
            continue
        note_result(session, writer, call, value, around)
    return answer
