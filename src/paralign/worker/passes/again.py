"""Calls that an entry made (``calls/entry.py``), made again by themselves, in float64."""

from __future__ import annotations

import importlib
import json
from argparse import Namespace
from collections import deque
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set

from paralign.adapters.base import Defaulting
from paralign.adapters.finding import load
from paralign.capture import Capture
from paralign.capture.digest import moments
from paralign.errors import message_of, one_line
from paralign.worker.calls.effects import Effects, classes_of, says_something, told_changes, world
from paralign.worker.calls.own_functions import SAID, changed_values, note_values
from paralign.worker.calls.plain_values import NotPlain, rebuilt, recorded, tensors_of
from paralign.worker.calls.ran_lines import RanLines
from paralign.worker.calls.result_figures import attributes_of, figures
from paralign.worker.passes.forward import ModuleRecorder
from paralign.worker.protocol import Again, AgainCall, AgainTold, Entry, LayersTold
from paralign.worker.sides.session import DOUBLE, Session

if TYPE_CHECKING:
    from paralign.capture import CaptureWriter
    from paralign.worker.protocol import EntryCall, EntryTold, MadeObject


def build(path: str, number: int, framework: str, *, stated: bool) -> Any:
    """The recorded model of a number, made again: the ``build_model()`` of a proof.

    Args:
        path: of the capture of the entry.
        number: of the object.
        framework: of the side.
        stated: whether it is given the recorded state.
    """
    capture = Capture.open(path)
    made = _Objects(load(framework), capture, set(), double=False)  # the model is cast as a whole, later
    model = made.get(number)
    if stated:
        records = capture.select(name=f"state#{number}", run=DOUBLE)
        made.adapter.load_state(model, {each.leaf: capture.value(each) for each in records})
    return model


def again(session: Session, writer: "CaptureWriter", options: Again, values: "Dict[str, Capture]") -> AgainTold:
    """Make the calls again that the options name."""
    if options.object_:
        session.to_double(mixed=False)
        session.adapter.train(session.model, "eval")
    adapter = session.adapter
    with adapter.default_of(DOUBLE) if isinstance(adapter, Defaulting) else nullcontext():
        return _made_again(session, writer, options, values)


def _made_again(session: Session, writer: "CaptureWriter", options: Again, values: "Dict[str, Capture]") -> AgainTold:
    objects = _Objects(session.adapter, values["entry"], {each.key for each in options.definitions if each.kind in ("function", "class")})
    told = Entry.answer(values["entry"])
    due = [each for each in told.calls if _is_due(each, told, options)]
    modules = sorted({each.module for each in options.definitions})
    if not options.object_:
        return AgainTold([_Call(session, writer, objects, options).made(each) for each in due])
    objects.model = options.object_, session.model
    passed, built = RanLines(modules), RanLines(modules)
    answer = AgainTold()
    sink = ModuleRecorder(session, writer, DOUBLE, full=True, plain=True)
    watching = passed.watching() if modules else ExitStack()
    effects = Effects(session, modules, objects.told, session.model)
    with session.passing(), session.adapter.observe(session.model, sink), watching:
        answer.calls = [_Call(session, writer, objects, options).made(each) for each in due]
    answer.layers = LayersTold(classes_of(session), sorted(sink.empty), sink.unread, told_changes(session, writer, effects, objects.told))
    if modules:
        with suppress(Exception), built.watching():  # a model that can be built once only: no line of its building counts
            session.rebuilt(session.base_seed)
    answer.passed, answer.built = passed.lines, built.lines
    return answer


def _is_due(call: "EntryCall", told: "EntryTold", options: Again) -> bool:
    if call.problem or (options.names and call.name not in options.names) or f"{call.name}#{call.number}" in options.left_out:
        return False
    if options.object_ or not call.object_:
        return call.object_ == options.object_
    return not told.objects[call.object_ - 1].model


class _Objects:
    """The source's functions, classes and objects on this side.

    Objects are made when they are first asked for.

    ``names``: ``module:name`` of the functions and classes that both sides have.
    """

    def __init__(self, adapter: Any, calls: Capture, names: Set[str], *, double: bool = True) -> None:
        self.adapter, self._calls, self._names, self._double = adapter, calls, names, double
        self._told = Entry.answer(calls)
        self._made: Dict[int, Any] = {}
        self.model: "Optional[tuple[int, Any]]" = None

    def get(self, number: int) -> Any:
        """The object of a number.

        Raises:
            NotPlain: it cannot be made.
        """
        if self.model is not None and number == self.model[0]:
            return self.model[1]
        known: "MadeObject" = self._told.objects[number - 1]
        if known.problem:
            raise NotPlain(f"an object that cannot be made: {known.problem}")
        if number not in self._made:
            given = self.given(known.arguments, f"object#{number}")
            self._made[number] = named(known.class_)(*given["positional"], **given["named"])
        return self._made[number]

    def all(self) -> Dict[int, Any]:
        """Those that were made, by number."""
        return self._made

    def given(self, arguments: str, name: str) -> Any:
        """The arguments of a call; each time with tensors of their own."""
        return rebuilt(json.loads(arguments), tensors_of(self.adapter, self._calls, name, double=self._double), self._other)

    def _other(self, shape: Dict[str, Any]) -> Any:
        return named(shape["named"]) if "named" in shape else self.get(shape["object"])

    def told(self, value: Any) -> Optional[Dict[str, Any]]:
        """An object that was made here as JSON; of a top-level name, where it stands.

        Closures and functions of other packages have no name that says what they compute.
        """
        for number, each in self._made.items():
            if each is value:
                return {"object": number}
        if type(value).__name__ in ("dtype", "DataType"):
            return {"plain": str(value).rpartition(".")[2], "kind": "dtype"}
        key = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
        if key not in self._names or not callable(value):
            return None
        try:
            return {"named": key} if named(key) is value else None
        except AttributeError:  # it is called so, and stands nowhere
            return None

    def within(self, value: Any) -> Dict[str, Any]:
        """The objects within arguments, by their numbers."""
        if isinstance(value, (Namespace, SimpleNamespace)):
            return self.within(vars(value))
        if type(value) is partial:
            return self.within([list(value.args), value.keywords])
        if isinstance(value, dict):
            return {number: each for inner in value.values() for number, each in self.within(inner).items()}
        if type(value) in (list, tuple):
            return {number: each for inner in value for number, each in self.within(inner).items()}
        return {str(number): each for number, each in self._made.items() if each is value}


def named(key: str) -> Any:
    """What ``module:name`` stands for, ``module:Class.method`` too.

    Raises:
        AttributeError: the module has none.
        Exception: whatever importing it raises.
    """
    place, _, name = key.partition(":")
    found = importlib.import_module(place)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class _Call:
    """One call under way."""

    def __init__(self, session: Session, writer: "CaptureWriter", objects: _Objects, options: Again) -> None:
        self._session, self._writer, self._objects = session, writer, objects
        self._definitions = {each.key: each for each in options.definitions}
        self._modules = {each.module for each in options.definitions}
        self._is_model = bool(options.object_)

    def made(self, due: "EntryCall") -> AgainCall:
        """Make a call; what it raises is told of it."""
        call = AgainCall(due.name, due.number)
        self._session.seed()
        with suppress(Exception, SystemExit):  # before it is looked at: what importing it makes is none of the call's
            importlib.import_module(due.name.partition(":")[0])
        before = None if self._is_model else self._world()
        try:
            if due.name.endswith(".__init__"):
                with self._watched(call):
                    owner = self._objects.get(due.object_)
                state = self._state(owner, call)
                call.silent = not call.hidden and not says_something(self._session.adapter, state)
                self._note(call, {"state": state}, None)
                call.gave = figures(self._session.adapter, {"state": attributes_of(owner)})
            else:
                self._call(call, due)
        except NotPlain as problem:
            call.problem = str(problem)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the program raises is what is told of it
            call.problem = f"{type(error).__name__}: {one_line(message_of(error))[:SAID]}"
            call.left = before is not None and _is_other(before, self._world())
        self._writer.flush()
        return call

    def _call(self, call: AgainCall, due: "EntryCall") -> None:
        given = self._objects.given(due.arguments, f"{due.name}#{due.number}")
        with self._watched(call):
            owner = self._objects.get(due.object_) if due.object_ and not self._is_model else None
            others = self._objects.within(given)
            function = self._function(due)
            looked_at, effects = self._looked_at(given, owner, others), self._effects()
            value = function(*given["positional"], **given["named"])
        changes = effects.changes()
        nothing = not changes and not says_something(self._session.adapter, value)
        call.silent = nothing and self._looked_at(given, owner, others) == looked_at
        call.hidden = next((each.problem for each in changes if each.problem), "")
        changed = changed_values(changes)
        parts: Dict[str, Any] = {"changed": changed} if changed else {}
        if others:
            parts["objects"] = {number: self._state(each, call) for number, each in others.items()}
        if owner is not None:
            parts["state"] = self._state(owner, call)
        self._note(call, {"result": value, **parts} if parts else value, given)
        call.gave = figures(self._session.adapter, {"result": value, "state": attributes_of(owner)})

    def _note(self, call: AgainCall, value: Any, given: Any) -> None:
        note_values(self._session, self._writer, call, value, given, self._objects.told)

    def _looked_at(self, given: Any, owner: Any, others: Dict[str, Any]) -> List[str]:
        """Arguments and objects as texts; what cannot be compared is left out."""
        found = []
        for each in (given, self._state(owner), *(self._state(each) for each in others.values())):
            with suppress(NotPlain):
                found.append(self._seen(each))
        return found

    def _effects(self) -> Effects:
        """Variables of the source, and what a model's layers hold."""
        model = self._objects.model[1] if self._is_model and self._objects.model is not None else None
        return Effects(self._session, sorted(self._modules), self._objects.told, model)

    def _world(self) -> Dict[str, str]:
        """Marks of the variables of each module of the source, and of each object that was made."""
        return world(self._session.adapter, self._modules, self._objects.all())

    def _function(self, due: "EntryCall") -> Any:
        method = due.name.rpartition(".")[2]
        if not due.object_:
            return named(due.name)
        owner = self._objects.get(due.object_)
        if self._is_model and method == "forward":
            return owner
        return getattr(owner, method)

    def _state(self, owner: Any, call: Optional[AgainCall] = None) -> Dict[str, Any]:
        """The attributes of an object that can be compared; tells the call of one that cannot."""
        found, hidden = {}, ""
        if isinstance(owner, (dict, list, set, frozenset, tuple, deque)):
            hidden = "its object holds values that are no attributes, which are not compared"
        for name, each in attributes_of(owner).items():
            problem = self._problem_of(each)
            if not problem:
                found[name] = each
            elif not hidden:
                hidden = f"the attribute {name!r} of its object is {problem}, which is not compared"
        if call is not None:
            call.hidden = call.hidden or hidden
        return found

    def _problem_of(self, value: Any) -> str:
        """What a value is that cannot be compared; '' of one that can."""
        try:
            self._seen(value)
        except NotPlain as problem:
            return str(problem)
        return ""

    def _seen(self, value: Any) -> str:
        """A value as one text, its tensors by their digests.

        Raises:
            NotPlain: it is none that can be recorded.
        """
        digests = _Digests()
        return recorded(self._session, digests, value, "", "", [], self._objects.told) + "".join(digests.found)  # type: ignore[arg-type] # takes records, as a writer does

    @contextmanager
    def _watched(self, call: AgainCall) -> Iterator[None]:
        """Note which lines of its own definition a call runs, but for a model's calls."""
        around = self._definitions.get(call.name)
        if "." in call.name.partition(":")[2]:
            around = self._definitions.get(call.name.rpartition(".")[0])
        if around is None or self._is_model:
            yield
            return
        importlib.import_module(around.module)  # before it is watched: its lines are none of the call's
        ran = RanLines([around.module])
        try:
            with ran.watching():
                yield
        finally:
            lines = ran.lines.get(around.module, [])
            call.lines = [line for line in lines if around.first <= line <= around.last]


def _is_other(before: Dict[str, str], now: Dict[str, str]) -> bool:
    """Whether what there was is another, or an object was made.

    A module that was imported since is none of a call's effects.
    """
    return any(now.get(key) != mark for key, mark in before.items()) or any("#" in key for key in now if key not in before)


class _Digests:
    """Takes records as a writer does, and keeps their digests."""

    def __init__(self) -> None:
        self.found: List[str] = []

    def add(self, _: str, value: Any, **__: Any) -> None:
        """Note a record."""
        self.found.append(moments(value))


__all__ = ["again", "build", "named"]
