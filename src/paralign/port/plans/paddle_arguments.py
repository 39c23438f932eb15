"""Each argument of a call in Paddle: its name, its value, or the reason why it is refused."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.lookup import arguments_of, entries_of
from paralign.catalogue.naming import names, paddle_argument
from paralign.catalogue.parameters import Kind, Signature, Table, literal
from paralign.port.plans.call_plan import RECEIVER, ByHand, Different, Overfull, Plan, as_default
from paralign.port.plans.conversions import Way, conversions, was_executed

if TYPE_CHECKING:
    from paralign.port.names.values import Use


#: callables of Paddle that take PyTorch's arguments
_COMPAT = "paddle.compat."

_SELF = frozenset({"x", "input", "tensor", "self"})

#: callables of Paddle whose stored signature lacks a keyword that they take
_OPEN = frozenset({"torch.meshgrid"})


#: arguments whose counterpart in Paddle means something else: the opposite, a part of it, or another thing
_TURNED = frozenset({"track_running_stats", "batch_first", "bidirectional", "count_include_pad"})


def name_arguments(use: Use, made: Plan, paddle: Table, way: Way | None) -> None:
    """Each argument's name in Paddle.

    Raises:
        ByHand: Paddle does not take it, or nobody executed the call with it.
    """
    table = conversions()
    ours = paddle.signature(made.port)
    if made.port.startswith("paddle.Tensor.") and ours.parameters and ours.parameters[0].name in _SELF:
        ours = replace(ours, parameters=ours.parameters[1:])
    if made.bound.unknown:
        raise ByHand(f"PyTorch's signature has no argument {next(iter(made.bound.unknown))}")
    if made.bound.many and "*" not in (way.same if way else ()):
        raise Overfull("more arguments than its signature has")
    mapped = arguments_of(use.name)
    places = [each.name for each in ours.parameters if each.kind is Kind.PLAIN]
    theirs = [each.name for each in made.bound.signature.parameters if each.kind is Kind.PLAIN]
    for name, node in made.bound.given.items():
        if node is RECEIVER or name in made.removed or (way is not None and _by_way(name, node, made, way)):
            continue
        target = paddle_argument(name, mapped, ours)
        covered = name in made.added or (target is not None and target in made.added)
        if covered:
            _allowed(use, name, node, made, way)
        taken = _is_taken(name, target, ours)
        if covered or name in table.dropped or _goes_unsaid(use, name, node, made, way, taken=taken):
            made.removed.add(name)
            continue
        _allowed(use, name, node, made, way)
        if use.name in _OPEN and name == "indexing":
            continue  # Paddle takes it among keywords that it does not list
        made.keywords[name] = _placed(
            name, target, theirs, places, ours, gathers=bool(way and way.same and ours.gathers), compat=made.port.startswith(_COMPAT)
        )
    _defaults(use, made, ours, mapped)


def _defaults(use: Use, made: Plan, ours: Signature, mapped: dict[str, str]) -> None:
    """Write defaults that differ, but those that the catalogue's entries speak of."""
    if made.bound.open:
        return
    settled = {name for name in made.bound.given if name not in made.removed} | made.added.keys()
    given = frozenset(settled)
    for entry in entries_of(use.name):
        settled |= {*entry.fix.set, *entry.fix.drop, *entry.arguments}
    for each in made.bound.signature.parameters:
        target = paddle_argument(each.name, mapped, ours)
        parameter = None if target is None else ours.parameter(target)
        if parameter is None or target is None:
            continue
        needed = parameter.default is None and parameter.kind is Kind.PLAIN
        if not (given if needed else settled).isdisjoint((each.name, target)):
            continue
        try:
            theirs = literal(each.default)
            mine = ... if parameter.default is None else literal(parameter.default)
        except ValueError:
            continue
        if ((needed and theirs is not None) or (type(theirs) is type(mine) and theirs != mine)) and each.name not in conversions().dropped:
            made.added[target] = repr(theirs)
            settled.add(target)


def _by_way(name: str, node: ast.expr, made: Plan, way: Way) -> bool:
    """Write an argument as the table says; False where it says nothing of it."""
    if name == "inplace" and name in way.same:
        _in_place(node, made)
        return True
    texts = {} if as_default(name, made.bound) else way.written(name)
    made.added.update(_decided(texts, made.bound.value(name)))
    if texts:
        made.removed.add(name)
    return bool(texts)


def _decided(texts: dict[str, str], value: object) -> dict[str, str]:
    """Texts with a choice made where the source shows it."""
    return {name: "False" if value is False and text.endswith(" else False") else text for name, text in texts.items()}


def _goes_unsaid(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None, *, taken: bool) -> bool:
    """Whether an argument has its default, and Paddle's call is better without it.

    Raises:
        ByHand: it has another value, and means something else in Paddle.
    """
    if not as_default(name, made.bound):
        if name in _TURNED:
            raise ByHand(f"Paddle's argument for {name} means something else")
        return False
    if name in _TURNED:
        return True
    return not taken or not _is_allowed(use, name, node, made, way)


def _is_taken(name: str, target: str | None, ours: Signature) -> bool:
    """Whether Paddle's callable takes an argument.

    One whose signature is not known is taken to.
    """
    if not ours.known or ours.gathers:
        return True
    return any(each in ours.names or each in ours.accepts for each in (name, target or name))


def _is_allowed(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None) -> bool:
    try:
        _allowed(use, name, node, made, way)
    except ByHand:
        return False
    return True


def _in_place(node: ast.expr, made: Plan) -> None:
    made.removed.add("inplace")
    if not (isinstance(node, ast.Constant) and node.value is False):
        made.conditions.append(
            "PyTorch changes the layer's input in place, Paddle does not: another result only where the input is read again"
        )


def _allowed(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None) -> None:
    if name == "dim" and isinstance(made.bound.value(name), bool):
        raise Different("a truth value in the place of an axis means something else")
    if name == "input" or (way is not None and name in way.same):
        return
    parameter = made.bound.signature.parameter(name)
    try:
        default = literal(parameter.default if parameter else None)
    except ValueError:
        default = ...
    if not was_executed(use.name, name, node, default):
        raise ByHand(f"nobody executed it on both sides with {name}={ast.unparse(node)[:40]}")


def _placed(
    name: str, target: str | None, theirs: list[str], places: list[str], ours: Signature, *, gathers: bool, compat: bool
) -> str | None:
    """The keyword that an argument needs; None where it may stay as it is."""
    offered = ours.names
    if not ours.known or gathers or compat:
        return None
    is_taken = name in offered or name in ours.accepts
    if target is not None and target not in offered:  # accepted by name only: at its place it is called otherwise
        target = next((each for each in names().arguments.get(name, []) if each in offered), target)
    at = theirs.index(name) if name in theirs else -1
    if 0 <= at < len(places) and places[at] in (target, name):
        return None if is_taken else places[at]
    if is_taken:
        return target if target in offered else name
    if target is None or (target not in offered and target not in ours.accepts):
        raise ByHand(f"Paddle has no argument {name}")
    return target
