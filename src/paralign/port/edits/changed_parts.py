"""Statements that change a part of a tensor in place, which is a copy in Paddle."""

from __future__ import annotations

import ast

from paralign.port.edits.held_parts import is_in_place
from paralign.port.edits.ledger import Fate
from paralign.port.edits.placing import Placer
from paralign.port.edits.tensor_results import (
    FRESH,
    OF_FORM,
    OF_NO_ELEMENT,
    OF_TENSORS,
    ONE,
    SAME_OR_NEW,
    VIEWS,
    gives_several,
    is_among,
    is_new,
    is_new_alone,
)
from paralign.port.names.expression_forms import is_dotted, is_text, is_told_twice
from paralign.port.names.name_bindings import bindings, counters, innermost
from paralign.port.names.observing import place

#: what is said of a tensor that is cast or moved, and then changed in place
CAST_AND_CHANGED = "where the cast or the move changes nothing, the tensor before it is changed too, in PyTorch alone"


#: the name of a part within what changes it
_PART = "_part"

#: what an expression cannot have where it becomes that of a lambda
_NOT_IN_LAMBDA = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


class PartWriter(Placer):
    """Write ``x[i].zero_()`` so that it changes the tensor."""

    def _is_whole(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of its own.

        A name, an attribute that is no view, or a tensor that was just made.
        """
        if isinstance(node, ast.Call):
            names = self._names_of(node)
            if not names:
                return self._is_new_by_method(node)
            return all(name in FRESH or is_new(name) or is_new_alone(name) or name in self._inplace_of(node) for name in names)
        if isinstance(node, ast.Subscript) and is_text(node.slice):  # of a dictionary
            return True
        if isinstance(node, ast.BinOp | ast.UnaryOp):  # a result of arithmetic is new
            return not isinstance(getattr(node, "op", None), ast.UAdd)
        while isinstance(node, ast.Attribute) and node.attr not in VIEWS:
            if node.attr not in OF_TENSORS:  # what has it is no tensor: layers[0].weight
                return True
            node = node.value
        return isinstance(node, ast.Name) or (isinstance(node, ast.Subscript) and is_text(node.slice))

    def _is_new_by_method(self, node: ast.Call) -> bool:
        """Whether a method of an unknown object gives a new tensor, if it gives one: ``v.sqrt()``.

        Not where the program has a method of that name itself.
        """
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return is_new(f"torch.Tensor.{method}") and not any(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == method for each in ast.walk(self._parents[0])
        )

    def _same_or_new(self, node: ast.expr) -> bool:
        """Whether an expression casts or moves a tensor.

        The result may be that tensor in PyTorch, and is a copy in Paddle.
        """
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr.endswith("_") and self._names_of(node):
            return self._same_or_new(node.func.value)
        if node.func.attr not in SAME_OR_NEW:
            return False
        return self._is_whole(node.func.value) or self._same_or_new(node.func.value) or bool(self._names_of(node.func.value))

    def _inplace_of(self, node: ast.Call) -> set[str]:
        """The names of a call that changes a whole tensor in place, and gives that tensor."""
        if not isinstance(node.func, ast.Attribute) or not node.func.attr.endswith("_"):
            return set()
        kept = node.func.value is self._put_back
        if not kept and not self._is_whole(node.func.value) and not self._may_be_held(node.func.value):
            return set()
        return set(self._names_of(node))

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802 - as above
        """Write ``x[i].zero_()`` as an assignment: a part of a tensor is a copy in Paddle."""
        call = node.value
        written = self._assigned(call) if isinstance(call, ast.Call) else None
        part = self._changed_part(call) if isinstance(call, ast.Call) and written is None else None
        if part is not None:
            self.text.edit(self.text.start(node), self.text.start(node), f"{self.text.source(part)} = ", call)
            self._put_back = part
            self.generic_visit(node)
            self._put_back = None
            return
        base = _changed_by_chain(call) if isinstance(call, ast.Call) and written is None else None
        if base is not None and isinstance(call, ast.Call) and self._is_put_at_run_time(call, base):
            self._put_part(node, call, base)
            return
        if written is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            self.generic_visit(node)
            return
        target, argument = _part_of(call.func.value) or call.func.value, call.args[0] if call.args else None
        self._written_part = target
        for part in (target, *call.args):
            self.visit(part)
        self._written_part = None
        self.note(call, f"torch.Tensor.{call.func.attr}", Fate.REWRITTEN, "assigned: a part of a tensor is a copy in Paddle")
        start, end = self.text.start(node), self.text.end(node)
        held = isinstance(target, ast.Subscript) and self._may_be_held(target, numbered=True)
        copied = isinstance(target, ast.Subscript) and not all(map(self._is_plain_index, _places(target.slice)))
        if held and self.kept.has_copies:
            self.by_hand(call, f"torch.Tensor.{call.func.attr}", "in place on what may be a part of a tensor: Paddle's is a copy")
            return
        if copied and self.hidden("_put_in("):
            self.by_hand(call, f"torch.Tensor.{call.func.attr}", self.hidden("_put_in("))
            return
        if isinstance(target, ast.Subscript) and (held or copied) and not self.hidden("_put_in("):
            self.needs("_put_in(")
            past = ", past=True" if target is not call.func.value else ""
            kept = target
            self.text.edit(start, end, lambda: self._put_in(kept, self.text.within(argument) if argument else str(written), past))
            return
        if isinstance(call.func.value, ast.Attribute) and isinstance(target, ast.Subscript):  # x[i].data: past the gradient
            self.text.edit(self.text.end(target.value), self.text.end(target.value), ".data", closes=True)
        self.text.edit(start, end, lambda: f"{self.text.within(target)} = {self.text.within(argument) if argument else written}")

    def _put_in(self, target: ast.Subscript, value: str, past: str) -> str:
        places = [self._place_of_index(each) for each in _places(target.slice)]
        index = f"({', '.join(places)},)" if isinstance(target.slice, ast.Tuple) else places[0]
        return f"_put_in({self.text.within(target.value)}, {index}, {value}{past})"

    def _is_put_at_run_time(self, call: ast.Call, base: ast.Subscript) -> bool:
        """Whether ``x[k].mul_(2)`` can be written so that it is told at run time what ``x[k]`` is."""
        attributes = {each.attr for each in ast.walk(base.value) if isinstance(each, ast.Attribute)}
        if not is_dotted(base.value) or not VIEWS.isdisjoint(attributes) or "weight" in attributes or is_text(base.slice):
            return False
        may_be_copied = self.kept.has_copies and self._may_be_held(base, numbered=True)  # a part that a dictionary holds
        if may_be_copied or self._holds_several(base.value) or self._is_of_several(base.value):
            return False
        if self._is_dictionary(base.value) or isinstance(innermost(self._parents)[0], ast.ClassDef | ast.Lambda):
            return False
        if any(isinstance(each, _NOT_IN_LAMBDA) or getattr(each, "id", "") == "super" for each in ast.walk(call)):
            return False
        chain: ast.expr = call
        while isinstance(chain, ast.Call) and isinstance(chain.func, ast.Attribute):
            if not self.uses.get(place(chain)):
                return False
            chain = chain.func.value
        return not self.hidden("_put_part(")

    def _put_part(self, node: ast.Expr, call: ast.Call, base: ast.Subscript) -> None:
        """Write ``x[k].mul_(2)`` by a function that changes the part and assigns it."""
        edits = len(self.text.edits)
        self._written_part = base
        self.visit(base)
        self._written_part = None
        index = [self._place_of_index(each) for each in _places(base.slice)]
        at = f"({', '.join(index)},)" if isinstance(base.slice, ast.Tuple) else index[0]
        head = f"_put_part({self.text.within(base.value)}, {at}, lambda {_PART}: "
        del self.text.edits[edits:]
        self.needs("_put_part(")
        start, end = self.text.start(node), self.text.end(node)
        self.text.edit(self.text.start(base), self.text.end(base), _PART)
        self._put_back = self._replaced = base
        self.visit(call)
        self._put_back = self._replaced = None
        changed = self.text.within(call)
        del self.text.edits[edits:]
        self.text.edit(start, end, f"{head}{changed})")
        self.note(base, "torch.Tensor.__setitem__", Fate.REWRITTEN, "assigned: a part of a tensor is a copy in Paddle")

    def _place_of_index(self, node: ast.expr) -> str:
        """One place of an index, as an argument."""
        if not isinstance(node, ast.Slice):
            return self.text.within(node)
        bounds = ["None" if each is None else self.text.within(each) for each in (node.lower, node.upper, node.step)]
        return f"slice({', '.join(bounds)})"

    def _assigned(self, call: ast.Call) -> str | None:
        """What a part of a tensor is given by a statement such as ``x[i].fill_(0)``, else None."""
        func = call.func
        if not isinstance(func, ast.Attribute) or call.keywords:
            return None
        part = _part_of(func.value)
        if (
            part is None
            or is_text(part.slice)
            or not self._is_whole(part.value)
            or any(isinstance(each, ast.Starred) for each in call.args)
        ):
            return None
        if self._holds_several(part.value):
            return None
        if func.attr == "zero_" and not call.args:
            return "0"
        if func.attr in ("fill_", "copy_") and len(call.args) == 1:
            return ""
        return None

    def _changed_part(self, call: ast.Call) -> ast.expr | None:
        """The part that ``x[:, 0].mul_(2)`` changes; None of another statement.

        It is told by numbers and slices alone. A part by a tensor or a list is a copy in PyTorch too.
        A number alone may also tell one of several tensors, such as those of ``chunk``.
        """
        func = call.func
        if not isinstance(func, ast.Attribute) or not func.attr.endswith("_") or func.attr.endswith("__"):
            return None
        part = func.value
        if func.attr in OF_NO_ELEMENT | OF_FORM or not isinstance(part, ast.Subscript):
            return None
        if not is_dotted(part.value) or not self.uses.get(place(call)):
            return None
        if self._is_of_several(part.value) or not (any(map(_is_of_axes, _places(part.slice))) or self._is_one(part.value)):
            return None
        parts = [each.attr for each in ast.walk(part.value) if isinstance(each, ast.Attribute)]
        if not VIEWS.isdisjoint(parts) or "weight" in parts or not all(map(self._is_plain_index, _places(part.slice))):
            return None
        return part

    def _may_be_held(self, node: ast.expr, *, numbered: bool = False) -> bool:
        """Whether an item may be a tensor that a list or a dictionary holds, and no part of one.

        It is told by one value, which is no slice, of what is not known to be a tensor; by a number only if ``numbered``.
        """
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Tuple) or _is_of_axes(node.slice):
            return False
        if isinstance(node.slice, ast.Constant | ast.UnaryOp) and not numbered:
            return False
        attributes = {each.attr for each in ast.walk(node.value) if isinstance(each, ast.Attribute)}
        if not is_told_twice(node.value) or not VIEWS.isdisjoint(attributes) or "weight" in attributes:
            return False
        if self.hidden("_held_in("):
            return False
        if self._is_dictionary(node.value):
            return True
        known = self._is_one(node.value) or self._is_tensor(node.value) or self._is_of_several(node.value)
        return not known and not self._holds_several(node.value)

    def _is_dictionary(self, node: ast.expr) -> bool:
        """Whether all that binds a name in its function is written as a dictionary."""
        bound = bindings(node.id, innermost(self._parents)[0]) if isinstance(node, ast.Name) else []
        return bool(bound) and all(isinstance(each, ast.Dict | ast.DictComp) for each in bound)

    def _is_of_dictionary(self, node: ast.expr) -> bool:
        """As ``_may_be_held``, where no dictionary of the file is given a view that Paddle copies."""
        return self._may_be_held(node) and not self.kept.has_copies

    def _held(self, item: ast.expr) -> None:
        """Let ``store[k].mul_(2)`` raise where the store is no dictionary.

        An item of another object may be a part, which is a copy in Paddle.
        """
        if isinstance(item, ast.Subscript) and item is not self._replaced:
            self.needs("_held_in(")
            start, end = self.text.end(item.value), self.text.start(item.slice)
            self.note(item, "torch.Tensor.__getitem__", Fate.CONDITION, "raises where the object is a tensor or a list: no part is changed")
            self.text.edit(self.text.start(item), self.text.start(item), "_held_in(", item)
            self.text.edit(start, end, ", ", item)
            self.text.edit(self.text.end(item.slice), self.text.end(item), ")", item)

    def _is_one(self, node: ast.expr) -> bool:
        """Whether a name stands for one tensor: whatever binds it in its function gives one."""
        if not isinstance(node, ast.Name):
            return False
        scope = innermost(self._parents)[0]
        bound = bindings(node.id, scope)
        return bool(bound) and all(self._gives_one(each, scope) for each in bound)

    def _gives_one(self, node: ast.AST, scope: ast.AST) -> bool:
        """Whether what binds a name gives one tensor, as an argument by its annotation."""
        if isinstance(node, ast.arg):
            several = isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and node in (scope.args.vararg, scope.args.kwarg)
            return not several and node.annotation is not None and self.named.get(place(node.annotation)) == "torch.Tensor"
        if isinstance(node, ast.BinOp):
            return self._gives_one(node.left, scope) or self._gives_one(node.right, scope)
        names = self._names_of(node)
        if not names or not isinstance(node, ast.Call):
            return False
        if len(node.args) == 1 and any(name == "torch.where" for name in names):  # places, one tensor an axis
            return False
        return all(name in FRESH or is_new(name) or is_among(name, ONE) for name in names)

    def _holds_several(self, node: ast.expr) -> bool:
        """Whether a name stands for several tensors, by what binds it in its function."""
        bound = bindings(node.id, innermost(self._parents)[0]) if isinstance(node, ast.Name) else []
        displays = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
        return any(isinstance(each, displays) or gives_several(each) for each in bound)

    def _is_made(self, node: ast.expr) -> bool:
        """Whether an expression gives a new tensor."""
        return isinstance(node, ast.Call | ast.BinOp) and self._is_whole(node)

    def _is_of_several(self, node: ast.expr) -> bool:
        """Whether a name may stand for one of several tensors, unpacked or looped over."""
        bound = bindings(node.id, innermost(self._parents)[0]) if isinstance(node, ast.Name) else []
        inner = [part for each in bound if not isinstance(each, ast.expr) or not self._is_made(each) for part in ast.walk(each)]
        held = any(isinstance(each, ast.expr) and self._holds_several(each) for each in inner)
        return held or any(isinstance(each, ast.Name) for each in bound) or any(map(gives_several, inner))

    def _is_part_by_numbers(self, node: ast.expr) -> bool:
        """Whether an expression is a part of a named tensor by numbers and slices.

        It shares the tensor's memory.
        """
        if not isinstance(node, ast.Subscript) or not is_dotted(node.value) or not self._is_whole(node.value):
            return False
        return not self._holds_several(node.value) and all(map(self._is_plain_index, _places(node.slice)))

    def _is_plain_index(self, node: ast.expr) -> bool:
        """Whether one place of an index is a number or a slice by its form."""
        if isinstance(node, ast.Slice):
            return all(each is None or self._is_counted(each) for each in (node.lower, node.upper, node.step))
        return self._is_counted(node) or (isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis))

    def _is_counted(self, node: ast.expr) -> bool:
        """Whether an expression is whole numbers, and names that count a loop.

        Nothing else in its function gives such a name a value.
        """
        if isinstance(node, ast.Name):
            around = innermost(self._parents)
            bound = [each for each in bindings(node.id, around[0]) if not isinstance(each, ast.arg)]
            return any(node.id in counters(each) for each in around) and all(isinstance(each, ast.For) for each in bound)
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return all(self._is_counted(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return isinstance(node, ast.Constant) and type(node.value) is int


def _places(index: ast.expr) -> list[ast.expr]:
    """The places of an index, one an axis."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _is_of_axes(node: ast.expr) -> bool:
    """Whether a place of an index is one of tensors, not of lists: a slice or an axis."""
    return isinstance(node, ast.Slice) or (isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis))


def _changed_by_chain(call: ast.Call) -> ast.Subscript | None:
    """The item that ``x[k].mul_(2).add_(1)`` changes; None of another statement."""
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
        node = node.func.value
    return node if isinstance(node, ast.Subscript) else None


def _part_of(node: ast.expr) -> ast.Subscript | None:
    """The part of a tensor that an expression is, alone or as ``x[i].data``."""
    inner = node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node
    return inner if isinstance(inner, ast.Subscript) else None
