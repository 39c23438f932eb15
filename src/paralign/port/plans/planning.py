"""What a call is written as in Paddle, or the reason why it is refused.

The catalogue and the table of conversions decide.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.binding import UNREADABLE, bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Entry, Outcome
from paralign.catalogue.lookup import entries_of
from paralign.catalogue.naming import names, paddle_name
from paralign.port.names.values import Form
from paralign.port.plans.call_plan import HOLE, ByHand, Plan, as_default
from paralign.port.plans.conversions import Way, conversions, signature_of
from paralign.port.plans.covered_differences import cover
from paralign.port.plans.paddle_arguments import name_arguments
from paralign.port.plans.tensor_constructors import FILLED, MOVES, plan_constructor, plan_move

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound
    from paralign.catalogue.parameters import Table
    from paralign.port.names.values import Use


#: second names that PyTorch takes for parameters, as numpy calls them
_SECOND = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "A": "input", "x1": "input", "x2": "other",
           "element": "elements", "test_element": "test_elements"}  # fmt: skip

#: what the first parameter is called in the stored signatures, whose functions take it by the name ``input`` too
_FIRST = frozenset({"A", "a", "x", "self", "tensor", "vec", "y"})

#: what is a list already; None where a list of layers begins empty
_LISTS = (ast.List, ast.ListComp, type(None))

#: starts whose spread depends on which axis of a weight its inputs are
_FANS = frozenset({"torch.nn.init.kaiming_normal_", "torch.nn.init.kaiming_uniform_"})

#: accepted differences of calls that templates write
_TOLD = frozenset({"numpy-shares", "from-numpy-shares"})


def plan(use: Use, paddle: Table) -> Plan:
    """Say how a call is written in Paddle.

    Raises:
        ByHand: nothing that was executed says how.
    """
    table = conversions()
    way = table.calls.get(use.name)
    if use.name in MOVES:
        return plan_move(use)
    if use.name in FILLED:
        return plan_constructor(use)
    bound = _bound(use)
    chosen = _chosen(use, bound, way)
    if chosen is not None:
        return _templated(use, bound, chosen)
    port = _port(use, way, paddle)
    if bound.open and (way is None or "*" not in way.same):
        raise ByHand("its arguments are not shown (*arguments or **keywords)")
    made = Plan(port, bound)
    for entry in entries_of(use.name):
        if entry.outcome is not Outcome.EQUAL:
            cover(entry, use, made)
    if not made.template:
        name_arguments(use, made, paddle, way)
    made.conditions += [way.told] if way and way.told else []
    return made


def _bound(use: Use) -> Bound:
    """A call's arguments by parameter, those given by a second name too."""
    signature = signature_of(use.name)
    bound = bind(signature, use.positional, use.keywords)
    first = signature.parameters[0].name if signature.parameters else ""
    for name in list(bound.unknown):
        target = first if name == "input" and first in _FIRST else _SECOND.get(name, "")
        if target and signature.parameter(target) is not None and target not in bound.given:
            bound.given[target] = bound.unknown.pop(name)
    way = conversions().calls.get(use.name)
    if way is not None and way.template and signature.parameter("reduction") is not None:
        _reduced(bound)
    return bound


def _reduced(bound: Bound) -> None:
    """Give a loss ``reduction`` in place of literals that stood for it once."""
    given = {name: bound.value(name) for name in ("size_average", "reduce") if name in bound.given}
    if not given or UNREADABLE in given.values():
        return
    for name in given:
        del bound.given[name]
    average, reduce = (given.get(name) for name in ("size_average", "reduce"))
    if average is None and reduce is None:
        return
    whole = "mean" if average is None or average else "sum"
    bound.given["reduction"] = ast.Constant("none" if reduce is not None and not reduce else whole)


def _port(use: Use, way: Way | None, paddle: Table) -> str:
    """The name of Paddle's callable.

    Raises:
        ByHand: there is none, or nobody executed it.
    """
    port = (way.call if way else "") or paddle_name(use.name, paddle)
    if not port:
        raise ByHand(_missing(use.name))
    if way is None and not entries_of(use.name):
        raise ByHand("not among the calls that were executed on both sides")
    if not (way and way.call) and any(pattern.match(use.name) for pattern, _ in names().otherwise_written):
        raise ByHand("written in another way altogether in Paddle")
    return port


def _chosen(use: Use, bound: Bound, way: Way | None) -> Way | None:
    """The template that writes a call; None where it keeps its form."""
    if use.name.startswith("torch.optim.") and "params" in bound.given and not _whole(bound):
        grouped = conversions().grouped.get(use.name)
        if grouped is None:
            raise ByHand("groups of parameters, or parameters that are not model.parameters(): a rate of a group is a factor in Paddle")
        return replace(grouped, template=_by_argument(use, bound, grouped) or grouped.template)
    if way is None:
        return way
    if use.name == "torch.nn.ModuleList" and use.form is Form.CALL and not isinstance(bound.given.get("modules"), _LISTS):
        return Way("paddle.nn.LayerList(list({modules}))")  # Paddle loses the first of a generator
    if use.name == "torch.einsum" and len(use.positional) == 2 and bound.many and not bound.open:  # noqa: PLR2004 - an equation and one more
        return Way("_einsum({*})")  # its operands may be in a list
    template = _by_argument(use, bound, way) or way.template
    return replace(way, template=template) if template else None


def _by_argument(use: Use, bound: Bound, way: Way) -> str:
    """The template that an argument asks for, given or not; '' without one."""
    for argument, template in way.absent:
        if not bound.open and not bound.many and (argument not in bound.given or bound.value(argument) in (None, UNREADABLE)):
            return template
    given = _by_given(bound, way)
    if given:
        return given
    if bound.open and way.open:
        return way.open
    for argument, template in way.either:
        if argument in bound.given and not _is_number(bound.given[argument]):
            return template
    for argument, template in way.single:
        if argument in bound.given and not _is_several(bound.given[argument], use.name):
            return template
    return ""


def _by_given(bound: Bound, way: Way) -> str:
    """The template that an argument asks for which is given; '' without one."""
    for argument, template in way.spelled:
        if argument in bound.given:
            return template
    for argument, template in way.instead:
        if bound.given.get(argument) is not None and bound.value(argument) is not None and not as_default(argument, bound):
            return template
    return ""


def _is_number(node: ast.expr) -> bool:
    """Whether an argument is a number by its form, or several of them."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant | ast.Tuple | ast.List)


def _is_several(node: ast.expr, name: str) -> bool:
    """Whether an argument is several numbers by its form, or None."""
    if not hasattr(node, "lineno") and name.rpartition(".")[2][:1].isupper():
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):  # a part of a shape
        return True
    return isinstance(node, ast.Tuple | ast.List) or (isinstance(node, ast.Constant) and node.value is None)


def _whole(bound: Bound) -> bool:
    """Whether an optimizer is given ``model.parameters()`` and no other form."""
    given = bound.given.get("params")
    return isinstance(given, ast.Call) and getattr(given.func, "attr", "") == "parameters"


def _missing(name: str) -> str:
    words = names().missing.get(name)
    if words is None:
        return "Paddle has no counterpart"
    return f"Paddle has no counterpart; {words.en}"


def _templated(use: Use, bound: Bound, way: Way) -> Plan:
    """Plan a call that a template writes as a whole.

    Raises:
        ByHand: an argument is not shown, or the template does not write it.
    """
    _check_written(use, bound, way)
    for name, value in way.only:
        if bound.value(name) is UNREADABLE or bound.value(name) != value:
            raise ByHand(f"only with {name}={value} is it the same in Paddle")
    conditions = [entry.differs.en for entry in entries_of(use.name) if _stays(entry, bound)]
    if use.name == "torch.Tensor.is_contiguous":
        conditions.append("Whether a result lies in order is each framework's own business: what depends on it may take another way.")
    if use.name in _FANS:
        conditions.append(
            "Paddle counts the inputs of a matrix along its first axis: another spread only for one that is no Linear's weight."
        )
    if way.told:
        conditions.append(way.told)
    return Plan(use.name, bound, template=way.template, entries=["conversions"], conditions=conditions, refuses=way.refuses)


def _check_written(use: Use, bound: Bound, way: Way) -> None:
    """Refuse a call of which a template does not write every argument."""
    written = {*HOLE.findall(way.template), *way.ignored, *(name for name, _ in way.only)}
    if "{*}" in way.template:
        written |= {name for name, node in bound.given.items() if any(node is each for each in use.positional)}
    for name in (*bound.given, *bound.unknown):
        if name in conversions().dropped or name in written:
            continue
        if not as_default(name, bound):
            raise ByHand(f"no rule for its argument {name}")
    gathers = "{*}" in way.template and not any(each.arg is None for each in use.keywords)
    if (bound.open or bound.many) and not gathers:
        raise ByHand("its arguments are not shown one by one")


def _stays(entry: Entry, bound: Bound) -> bool:
    """Whether an accepted difference may show in a call that a template writes."""
    if entry.outcome is Outcome.EQUAL:
        return False
    return entry.id in _TOLD and holds(entry.when, bound) is not False
