"""Methods that tensors have, of objects of unknown type.

They are right for tensors, and left to other objects as they are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.naming import function_of
from paralign.catalogue.parameters import stored
from paralign.port.edits.ledger import Fate
from paralign.port.names.observing import place
from paralign.port.names.ownership import could_be
from paralign.port.names.value_hints import conditions_of_values, holds_nan, holds_narrow
from paralign.port.names.values import Certainty, Form, Use
from paralign.port.plans.call_plan import ByHand
from paralign.port.plans.conversions import conversions, signature_of
from paralign.port.plans.planning import plan
from paralign.port.rewriting.referring import Referrer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.port.plans.call_plan import Plan


class Unknowns(Referrer):
    """Write such a call so that what it does is decided when it runs.

    That is done where Paddle's method of the same name does something else.
    """

    #: whether a file of the program asks for gradients that have gradients
    derived_twice = False

    #: whether another file of the program speaks of whole numbers of less than 32 bits, or of NaN among its data
    narrow_elsewhere = nan_elsewhere = False

    def holds_narrow(self) -> bool:
        """Whether the program speaks of whole numbers of less than 32 bits, or of pictures."""
        return self.narrow_elsewhere or holds_narrow(self._parents[0])

    def of_values(self, name: str, given: Mapping[str, ast.expr]) -> list[str]:
        """For which values the call that is visited gives something else in Paddle."""
        return conditions_of_values(name, given, self._parent(), has_nan=self.nan_elsewhere or holds_nan(self._parents[0]))

    def unknown_method(self, node: ast.Call, func: ast.Attribute) -> bool:
        """Write, note or refuse such a call; False where its parts are still to be visited."""
        if func.attr.startswith("__") or not could_be(func.attr) or self.seen.values.get(place(func.value)) is not None:
            return False
        name = f"torch.Tensor.{func.attr}"
        if (
            self._is_of_a_package(func.value)
            or _is_pythons(node, func.attr, dropped=isinstance(self._parent(), ast.Expr))
            or name not in stored("torch")
        ):
            return False
        made = self._planned(Use(name, *place(node), Form.METHOD, Certainty.GUESSED, list(node.args), list(node.keywords)))
        later = made is None or _is_another(made) or any(made.keywords.values())
        if self._summed_later(node, func, made) or (later and self._decided_later(node, func, name)):
            return True
        if func.attr in _DIFFERENT and (made is None or _is_another(made)):
            self.by_hand(node, name, "the object's type cannot be told, and a tensor's method differs in silence")
            return True
        if made is not None and made.conditions:
            self.note(node, name, Fate.CONDITION, "Where the object is a tensor: " + " ".join(made.conditions))
        elif made is None or _is_another(made) or any(made.keywords.values()):
            self.note(node, name, Fate.UNTOUCHED, "the object's type cannot be told")
        return False

    def _planned(self, use: Use) -> Plan | None:
        """How a tensor's method would be written; None of what is by hand."""
        try:
            made = plan(use, self.paddle)
        except ByHand:
            return None
        made.conditions += self.of_values(use.name, made.bound.given)
        return made

    def _summed_later(self, node: ast.Call, func: ast.Attribute, made: Plan | None) -> bool:
        """Write a sum that may be of narrow whole numbers; False where none may be here."""
        if func.attr != "sum" or made is None:
            return False
        plain = not made.bound.open and not made.bound.many and not any(isinstance(each, ast.Starred) for each in node.args)
        asked = {"dim", "keepdim"} >= set(made.bound.given) and not made.bound.unknown
        if not plain or not asked or not self.holds_narrow() or any(map(self.hidden, ("_of_tensor(", "_summed("))):
            return False
        text, given = self.text, [*node.args, *[each.value for each in node.keywords]]
        opening = text.content.find(b"(", text.end(func))
        text.edit(text.start(node), text.start(node), "_of_tensor(_summed, 'sum', ", node)
        text.edit(text.outer(func.value, text.start(node))[1], opening + 1, ", " if given else "", node)
        for helper in ("_of_tensor(", "_summed("):
            self.needs(helper)
        self.note(node, "torch.Tensor.sum", Fate.REWRITTEN, "whole numbers of less than 32 bits are summed in int64")
        for each in (func.value, *given):
            self.visit(each)
        return True

    def _is_of_a_package(self, node: ast.expr) -> bool:
        """Whether an object is a module of another package, or of Python's own: ``math.log``.

        What else another package gives may be a tensor. A parameter of that name is none of the package's.
        """
        whole = ast.unparse(node)
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name) or (whole not in self.seen.modules and node.id not in self.seen.tensorless):
            return False
        functions = [each for each in self._parents if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        inner = [part for each in functions for part in ast.walk(each)]
        bound = {part.arg for part in inner if isinstance(part, ast.arg)}
        bound |= {part.id for part in inner if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        return node.id not in bound

    def _decided_later(self, node: ast.Call, func: ast.Attribute, name: str) -> bool:
        """Write a call that is PyTorch's for a tensor, and else the object's own method.

        False where none can be written.
        """
        function = function_of(name)
        given = [*node.args, *[each.value for each in node.keywords]]
        if function is None or self.hidden("_of_tensor(") or any(isinstance(each, ast.Starred | ast.GeneratorExp) for each in given):
            return False
        named = {each.arg for each in node.keywords if each.arg is not None}
        adapter = self.adapter(function) if len(named) == len(node.keywords) else None
        if adapter is None or not adapter[1].fits(1 + len(node.args), named):
            return False
        text = self.text
        opening = text.content.find(b"(", text.end(func))
        written = adapter[0]
        if self.derived_twice and function in conversions().twice and "dtype" not in named:
            written = conversions().twice[function].partition("(")[0]
            self.needs(f"{written}(")
        if _is_second(name, function):
            if node.keywords or not node.args:
                return False
            written = f"lambda own, first, *rest: {adapter[0]}(first, own, *rest)"
        text.edit(text.start(node), text.start(node), f"_of_tensor({written}, {func.attr!r}, ", node)
        text.edit(text.outer(func.value, text.start(node))[1], opening + 1, ", " if given else "", node)
        self.needs("_of_tensor(")
        axis = {"dim": given[0]} if given else {}
        held = [*adapter[1].conditions, *self.of_values(name, axis)]
        told = ["for a tensor PyTorch's function, for another object its own method", *held]
        fate = Fate.CONDITION if held else Fate.REWRITTEN
        self.note(node, name, fate, " ".join(told), adapter[1].made.entries)
        self.visit(func.value)
        for each in given:
            self.visit(each)
        return True


def _is_second(method: str, function: str) -> bool:
    """Whether a method's tensor is the second argument of its function.

    ``x.where(condition, y)`` is ``torch.where(condition, x, y)``.
    """
    taken = [each.name for each in signature_of(function).parameters]
    return bool(taken) and taken[0] in {each.name for each in signature_of(method).parameters} - {"input"}


def _is_another(made: Plan) -> bool:
    """Whether Paddle's tensors need more than arguments of other names."""
    return bool(made.template or made.added or made.removed or made.function or made.port.rpartition(".")[0] != "paddle.Tensor")


#: methods of tensors that return something else in Paddle, and that other objects may have too
_DIFFERENT = frozenset({"max", "min", "sort", "median", "split", "gather", "scatter", "numel", "fmod", "nanmedian", "prod", "norm"})


def _is_pythons(node: ast.Call, method: str, *, dropped: bool) -> bool:
    """Whether the arguments show that the object is no tensor.

    ``line.split(',')``, ``names.sort()``; a list's ``sort`` gives nothing that is kept.
    """
    if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in node.args):
        return True
    named = {each.arg for each in node.keywords}
    if named & {"key", "axis", "reverse", "sep", "maxsplit"}:
        return True
    return (method == "split" or (method == "sort" and dropped)) and not node.args and not named
