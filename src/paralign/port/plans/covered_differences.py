"""Known differences that a call may show: fixed, accepted with a word, or refused."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.binding import bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Entry, Outcome, Scope
from paralign.catalogue.naming import function_of, torch_signature
from paralign.port.plans.call_plan import HOLE, RECEIVER, ByHand, Different, Plan
from paralign.port.plans.conversions import conversions

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound
    from paralign.port.names.values import Use


def cover(entry: Entry, use: Use, made: Plan) -> None:
    """Apply the fix of a difference, accept it with a word, or refuse.

    Raises:
        ByHand: the difference may show, and no fix covers it.
    """
    own = use.name == entry.torch or use.name in entry.also
    function = None if own else function_of(use.name)
    bound = made.bound if function is None else bind(torch_signature(function), use.positional, use.keywords, RECEIVER)
    truth = holds(entry.when, bound)
    if truth is False or _is_irrelevant(entry, use, made, bound):
        return
    table = conversions()
    if entry.id in table.switched and truth is None:
        made.entries.append(entry.id)
        made.added.update({name: f"{value} if {{{table.switched[entry.id]}}} else False" for name, value in entry.fix.set.items()})
    elif entry.fix.mechanical and _is_certain(entry, truth):
        _apply(entry, made, bound, function=function is not None)
    elif entry.id in table.accepted or entry.scope is not Scope.CALL:
        where = f" Only {entry.data.en}." if entry.data.en else ""
        made.conditions.append(entry.differs.en + where)
    elif entry.outcome is Outcome.RAISES and entry.data.en:
        return  # Paddle refuses such data: nothing goes wrong in silence
    else:
        raise ByHand(f"{entry.differs.en} {entry.fix.words.en}".strip())


def _is_irrelevant(entry: Entry, use: Use, made: Plan, bound: Bound) -> bool:
    """Whether a difference is covered elsewhere, of another port, or ruled out by literals."""
    if entry.id in conversions().covered or entry.scope is Scope.WEIGHTS:
        return True
    return _foreign(entry, use, made) or _never(entry, bound)


def _is_certain(entry: Entry, truth: bool | None) -> bool:
    """Whether a fix is right, whatever data the call is given.

    ``truth``: whether the difference's condition holds; None where the call does not show that.
    """
    table = conversions()
    if entry.id in table.either or (entry.id in table.always and truth):
        return True
    if entry.data.en:
        return False
    if truth:
        return True
    return any("{" in value for value in entry.fix.set.values())


def _foreign(entry: Entry, use: Use, made: Plan) -> bool:
    """Whether the difference is another port's: nobody writes it here.

    A callable that the entry speaks of too is called otherwise in Paddle than the entry's own: it differs all the same.
    """
    if entry.id not in conversions().accepted or entry.scope is not Scope.CALL:
        return False
    if use.name in entry.also:
        way = conversions().calls.get(use.name)
        return way is not None and bool(way.call)
    return bool(entry.paddle) and entry.paddle != made.port


def _never(entry: Entry, bound: Bound) -> bool:
    """Whether literals of the call rule a condition on data out."""
    if entry.id == "full-dtype":
        return isinstance(bound.value("fill_value"), float) or "dtype" in bound.given
    if entry.id == "reshape-zero":
        sizes = [*bound.many, *bound.given.values()]
        return not any(_has_zero(each) for each in sizes)
    return False


def _has_zero(node: ast.expr) -> bool:
    """Whether 0 is a size by its form; the 0 of ``x.size(0)`` is none."""
    if isinstance(node, ast.Tuple | ast.List):
        return any(_has_zero(each) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return _has_zero(node.left) or _has_zero(node.right)
    return isinstance(node, ast.Constant) and node.value == 0


def _apply(entry: Entry, made: Plan, bound: Bound, *, function: bool) -> None:
    """Write a call with the fix of a difference.

    Raises:
        ByHand: another fix, or an argument of the call, rules it out.
    """
    made.entries.append(entry.id)
    if entry.fix.code:
        if made.template and made.template != entry.fix.code:
            raise ByHand("two fixes exclude one another")
        _check_held(entry.fix.code, bound)
        made.template, made.bound = entry.fix.code, bound
        return
    if entry.fix.call:
        if made.added:
            raise ByHand("two fixes exclude one another")
        made.port, made.bound, made.function = entry.fix.call, bound, made.function or function
    for text in entry.fix.set.values():
        for name in HOLE.findall(text):
            if text != f"{{{name}}}" and name in bound.given and bound.value(name) is None:
                raise Different(f"{name}=None asks for a rule of its own, which Paddle has not")
    made.added.update(entry.fix.set)
    made.removed.update(entry.fix.drop)


def _check_held(code: str, bound: Bound) -> None:
    """Refuse a call of which the code of a fix does not hold every argument."""
    for name, node in bound.given.items():
        if node is not RECEIVER and "{" + name + "}" not in code:
            raise ByHand(f"no rule for its argument {name}")
    if bound.many or bound.unknown:
        raise ByHand("its arguments are not shown one by one")
