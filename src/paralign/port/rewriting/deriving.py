"""Calls that follow from other calls.

A method follows from its function, an in-place form from the one that gives a result.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.naming import function_of
from paralign.port.edits.ledger import Fate
from paralign.port.names.observing import place
from paralign.port.names.values import Form, Use
from paralign.port.plans.conversions import conversions, signature_of
from paralign.port.rewriting.unknowns import Unknowns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.port.plans.adapters import Adapter

#: what the first parameter of a function is called that a method of tensors is the same as
_OWN = frozenset({"input", "self", "A", "a", "x", "tensor"})

#: in-place methods that give a tensor another shape or other elements than a function of the same name would
_RESHAPES = frozenset({
    "as_strided", "bernoulli", "random", "requires_grad", "resize", "resize_as", "set", "share_memory", "squeeze", "swapaxes", "swapdims",
    "t", "transpose", "unsqueeze",
})  # fmt: skip

#: how functions for each tensor of a list are named
_EACH = "torch._foreach_"

#: arguments that losses had before ``reduction``, by which of them hold: what reduction they stand for
_LEGACY = ("size_average", "reduce")


@cache
def base_of(name: str) -> str:
    """The callable that an in-place form is derived from; empty where there is none.

    >>> base_of("torch.Tensor.eq_"), base_of("torch.nn.functional.threshold_"), base_of("torch.Tensor.unsqueeze_")
    ('torch.eq', 'torch.nn.functional.threshold', '')
    """
    head, _, last = name.rpartition(".")
    stem = last[:-1]
    if not last.endswith("_") or last.startswith("_") or stem.endswith("_") or stem in _RESHAPES:
        return ""
    if head not in ("torch", "torch.Tensor", "torch.nn.functional"):
        return ""
    function = function_of(f"torch.Tensor.{stem}") if head == "torch.Tensor" else f"{head}.{stem}"
    function = conversions().aliases.get(function or "", function or f"torch.{stem}")
    return function if takes_itself(function) else ""


@cache
def takes_itself(function: str) -> bool:
    """Whether a function's first parameter is what the method of its name belongs to."""
    parameters = signature_of(function).parameters
    return bool(parameters) and parameters[0].name in _OWN


class Deriver(Unknowns):
    """Writes calls that no rule of their own speaks of."""

    def derived(self, node: ast.Call, use: Use) -> bool:
        """Write a call by another one's rule; False where none is known."""
        given = [*node.args, *[each.value for each in node.keywords]]
        if any(isinstance(each, ast.GeneratorExp) for each in given):
            return False
        is_open = any(isinstance(each, ast.Starred) for each in given) or any(each.arg is None for each in node.keywords)
        if is_open and not (use.form is Form.METHOD and use.name.startswith("torch.Tensor.")):
            return False
        if use.name.startswith(_EACH) and use.form is Form.CALL:
            return self._for_each(node, use)
        if use.form is Form.METHOD and use.name.startswith("torch.Tensor."):
            return self._as_function(node, use)
        return self._in_place(node, use, given)

    def _in_place(self, node: ast.Call, use: Use, given: Sequence[ast.expr]) -> bool:
        """``torch.abs_(x)``: the tensor takes the function's result."""
        base = base_of(use.name)
        if use.form is not Form.CALL or not base or not given or not self._is_whole(given[0]):
            return False
        if not node.args and node.keywords[0].arg != "input":
            return False
        adapter = self._fitting(base, len(node.args), node.keywords)
        if adapter is None or self.hidden("_in_place("):
            return False
        self._called(node, use, f"_in_place({adapter[0]}, ", adapter[1])
        self.needs("_in_place(")
        return True

    def _fitting(self, name: str, positional: int, keywords: Sequence[ast.keyword]) -> tuple[str, Adapter] | None:
        adapter = self.adapter(name)
        if adapter is None or adapter[1].is_class:
            return None
        if adapter[1].fits(positional, {each.arg for each in keywords if each.arg is not None}):
            return adapter
        return None

    def _called(self, node: ast.Call, use: Use, head: str, adapter: Adapter) -> None:
        """Write ``head`` and the call's arguments in place of the call."""
        text = self.text
        opening = text.content.find(b"(", text.end(node.func))
        text.edit(text.start(node), opening + 1, head, node)
        self._noted(node, use, adapter)
        for each in (*node.args, *node.keywords):
            self.visit(each)

    def _noted(self, node: ast.Call, use: Use, adapter: Adapter) -> None:
        told = [*adapter.conditions, *self.of_values(use.name, axis_of(node, use))]
        self.note(node, use.name, Fate.CONDITION if told else Fate.REWRITTEN, " ".join(told), adapter.made.entries)

    def _for_each(self, node: ast.Call, use: Use) -> bool:
        """``torch._foreach_abs(tensors)``: the function of each tensor."""
        stem = use.name[len(_EACH) :]
        inplace = stem.endswith("_")
        name = conversions().aliases.get(f"torch.{stem.removesuffix('_')}", f"torch.{stem.removesuffix('_')}")
        named = [each.arg for each in node.keywords]
        if len(node.args) + len(named) != 1 or named not in ([], ["self"]) or self.hidden("_for_each("):
            return False
        adapter = self._fitting(name, 1, [])
        if adapter is None:
            return False
        if named:
            self.text.edit(self.text.start(node.keywords[0]), self.text.start(node.keywords[0].value), "", node)
        self.needs("_for_each(")
        self._called(node, use, f"_for_each({adapter[0]}, {inplace}, ", adapter[1])
        return True

    def _as_function(self, node: ast.Call, use: Use) -> bool:
        """Write a method as its function, of the tensor and the method's arguments."""
        func = node.func
        if not isinstance(func, ast.Attribute) or place(func) in self.named:
            return False
        inplace = use.name.endswith("_") and not use.name.endswith("__")
        held = inplace and not self._is_whole(func.value) and self._is_of_dictionary(func.value)
        name = base_of(use.name) if inplace else conversions().aliases.get(function_of(use.name) or "", function_of(use.name))
        if not name or not takes_itself(name) or (inplace and not self._is_whole(func.value) and not held):
            return False
        shown = [each for each in node.args if not isinstance(each, ast.Starred)]
        adapter = self._fitting(name, 1 + len(shown), node.keywords)
        if adapter is None or (inplace and self.hidden("_in_place(")):
            return False
        text = self.text
        opening = text.content.find(b"(", text.end(func))
        head = f"_in_place({adapter[0]}, " if inplace else f"{adapter[0]}("
        given = bool(node.args or node.keywords)
        text.edit(text.start(node), text.start(node), head, node)
        text.edit(text.outer(func.value, text.start(node))[1], opening + 1, ", " if given else "", node)
        if inplace:
            self.needs("_in_place(")
        if held:
            self._held(func.value)
        self._noted(node, use, adapter[1])
        for each in (func.value, *node.args, *node.keywords):
            self.visit(each)
        return True


def axis_of(node: ast.Call, use: Use) -> dict[str, ast.expr]:
    """The axis that a call is given behind its tensor, as ``dim``; empty without one."""
    behind = node.args if use.form is Form.METHOD else node.args[1:]
    named = [each.value for each in node.keywords if each.arg in ("dim", "axis")]
    axis = [*behind, *named]
    return {"dim": axis[0]} if axis else {}


def without_legacy(use: Use) -> Use | None:
    """A call of a loss with ``reduction`` in place of the arguments that stood for it.

    None where it has none of these, or they are no literals.
    """
    given = {each.arg: each.value for each in use.keywords if each.arg in _LEGACY}
    if not given or not all(map(_is_switch, given.values())):  # torch.scatter has a text of that name
        return None
    values = [getattr(given.get(name), "value", None) for name in _LEGACY]
    kept = [each for each in use.keywords if each.arg not in _LEGACY]
    if values == [None, None]:
        return replace(use, keywords=kept)
    kept = [each for each in kept if each.arg != "reduction"]
    average, reduce = (value is None or bool(value) for value in values)
    reduction = "mean" if average else "sum"
    if not reduce:
        reduction = "none"
    return replace(use, keywords=[*kept, ast.keyword("reduction", ast.Constant(reduction))])


def _is_switch(value: ast.expr) -> bool:
    """Whether an expression is True, False or None as it is written."""
    return isinstance(value, ast.Constant) and isinstance(value.value, bool | None)
