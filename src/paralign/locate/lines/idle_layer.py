"""A layer that the candidate builds and never calls: where its call belongs."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, islice
from typing import TYPE_CHECKING

from paralign.locate.lines.missing_step import between
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import calling_module
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import CONTEXT, common, computing, inner_lines, makers, users_of
from paralign.locate.source.statements import function_of

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement


def idle_layer(judgement: Judgement, operation: Operation, user: Operation) -> str:
    """The candidate's layer with an operation's parameters that is never called; else ''.

    ``user`` takes what the reference's operation takes, but plainly. Where nothing is called of the module that the layer is a part of,
    it is that module. The parameters of an operation without any are those of the next one, if both are parts of such a module.
    """
    taken = judgement.partners_of(filter(is_telling, user.inputs))
    if taken.isdisjoint(operation.inputs):
        return ""
    homes = {judgement.homes.get(v.record.name, "").rpartition(".")[0] for v in _parameters(judgement, operation)}
    if len(homes) != 1:
        return ""
    home = layer = homes.pop()
    called = {f"{o.module}." for o in judgement.candidate.operations}
    idle = ""
    while home and not any(module.startswith(f"{home}.") for module in called):
        idle, home = home, home.rpartition(".")[0]
    if idle == layer and not operation.takes_parameter:
        return ""  # the steps of one layer are told by those around them
    return idle


def _parameters(judgement: Judgement, operation: Operation) -> list[Value]:
    """The parameters of a reference's operation, or of the first lacking one after it."""
    after = reached([operation], lambda o: users_of(filter(judgement.lacking, o.outputs)), nearest_first=True)
    for step in islice(after, CONTEXT):
        if step.takes_parameter:
            return [v for v in step.inputs if v.is_parameter]
    return []


def beside_idle_layer(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """Where to call a layer that the candidate builds but never uses; None if there is none.

    The layer has the missing step's parameters. It belongs where other layers of the same module are called.
    """
    home, graph = idle_layer(judgement, missing, user), judgement.candidate
    around = home.rpartition(".")[0]
    if not home or around in graph.kinds:
        return None
    between_parts = _between_parts(judgement, around, user)
    if between_parts is not None:
        return between_parts
    called = _called_in(graph, around, user)
    if not called:
        return None
    givers = _givers(judgement, missing, user, called)
    if givers and user in called and function_of(givers[0].stack[0]) != function_of(user.stack[0]):
        return between(judgement, None, user.stack[0], later=False)  # after a helper that made what both take
    before = givers[0] if givers else _last_called_before(called, user)
    after = _called_after(called, before, user)
    first = None if before is None else before.stack[0]
    if not givers:
        first = _made_later(user, before) or first
    return between(judgement, first, None if after is None else after.stack[0], later=False)


def _givers(judgement: Judgement, missing: Operation, user: Operation, called: list[Operation]) -> list[Operation]:
    """The operations that make what a missing step takes, if possible for ``user`` too."""
    same: set[Operation] = set()
    for value in missing.inputs:
        same.update(makers(judgement.backwards.equals(value)))
    givers = [o for o in called if o in same and o.stack != user.stack]
    taken = set(makers(user.inputs))
    return [o for o in givers if o in taken] or givers


def _last_called_before(called: list[Operation], user: Operation) -> Operation | None:
    """The last of some operations that is done before another one, in another line."""
    earlier = [o for o in called if o.order < user.order and o.stack != user.stack]
    return earlier[-1] if earlier else None


def _called_after(called: list[Operation], before: Operation | None, user: Operation) -> Operation | None:
    """The first of some operations from another one on, or from ``user``, in another line."""
    if before is None:
        return next((operation for operation in called if operation.order >= user.order), None)
    return next((operation for operation in called if operation.order >= before.order and operation.stack != before.stack), None)


def _between_parts(judgement: Judgement, module: str, user: Operation) -> str | None:
    """The line before the call of ``user``'s part, in a module that only calls parts.

    All operations of such parts have the calls outside of the module in common; the next line further in is the module's.
    """
    parts = _parts(judgement.candidate, module)
    own = next((part for part, done in parts.items() if user in done), None)
    if own is None or len(parts) < 2:  # noqa: PLR2004 - several
        return None
    if not judgement.candidate.kinds.keys().isdisjoint(parts):  # layers of the framework
        return None
    others = [operation for part, done in parts.items() if part != own for operation in done]
    outside = min(common(operation, user) for operation in others)
    lines = {o: o.stack[-1 - outside] for o in chain(*parts.values()) if len(o.stack) > outside}
    if user not in lines or len(set(map(function_of, lines.values()))) != 1:
        return None
    earlier = [o for o, line in lines.items() if o.order < user.order and line != lines[user]]
    before = lines[max(earlier, key=lambda o: o.order)] if earlier else None
    return between(judgement, before, lines[user], later=True)


def _parts(graph: Graph, module: str) -> dict[str, list[Operation]]:
    """The parts of a module, by their whole names -> the operations that were done within."""
    inner = f"{module}." if module else ""
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation in graph.operations:
        if operation.stack and operation.module.startswith(inner):
            part = operation.module[len(inner) :].partition(".")[0]
            found[f"{inner}{part}"].append(operation)
    return found


def _called_in(graph: Graph, module: str, user: Operation) -> list[Operation]:
    """The operations that a module calls itself.

    Where ``user`` is one of its parts', also those of parts that its function calls.
    """
    called = [o for o in graph.operations if o.stack]
    own = [o for o in called if calling_module(graph, o) == module]
    inner = f"{module}." if module else ""
    if not user.stack or not user.module.startswith(inner):
        return own
    around = function_of(user.stack[0])
    if own and around not in {function_of(o.stack[0]) for o in own}:  # a function of one of its parts
        return own
    found: list[Operation] = []
    for operation in called:
        of_function = operation.module.startswith(inner) and function_of(operation.stack[0]) == around
        if of_function or calling_module(graph, operation) == module:
            found.append(operation)
    return found


def _made_later(user: Operation, before: Operation | None) -> str | None:
    """The line that made an operation's input in its function, after another operation."""
    if not user.stack:
        return None
    for maker in map(computing, makers(user.inputs)):
        if maker is None or maker.stack[1:] == user.stack[1:]:
            continue
        line, at = inner_lines(maker, user)
        if not at == user.stack[0] != line or function_of(line) != function_of(at):
            continue
        if before is None or before.order < maker.order:
            return line
    return None
