"""Loops over a model's parameters that are written as PyTorch lays weights out.

``for name, p in model.named_parameters(): p.copy_(torch.from_numpy(rng.normal(size=p.shape)))`` draws and writes by the shape of a weight,
which a Linear of Paddle keeps transposed. Where a loop keeps nothing of its weights beyond itself, every use of them that depends on
the layout is written so that it sees PyTorch's; what is a Linear's weight is asked when the program runs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from paralign.port.layers.outside_values import DRAWS, LIBRARIES, Outside
from paralign.port.layers.weight_methods import ASKED, OF_EACH_ELEMENT, OWN_ATTRIBUTES, REDUCED, ROWS, SHOWN
from paralign.port.names.name_bindings import counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: methods that give weights, and the position of a weight in what a loop over their result gives
_GIVERS = {"torch.nn.Module.parameters": None, "torch.nn.Module.named_parameters": 1}

#: functions of Python that give the elements of what they are given
_PASSED_ON = frozenset({"list", "tuple", "iter", "reversed", "sorted"})

#: attributes and methods of a weight that are the same in both layouts, and give or keep no element
_SAME = frozenset({
    "device", "dim", "dtype", "element_size", "fill_", "is_complex", "is_cuda", "is_floating_point", "is_leaf", "ndim", "nelement",
    "normal_", "numel", "requires_grad", "requires_grad_", "trunc_normal_", "uniform_", "zero_",
})  # fmt: skip

#: methods of a weight that keep the weight, or what is called with it, beyond the loop
_KEPT = frozenset({"detach_", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "set_", "share_memory_"})

#: functions of Python that keep nothing of what they are given
_READ = frozenset({
    "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "isinstance", "len", "list", "math", "max", "min", "pow", "print",
    "range", "reversed", "round", "sorted", "str", "sum", "tuple", "type", "zip",
})  # fmt: skip

#: functions of Python, and methods, whose results hold no element's place
_NUMBERS = frozenset({"bool", "dim", "float", "id", "int", "isinstance", "item", "len", "nelement", "numel"})

#: modules whose functions keep nothing of what they are given
_MODULES = frozenset({"np", "numpy", "math"})

#: methods of any object that keep what they are given
_KEEPING = frozenset({
    "add", "add_module", "add_param_group", "append", "appendleft", "extend", "insert", "put", "register_buffer", "register_parameter",
    "send", "setattr", "setdefault", "update", "write",
})  # fmt: skip

#: functions that a weight's name, or its number, may be given: they look nothing up by it
_OF_NAMES = frozenset({"RandomState", "crc32", "default_rng", "encode", "hash", "len", "manual_seed", "print", "range", "seed", "str"})

#: functions and methods that give what they are given in another form or type
_FORMED = frozenset({
    "as_tensor", "asarray", "astype", "array", "clone", "contiguous", "copy", "cpu", "detach", "double", "expand", "expand_as", "flatten",
    "float", "from_numpy", "half", "numpy", "permute", "reshape", "t", "tensor", "to", "transpose", "type", "type_as", "view", "view_as",
})  # fmt: skip

#: those of them whose arguments name a type or a device alone
_CAST = frozenset({"astype", "cpu", "double", "float", "half", "to", "type"})

#: arguments by name that hold no elements
_ASIDE = frozenset({"device", "dtype", "generator", "requires_grad"})

#: functions of PyTorch that keep a tensor, or a layer of it
_KEPT_BY = (
    "torch.optim.",
    "torch.save",
    "torch.nn.utils.",
    "torch.nn.Parameter",
    "torch.nn.parameter.",
    "torch.nn.Module.",
    "torch.autograd.",
)


#: expressions whose values are of what their parts are; constants and signs have none
_COMPOUND = (
    ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.IfExp, ast.List, ast.Slice, ast.Starred, ast.Tuple, ast.UnaryOp,
    ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop,
)  # fmt: skip


#: parts of a loop that take what it has elsewhere
_ELSEWHERE = (ast.Return, ast.Yield, ast.YieldFrom, ast.Lambda, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal)


class _Kind(Enum):
    """What a value is of.

    A number, elements that lie as PyTorch's weight does, or what the loop does not tell.
    """

    NUMBER = 0
    DRAWN = 1
    OTHER = 2


@dataclass
class WeightLoop:
    """A loop that is written in PyTorch's layout.

    ``giver`` is the call that gives the weights; of ``uses`` each is a weight's name and the expression that is laid out, a weight past
    its gradient among them; ``rows`` are those that are viewed in another shape, and but read; ``given`` are values that weights are
    set to.
    """

    loop: ast.For
    giver: ast.Call
    uses: list[tuple[ast.Name, ast.expr]] = field(default_factory=list)
    given: list[tuple[ast.Name, ast.expr]] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)


def weight_loops(tree: ast.Module, names_of: Callable[[ast.AST], list[str]]) -> Iterator[WeightLoop]:
    """The loops that can be written in PyTorch's layout."""
    parents = {id(child): each for each in ast.walk(tree) for child in ast.iter_child_nodes(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            found = _weight_of(node.iter, node.target, names_of)
            if found is not None and not _is_bound_again(node, found[1]):
                read = _Reading(node, found[0], found[1], parents, names_of)
                if read.is_closed():
                    yield read.found


def _weight_of(given: ast.expr, target: ast.expr, names_of: Callable[[ast.AST], list[str]]) -> tuple[ast.Call, str] | None:
    """The call that gives the weights of a loop, and the name that a weight has in it."""
    if not isinstance(given, ast.Call):
        return None
    name = getattr(given.func, "id", "")
    if name in _PASSED_ON and given.args:
        return _weight_of(given.args[0], target, names_of)
    if name in ("enumerate", "zip") and isinstance(target, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in given.args):
        parts = given.args[:1] if name == "enumerate" else given.args
        targets = target.elts[1:2] if name == "enumerate" else target.elts
        found = [each for each in map(lambda part, to: _weight_of(part, to, names_of), parts, targets) if each is not None]
        return found[0] if len(found) == 1 else None
    giver = next((each for each in names_of(given) if each in _GIVERS), "")
    if not giver:
        return None
    at = _GIVERS[giver]
    if at is not None:
        if not isinstance(target, ast.Tuple) or len(target.elts) != at + 1:
            return None
        target = target.elts[at]
    return (given, target.id) if isinstance(target, ast.Name) else None


def _is_bound_again(loop: ast.For, name: str) -> bool:
    """Whether the statements of a loop bind the weight's name, or delete it."""
    within = [each for statement in loop.body for each in ast.walk(statement)]
    return any(isinstance(each, ast.Name) and each.id == name and not isinstance(each.ctx, ast.Load) for each in within)


class _Reading:
    """What the statements of one loop do with a weight."""

    def __init__(
        self, loop: ast.For, giver: ast.Call, name: str, parents: dict[int, ast.AST], names_of: Callable[[ast.AST], list[str]]
    ) -> None:
        self.found = WeightLoop(loop, giver)
        self._parents, self._names_of = parents, names_of
        self._nodes = [each for statement in loop.body for each in ast.walk(statement)]
        self._weight = name
        self._followed: set[str] = set()
        self._outside = Outside(loop, parents, names_of)
        self._own = self._numbers_of_target()
        self._derived = self._names_derived()

    def _numbers_of_target(self) -> set[str]:
        """The names that the loop gives a weight's name, or its number."""
        loop, giver = self.found.loop, self.found.giver
        found = counters(loop)
        for each in ast.walk(loop.target):
            if isinstance(each, ast.Tuple) and any(getattr(part, "id", "") == self._weight for part in each.elts[1:2]):
                is_named = any(_GIVERS.get(name) == 1 for name in self._names_of(giver))
                if is_named and isinstance(each.elts[0], ast.Name):
                    found.add(each.elts[0].id)
        called = getattr(loop.iter, "func", None)
        if getattr(called, "id", "") == "zip" and isinstance(loop.target, ast.Tuple):
            partners = [each.id for each in loop.target.elts if isinstance(each, ast.Name)]
            found -= set(partners)
        return found

    def _names_derived(self) -> set[str]:
        """The weight's name, and those that are bound to what follows from it."""
        found = {self._weight}
        while True:
            more = {
                inner.id
                for each in self._nodes
                if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr)
                and each.value is not None
                and self._holds(each.value, found)
                for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
                for inner in ast.walk(target)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            }
            if more <= found:
                return found
            found |= more

    def _holds(self, node: ast.AST, names: set[str]) -> bool:
        """Whether an expression's value may say where an element of a weight lies."""
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Compare) and all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
            return False
        if isinstance(node, ast.Attribute) and node.attr in ("device", "dtype", "ndim", "requires_grad"):
            return False
        if isinstance(node, ast.Call) and (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in _NUMBERS:
            return False
        return any(self._holds(each, names) for each in ast.iter_child_nodes(node))

    def is_closed(self) -> bool:
        """Whether nothing of a weight, or of what follows from it, is kept beyond the loop.

        What is laid out is noted.
        """
        after = self._names_read_elsewhere()
        if not all(map(self._is_name_alone, self._nodes)):
            return False
        if (self._derived - {self._weight}) & after or any(map(self._is_open, self._nodes)):
            return False
        return all(self._is_told(each) for each in self._nodes if isinstance(each, ast.Name) and each.id == self._weight)

    def _is_open(self, node: ast.AST) -> bool:
        """Whether a part of the loop keeps a weight, or puts it beside others."""
        if isinstance(
            node, ast.Return | ast.Yield | ast.YieldFrom | ast.Lambda | ast.FunctionDef | ast.ClassDef | ast.Global | ast.Nonlocal
        ):
            return True
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            written = isinstance(node, ast.AnnAssign) or self._is_written_alone(node)
            return not written or not self._is_kept_inside(node)
        if isinstance(node, ast.Call) and self._keeps(node):
            return True
        return isinstance(node, ast.expr) and self._meets(node)

    def _names_read_elsewhere(self) -> set[str]:
        """Names that the rest of the function, or of the module, reads."""
        scope: ast.AST = self.found.loop
        while not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            scope = self._parents[id(scope)]
        inside = {id(each) for each in self._nodes}
        return {
            each.id for each in ast.walk(scope) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside
        }

    def _is_kept_inside(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        """Whether an assignment keeps nothing beyond the loop, but in a weight itself."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                continue
            of_weight = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == self._weight
            if of_weight and isinstance(target, ast.Attribute):
                alone = isinstance(node, ast.Assign) and len(targets) == 1
                if target.attr == "data" and alone and isinstance(node, ast.Assign) and isinstance(target.value, ast.Name):
                    if self._kind(node.value) is not _Kind.DRAWN or not self._is_size(node.value):
                        return False
                    self.found.given.append((target.value, node.value))
                    continue
                if target.attr == "requires_grad" or (target.attr == "grad" and isinstance(node.value, ast.Constant)):
                    continue
                return False
            written = isinstance(target, ast.Subscript) and self._root(target) in self._derived
            if not written and (node.value is None or self._holds(node.value, self._derived) or self._holds(target, self._derived)):
                return False
        return True

    def _is_written_alone(self, node: ast.Assign | ast.AugAssign) -> bool:
        """Whether what an assignment changes in place is the loop's own."""
        targets = _targets(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and self._holds(node.value, self._derived):
            return self._kind(node.target) is not _Kind.OTHER and self._is_fresh(node.target.id)
        parts = [each for each in targets if isinstance(each, ast.Subscript) and self._root(each) != self._weight]
        return all(self._is_fresh(self._root(each)) for each in parts if self._root(each) in self._derived)

    def _is_fresh(self, name: str) -> bool:
        """Whether a name is bound here alone, to what is made by sizes."""
        bound = self._bound(name)
        return bool(bound) and not self._outside_of_loop(name) and all(isinstance(each, ast.Call) and self._is_size(each) for each in bound)

    def _outside_of_loop(self, name: str) -> bool:
        inside = {id(each) for each in self._nodes}
        return any(id(each) not in inside for each in self._outside.bound(name))

    def _meets(self, node: ast.expr) -> bool:
        """Whether a weight is put together with what may lie otherwise."""
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            if all(isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in node.ops):
                return False
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            parts = [node.value, node.slice]
        elif isinstance(node, ast.Call):
            if getattr(node.func, "id", "") in SHOWN or (
                isinstance(self._parents[id(node)], ast.Expr) and all(map(self._is_size, _given(node))) and not _is_in_place(node)
            ):
                return False
            called = getattr(node.func, "attr", "")
            parts = [] if called in _CAST else _given(node)
            if (receiver := self._receiver(node)) is not None and called not in DRAWS:
                parts = [*parts, receiver]
            if isinstance(node.func, ast.Name) and any(self._holds(each, self._derived) for each in parts):
                return node.func.id not in _READ and self._kind(node) is _Kind.OTHER
        if not any(self._holds(each, self._derived) for each in parts):
            return False
        return any(self._kind(each) is _Kind.OTHER for each in parts)

    def _receiver(self, node: ast.Call) -> ast.expr | None:
        """The object of a method; None of a function."""
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        return of if of is not None and self._root(of) not in LIBRARIES | _MODULES and not self._is_of_torch(node) else None

    def _root(self, node: ast.AST) -> str:
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        return getattr(node, "id", "")

    def _keeps(self, call: ast.Call) -> bool:
        """Whether a call may keep what it is given of a weight, or of what follows from it."""
        given = [*call.args, *[each.value for each in call.keywords]]
        receiver = self._receiver(call)
        if receiver is not None and _is_in_place(call) and not self._is_changed_here(receiver, given):
            return True
        if not any(self._holds(each, self._derived) for each in given):
            return False
        return any(each.arg == "out" for each in call.keywords) or self._is_given_to(call, given)

    def _is_given_to(self, call: ast.Call, given: list[ast.expr]) -> bool:
        """Whether what a call is given of a weight is kept by what is called."""
        names = self._names_of(call)
        if names:
            return any(name.startswith(_KEPT_BY) for name in names)
        if isinstance(call.func, ast.Name):
            return call.func.id not in _READ and any(not self._is_size(each) for each in given)
        if not isinstance(call.func, ast.Attribute):
            return True
        if self._root(call.func) in _MODULES or self._holds(call.func.value, self._derived):
            return False
        return call.func.attr in _KEEPING or any(not self._is_size(each) for each in given)

    def _is_changed_here(self, receiver: ast.expr, given: list[ast.expr]) -> bool:
        """Whether what changes in place is a weight, or new in the loop."""
        while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute) and _is_in_place(receiver):
            receiver = receiver.func.value
        while isinstance(receiver, ast.Attribute) and receiver.attr in ("data", "grad"):
            receiver = receiver.value
        if isinstance(receiver, ast.Name) and (receiver.id == self._weight or self._is_fresh(receiver.id)):
            return True
        return not any(self._holds(each, self._derived) for each in (receiver, *given))

    def _is_size(self, node: ast.AST) -> bool:
        """Whether an argument follows from sizes of a weight alone."""
        if isinstance(node, ast.Name):
            if node.id not in self._derived or node.id in self._followed:
                return node.id != self._weight
            bound = self._bound(node.id)
            self._followed.add(node.id)
            found = bool(bound) and all(map(self._is_size, bound))
            self._followed.discard(node.id)
            return found
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype"):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("size", "dim", "numel", "nelement"):
            return True
        return all(map(self._is_size, ast.iter_child_nodes(node)))

    def _is_told(self, name: ast.Name) -> bool:
        """Note how one use of a weight is written; False where the loop cannot be."""
        value: ast.expr = name
        parent = self._parents[id(name)]
        if isinstance(parent, ast.Attribute) and parent.attr in ("data", "grad"):
            if isinstance(parent.ctx, ast.Store):
                return True
            value, parent = parent, self._parents[id(parent)]
        if isinstance(parent, ast.Attribute):
            return self._is_attribute_told(name, value, parent)
        if self._is_layout_free(value, parent):
            return True
        if not isinstance(parent, ast.Call | ast.BinOp | ast.Compare | ast.UnaryOp | ast.Subscript) or not self._is_alone(value, parent):
            return False  # the weight itself by another name, among others, or with what lies as it does
        self.found.uses.append((name, value))
        return True

    def _is_attribute_told(self, name: ast.Name, value: ast.expr, parent: ast.Attribute) -> bool:
        """Note an attribute or a method of a weight."""
        if parent.attr in _KEPT:
            return False
        call = self._parents[id(parent)]
        if parent.attr.endswith("_") and isinstance(call, ast.Call) and call.func is parent:
            return self._is_changed(name, value)
        if parent.attr in _SAME or not isinstance(parent.ctx, ast.Load):
            return True
        if parent.attr not in ASKED:
            return False
        if not self._is_reduced(value):
            self.found.uses.append((name, value))
            if any(link == "view" for link, _ in self._links(value)):  # which what is turned cannot be
                self.found.rows.add(id(value))
        return True

    def _links(self, value: ast.expr) -> Iterator[tuple[str, ast.Call | None]]:
        """The attributes and methods of a value, one after another."""
        node: ast.AST = value
        while isinstance(link := self._parents[id(node)], ast.Attribute) and link.value is node:
            call = self._parents[id(link)]
            is_called = isinstance(call, ast.Call) and call.func is link
            yield link.attr, call if isinstance(call, ast.Call) and is_called else None
            node = call if is_called else link

    def _is_reduced(self, value: ast.expr) -> bool:
        """Whether a weight is but made one number, in any layout."""
        for name, call in self._links(value):
            given = _given(call) if call is not None else []
            single = all(isinstance(each, ast.Constant) for each in given)
            if name in REDUCED and call is not None:
                return (not call.args and not call.keywords) or (name == "norm" and len(given) == 1 and single)
            if name in ROWS:
                if [ast.unparse(each) for each in given] not in (["-1"], []):
                    return False
            elif name not in OF_EACH_ELEMENT or (name != "to" and not single):
                return False
        return False

    def _is_layout_free(self, value: ast.expr, parent: ast.AST) -> bool:
        """Whether a use of a weight asks what it is, or starts it anew, in any layout."""
        if isinstance(parent, ast.Compare):
            return all(isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in parent.ops)
        if isinstance(parent, ast.Call):
            names = self._names_of(parent)
            return getattr(parent.func, "id", "") in ("id", "isinstance", "type") or any(
                each.startswith("torch.nn.init.") for each in names
            )
        return isinstance(parent, ast.If | ast.While) or (isinstance(parent, ast.BoolOp) and isinstance(value, ast.Attribute))

    def _is_alone(self, value: ast.expr, parent: ast.AST) -> bool:
        """Whether a weight meets nothing that may lie as Paddle's does."""
        if isinstance(parent, ast.BinOp | ast.Compare):
            others = [parent.left, parent.right] if isinstance(parent, ast.BinOp) else [parent.left, *parent.comparators]
            return all(each is value or isinstance(each, ast.Constant) or self._kind(each) is _Kind.DRAWN for each in others)
        if isinstance(parent, ast.Subscript):
            return self._kind(parent.slice) is not _Kind.OTHER
        return not isinstance(parent, ast.Call) or all(self._kind(each) is not _Kind.OTHER for each in _given(parent))

    def _is_changed(self, name: ast.Name, value: ast.expr) -> bool:
        """Note a weight that methods change in place, one after another.

        False where what they are given is not told.
        """
        given: list[ast.expr] = []
        node: ast.AST = value
        while isinstance(method := self._parents[id(node)], ast.Attribute) and method.attr.endswith("_") and method.attr not in _KEPT:
            node = self._parents[id(method)]
            if not isinstance(node, ast.Call):
                return False
            given += [*node.args, *[each.value for each in node.keywords if each.arg != "generator"]]
        kinds = set(map(self._kind, given))
        if _Kind.OTHER in kinds or not isinstance(method, ast.Expr):
            return False
        if _Kind.DRAWN in kinds:
            self.found.uses.append((name, value))
        return True

    def _is_name_alone(self, node: ast.AST) -> bool:
        """Whether a weight's name, or its number, looks nothing up."""
        others = {each.id for each in ast.walk(self.found.loop.target) if isinstance(each, ast.Name)} - {self._weight}

        def has_name(inner: ast.AST) -> bool:
            return any(isinstance(each, ast.Name) and each.id in others for each in ast.walk(inner))

        if isinstance(node, ast.Subscript):
            return not has_name(node.slice)
        if not isinstance(node, ast.Call):
            return True
        given = [*node.args, *[each.value for each in node.keywords]]
        called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        if called in _OF_NAMES or not any(map(has_name, given)):
            return True
        return self._root(node.func) not in others and any(self._holds(each, self._derived) and self._is_size(each) for each in given)

    def _kind(self, node: ast.AST) -> _Kind:
        """What a value is of."""
        if isinstance(node, ast.Name):
            return self._kind_of_name(node)
        if isinstance(node, ast.Attribute):
            inside = self._kind(node.value)
            return _Kind.OTHER if inside is _Kind.DRAWN and node.attr not in OWN_ATTRIBUTES else inside
        if isinstance(node, ast.Subscript):
            inside = self._kind(node.value)
            key = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return inside if inside is not _Kind.NUMBER or key else _Kind.OTHER
        if isinstance(node, ast.Call):
            return self._kind_of_call(node)
        return _worst(map(self._kind, ast.iter_child_nodes(node))) if isinstance(node, _COMPOUND) else _Kind.OTHER

    def _bound(self, name: str) -> list[ast.expr]:
        """What the loop's statements bind a name to."""
        return [
            each.value
            for each in self._nodes
            if isinstance(each, ast.Assign | ast.AugAssign)
            and any(isinstance(inner, ast.Name) and inner.id == name for target in _targets(each) for inner in ast.walk(target))
        ]

    def _kind_of_name(self, node: ast.Name) -> _Kind:
        if node.id == self._weight:
            return _Kind.DRAWN
        if node.id in self._own or self._is_counted(node.id):
            return _Kind.NUMBER
        bound = self._bound(node.id)
        if not bound or self._outside_of_loop(node.id):
            outside = (
                _Kind.NUMBER
                if node.id not in self._given_here() and self._outside.is_number(node.id, but={id(each) for each in self._nodes})
                else _Kind.OTHER
            )
            if not bound or outside is _Kind.OTHER:
                return outside
        if node.id in self._followed:
            return _Kind.NUMBER
        if len(bound) < self._times_bound(node.id):
            return _Kind.OTHER
        self._followed.add(node.id)
        found = _worst(map(self._kind, bound))
        self._followed.discard(node.id)
        return found

    def _given_here(self) -> set[str]:
        """The names that the loop, or one within it, gives its values to."""
        loops = [self.found.loop, *[each for each in self._nodes if isinstance(each, ast.For)]]
        return {inner.id for loop in loops for inner in ast.walk(loop.target) if isinstance(inner, ast.Name)}

    def _is_counted(self, name: str) -> bool:
        """Whether a loop within this one counts with a name alone."""
        counted = [each for each in self._nodes if name in counters(each)]
        return len(counted) == 1 == self._times_bound(name) and not self._outside_of_loop(name)

    def _times_bound(self, name: str) -> int:
        return sum(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in self._nodes)

    def _kind_of_call(self, node: ast.Call) -> _Kind:
        called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        receiver = self._receiver(node)
        worst = _worst(map(self._kind, [] if called in _CAST and receiver is not None else _given(node)))
        if isinstance(node.func, ast.Name) and not self._is_of_torch(node) and called not in _READ | _NUMBERS | _OF_NAMES:
            given = [self._kind(each) is not _Kind.OTHER for each in node.args]
            sized = any(self._holds(each, self._derived) and self._is_size(each) for each in node.args)
            return _Kind.DRAWN if sized and self._outside.is_drawing(node, given) else _Kind.OTHER
        if worst is _Kind.OTHER:
            return worst
        if called in _FORMED:  # what is formed counts, not the form
            formed = receiver if receiver is not None else node.args[0] if node.args else None
            found = _Kind.OTHER if formed is None else self._kind(formed)
            return _Kind.OTHER if found is _Kind.NUMBER and not isinstance(formed, ast.Constant) else found
        if receiver is not None and called in DRAWS and worst is _Kind.DRAWN:
            return worst
        inside = _Kind.NUMBER if receiver is None else self._kind(receiver)
        if inside is not _Kind.NUMBER or (worst is _Kind.DRAWN and receiver is None):
            return _worst((inside, worst))
        told = called in _READ | _NUMBERS | _OF_NAMES or (self._root(node.func) == "math")
        return _Kind.NUMBER if told and worst is _Kind.NUMBER else _Kind.OTHER

    def _is_of_torch(self, node: ast.Call) -> bool:
        """Whether a call is of a function of PyTorch, and no method of an object."""
        return any(not name.startswith("torch.Tensor.") for name in self._names_of(node))


def _worst(kinds: Iterable[_Kind]) -> _Kind:
    """What a value is of that is put together from others."""
    return max(kinds, key=lambda kind: kind.value, default=_Kind.NUMBER)


def _targets(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _given(node: ast.Call) -> list[ast.expr]:
    """The arguments of a call that may hold elements."""
    return [*node.args, *[each.value for each in node.keywords if each.arg not in _ASIDE]]


def _is_in_place(node: ast.Call) -> bool:
    """Whether a call is of a method that changes its object."""
    name = getattr(node.func, "attr", "")
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
