"""Parameters that no longer learn, of layers that lose a gradient by it in Paddle.

Where one of a batch or instance norm's two parameters is frozen, Paddle gives the other one no gradient either.
"""

from __future__ import annotations

import ast

from paralign.port.edits.ledger import Fate
from paralign.port.layers.turning import Turner
from paralign.port.names.observing import place
from paralign.port.names.values import Instance

#: what gives parameters one by one
_GIVERS = frozenset({"parameters", "named_parameters"})

_SAID = "of a norm whose weight or bias alone is frozen, Paddle gives the other one no gradient either: written around"

_UNSAID = "of a norm whose weight or bias alone is frozen, Paddle gives the other one no gradient either."

_HELPER = "_with_own_gradients("


class Freezer(Turner):
    """Write layers of which some parameters are frozen."""

    def freezing(self, node: ast.Call | ast.Assign) -> None:
        """Write around a norm of which this freezes one parameter.

        ``bn.bias.requires_grad = False``, or one of a loop.
        """
        parameter = _frozen(node)
        if parameter is None or not self.seen.imported:
            return
        if isinstance(parameter, ast.Attribute) and parameter.attr in ("weight", "bias"):
            if self._may_be_norm(parameter.value):
                self._around_norms(node, parameter.value)
        elif isinstance(parameter, ast.Name):
            loop = next((each for each in reversed(self._parents[:-1]) if _binds(each, parameter.id)), None)
            if loop is not None and not (self._is_for_all(node, loop) and _is_decided(node)):
                self._among_some(node, loop)

    def _may_be_norm(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name) and node.id in ("self", "cls"):
            return False
        owner = self.seen.values.get(place(node))
        if not isinstance(owner, Instance):
            return True
        return (
            not owner.of.startswith("torch.nn.")
            or "Norm" in owner.of
            or owner.of.rpartition(".")[2] in ("Sequential", "ModuleList", "Module")
        )

    def _is_for_all(self, node: ast.Call | ast.Assign, loop: ast.AST) -> bool:
        """Whether the statement is the loop's own, and the loop runs over all parameters."""
        statement = node if isinstance(node, ast.Assign) else self._parent()
        if not isinstance(loop, ast.For) or statement not in loop.body:
            return False
        return isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "attr", "") in _GIVERS

    def _among_some(self, node: ast.Call | ast.Assign, loop: ast.AST) -> None:
        """Write around the layers whose parameters a loop chooses from."""
        iterated = getattr(loop, "iter", None)
        for call in ast.walk(iterated) if isinstance(iterated, ast.expr) else ():
            func = call.func if isinstance(call, ast.Call) else None
            if isinstance(func, ast.Attribute) and func.attr in _GIVERS:
                self._around_norms(node, func.value)
                return

    def _around_norms(self, node: ast.Call | ast.Assign, layer: ast.expr) -> None:
        if self.hidden(_HELPER):
            self.note(node, "torch.Tensor.requires_grad", Fate.CONDITION, _UNSAID)
            return
        self.needs(_HELPER)
        self.text.edit(self.text.start(layer), self.text.start(layer), _HELPER, layer)
        self.text.edit(self.text.end(layer), self.text.end(layer), ")", layer, closes=True)
        self.note(node, "torch.Tensor.requires_grad", Fate.REWRITTEN, _SAID)


def _frozen(node: ast.Call | ast.Assign) -> ast.expr | None:
    """The parameter that a call or an assignment may freeze; None of another one."""
    if isinstance(node, ast.Call):
        method = node.func if isinstance(node.func, ast.Attribute) else None
        given = [*node.args, *[each.value for each in node.keywords]]
        return method.value if method is not None and method.attr == "requires_grad_" and given and not _is_true(given[0]) else None
    target = node.targets[0]
    asked = isinstance(target, ast.Attribute) and target.attr == "requires_grad" and not _is_true(node.value)
    return target.value if asked and isinstance(target, ast.Attribute) else None


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_decided(node: ast.Call | ast.Assign) -> bool:
    """Whether all parameters that reach a statement are frozen, or none."""
    given = [*node.args, *[each.value for each in node.keywords]] if isinstance(node, ast.Call) else [node.value]
    return not any(isinstance(each, ast.Compare | ast.Call | ast.BoolOp | ast.UnaryOp) for each in given)


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a loop gives a name its values."""
    return isinstance(node, ast.For) and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node.target))
