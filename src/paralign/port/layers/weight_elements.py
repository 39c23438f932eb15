"""Lines that look at elements of weights, which a Linear of Paddle keeps transposed.

``parameters()``, ``named_parameters()`` and ``state_dict()`` give such weights without their layers. What treats all elements alike is
right as it is; what looks at single elements, shapes or axes is told, with its line.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: methods that give weights, and the position of a weight in what a loop over their result gives
_GIVERS = {
    "torch.nn.Module.parameters": None,
    "torch.nn.Module.named_parameters": 1,
    "torch.nn.Module.state_dict": 1,
}

#: functions of Python that give the elements of what they are given
_PASSED_ON = frozenset({"list", "tuple", "iter", "reversed", "sorted", "filter"})

#: attributes and methods of a weight that are the weight, or all its elements treated alike
_SAME = frozenset({
    "abs", "clone", "contiguous", "cpu", "cuda", "data", "detach", "double", "exp", "float", "grad", "half", "log", "neg", "pow", "sqrt",
    "square", "to", "type",
})  # fmt: skip

#: methods and attributes whose results say where an element lies
_PLACED = frozenset({
    "T", "argmax", "argmin", "argsort", "bmm", "chunk", "cumsum", "diag", "expand", "flatten", "gather", "index_select", "masked_select",
    "matmul", "mm", "narrow", "numpy", "permute", "ravel", "reshape", "select", "shape", "size", "sort", "split", "squeeze", "stride",
    "svd", "t", "tolist", "topk", "transpose", "tril", "triu", "unbind", "unflatten", "unsqueeze", "view",
})  # fmt: skip

#: methods that reduce all elements alike, where no axis is asked for
_REDUCED = frozenset({"all", "amax", "amin", "any", "max", "mean", "min", "norm", "prod", "std", "sum", "var"})

#: methods that write into a weight, element by element of another tensor
_WRITES = frozenset({"add_", "addcdiv_", "addcmul_", "copy_", "div_", "lerp_", "mul_", "sub_"})

#: methods that call a function of the program with a gradient, or with its weight
_HOOKING = frozenset({"register_hook", "register_post_accumulate_grad_hook"})

#: methods of a dictionary whose loop gives names and weights, or weights alone
_OF_DICTIONARY = {"items": 1, "values": None}

#: functions of PyTorch that treat a weight's elements alike or keep it: of the others those of several tensors look at axes
_ALIKE = ("torch.optim.", "torch.nn.utils.clip_grad", "torch.nn.init.", "torch.save", "torch.nn.Module.load_state_dict")

#: functions of PyTorch that make a tensor of numbers, of sizes or of an array
_MAKERS = frozenset({
    "Tensor", "arange", "as_tensor", "bernoulli", "empty", "eye", "from_numpy", "full", "linspace", "normal", "ones", "rand", "randint",
    "randn", "randperm", "tensor", "zeros",
})  # fmt: skip

#: names and functions that a tensor is followed through to what makes it (a program's own chains are short)
_DEEP = 4

_TOLD = "Linear keeps its weight transposed in Paddle, [in, out]: another result where this one is a Linear's"


def layout_notes(tree: ast.Module, names_of: Callable[[ast.AST], list[str]]) -> Iterator[tuple[ast.expr, str]]:
    """The expressions that look at single elements of weights, and what is said.

    ``names_of`` gives the names of the callables of PyTorch that a call uses.
    """
    parents = {id(child): each for each in ast.walk(tree) for child in ast.iter_child_nodes(each)}
    file: _File | None = None
    for node in ast.walk(tree):
        giver = next((name for name in names_of(node) if name in _GIVERS), "")
        if giver and isinstance(node, ast.Call):
            file = file or _File(tree, parents, names_of)
            found = _Weights(file, parents, names_of).of(node, _GIVERS[giver], dictionary=giver.endswith("state_dict"))
            for each in found:
                yield each, _TOLD


class _Weights:
    """Follows weights from the call that gives them, into functions of the file too."""

    def __init__(self, file: _File, parents: dict[int, ast.AST], names_of: Callable[[ast.AST], list[str]]) -> None:
        self._file, self._parents, self._names_of = file, parents, names_of
        self._found: dict[int, ast.expr] = {}
        self._seen: set[int] = set()

    def of(self, node: ast.expr, at: int | None, *, dictionary: bool) -> list[ast.expr]:
        """What looks at elements of weights; ``at``: their place in a loop's parts."""
        self._container(node, at, dictionary=dictionary)
        return list(self._found.values())

    def _container(self, node: ast.expr, at: int | None, *, dictionary: bool) -> None:
        """Follow what holds weights."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.keyword):
            parent = self._parents[id(parent)]
        if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and parent.iter is node:
            if not dictionary:  # a loop over a dictionary gives names
                self._loop(parent, parent.target, at)
        elif isinstance(parent, ast.Call) and parent.func is not node:
            self._handed(parent, node, at, dictionary=dictionary)
        elif isinstance(parent, ast.Attribute) and parent.attr in _OF_DICTIONARY and dictionary:
            call = self._parents.get(id(parent))
            if isinstance(call, ast.Call) and call.func is parent:
                self._container(call, _OF_DICTIONARY[parent.attr], dictionary=False)
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            self._item(parent, at, dictionary=dictionary)
        elif isinstance(parent, ast.Assign) and parent.value is node:
            for use in self._uses_of(parent):
                self._container(use, at, dictionary=dictionary)

    def _handed(self, call: ast.Call, node: ast.expr, at: int | None, *, dictionary: bool) -> None:
        """Follow what holds weights into a call."""
        name = getattr(call.func, "id", "")
        if name in ("next", *_PASSED_ON):
            if name == "next":
                self._value_at(call, at)
            elif not dictionary:
                self._container(call, at, dictionary=False)
        elif name in ("enumerate", "zip"):
            loop = self._parents.get(id(call))
            place = 1 if name == "enumerate" else next((number for number, each in enumerate(call.args) if each is node), None)
            targets = loop.target if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension) else None
            if isinstance(targets, ast.Tuple) and place is not None and place < len(targets.elts):
                self._loop(loop, targets.elts[place], at)
        elif any(each.startswith("torch.nn.utils.") and "vector" in each for each in self._names_of(call)):
            self._found[id(call)] = call

    def _item(self, node: ast.Subscript, at: int | None, *, dictionary: bool) -> None:
        if isinstance(node.ctx, ast.Store):
            self._found[id(node)] = node
        elif isinstance(node.ctx, ast.Load):
            self._value_at(node, None if dictionary else at)

    def _value_at(self, node: ast.expr, at: int | None) -> None:
        """Follow one part of a container: a weight, or a name and a weight."""
        parent = self._parents.get(id(node))
        if at is None:
            self._value(node)
        elif isinstance(parent, ast.Subscript) and parent.value is node and getattr(parent.slice, "value", None) == at:
            self._value(parent)
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple) and len(parent.targets[0].elts) > at:
            self._names(parent, parent.targets[0].elts[at])

    def _loop(self, loop: ast.AST | None, target: ast.expr, at: int | None) -> None:
        if at is not None:
            if not isinstance(target, ast.Tuple) or len(target.elts) <= at:
                return
            target = target.elts[at]
        within = self._parents.get(id(loop)) if isinstance(loop, ast.comprehension) else loop
        if within is not None:
            self._names(within, target)

    def _names(self, within: ast.AST, target: ast.expr) -> None:
        """Follow every use of the name that a weight is bound to."""
        if not isinstance(target, ast.Name):
            return
        for each in ast.walk(within):
            if isinstance(each, ast.Name) and each.id == target.id and isinstance(each.ctx, ast.Load):
                self._value(each)

    def _uses_of(self, statement: ast.Assign) -> Iterator[ast.Name]:
        """Uses of the name that a statement binds, in its scope."""
        target = statement.targets[0]
        scope: ast.AST = statement
        while not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            scope = self._parents[id(scope)]
        for each in ast.walk(scope) if isinstance(target, ast.Name) else ():
            if isinstance(each, ast.Name) and isinstance(target, ast.Name) and each.id == target.id and isinstance(each.ctx, ast.Load):
                yield each

    def _value(self, node: ast.expr) -> None:
        """Follow a weight to what looks at its elements."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Attribute):
            self._attribute(parent)
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            self._found[id(parent)] = parent
        elif isinstance(parent, ast.FormattedValue) or (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult)):
            self._found[id(node)] = node
        elif isinstance(parent, ast.BinOp | ast.UnaryOp):
            self._operand(parent, node)
        elif isinstance(parent, ast.AugAssign) and not self._is_of_weights(parent.value):
            self._found[id(node)] = node
        elif isinstance(parent, ast.Assign) and parent.value is node and isinstance(parent.targets[0], ast.Name):
            for use in self._uses_of(parent):
                self._value(use)
        elif isinstance(parent, ast.Call) and node in parent.args:
            self._argument(parent, node)
        else:
            self._kept(parent, node)

    def _kept(self, parent: ast.AST | None, node: ast.expr) -> None:
        """Follow a weight into what keeps many: ``[p for p in …]``."""
        if isinstance(parent, ast.ListComp | ast.GeneratorExp) and parent.elt is node:
            self._container(parent, None, dictionary=False)
        elif isinstance(parent, ast.DictComp) and parent.value is node:
            self._container(parent, 1, dictionary=True)

    def _operand(self, parent: ast.BinOp | ast.UnaryOp, node: ast.expr) -> None:
        """Follow a weight through an operator; another tensor lies as in PyTorch."""
        other = [each for each in (parent.left, parent.right) if each is not node] if isinstance(parent, ast.BinOp) else []
        if all(map(self._is_of_weights, other)):
            self._value(parent)
        else:
            self._found[id(parent)] = parent

    def _hook(self, call: ast.Call, node: ast.Attribute) -> None:
        """Follow a weight's gradient, or the weight itself, into a hook."""
        hook = [*call.args, *[each.value for each in call.keywords]][:1]
        function = self._file.function_named(hook[0]) if hook else None
        if function is None:
            self._found[id(node)] = node
        else:
            own = _own_parameters(hook[0], function)
            if len(function.args.args) <= own:  # *arguments: what it does with a weight is not followed
                self._found[id(node)] = node
            self._given(function, [each.arg for each in function.args.args][own : own + 1])

    def _given(self, function: ast.FunctionDef | ast.Lambda, names: list[str]) -> None:
        """Follow the parameters of a function that are given a weight."""
        for name in names:
            self._names(function, ast.Name(name))

    def _attribute(self, node: ast.Attribute) -> None:
        call = self._parents.get(id(node))
        called = isinstance(call, ast.Call) and call.func is node
        if node.attr in _PLACED:
            self._found[id(node)] = node
        elif node.attr in _HOOKING and called and isinstance(call, ast.Call):
            self._hook(call, node)
        elif node.attr in _SAME:
            self._value(call if called and isinstance(call, ast.Call) else node)
        elif called and isinstance(call, ast.Call):
            axis = [*call.args[1 if node.attr == "norm" else 0 :], *[each for each in call.keywords if each.arg in ("dim", "axis")]]
            foreign = node.attr in _WRITES and any(not self._is_of_weights(each) for each in call.args)
            if (node.attr in _REDUCED and axis) or foreign:
                self._found[id(node)] = node
            elif node.attr in _WRITES:
                self._value(call)

    def _argument(self, call: ast.Call, node: ast.expr) -> None:
        """A weight that a call is given: all elements alike are right."""
        names, own = self._names_of(call), getattr(call.func, "id", "")
        if own == "print" or any(name.rpartition(".")[2] in _PLACED for name in names):
            self._found[id(node)] = node
        elif not names and isinstance(function := self._file.function_named(call.func), ast.FunctionDef):
            at = call.args.index(node) + _own_parameters(call.func, function)
            self._given(function, [each.arg for each in function.args.args][at : at + 1])
        elif names and not any(name.startswith(_ALIKE) for name in names):
            last = names[0].rpartition(".")[2]
            if last in _SAME or last.endswith("_like"):
                self._value(call)
            elif last in _REDUCED and (len(call.args) > 1 or call.keywords):
                self._found[id(node)] = node

    def _is_of_weights(self, node: ast.expr) -> bool:
        """Whether what meets a weight is a number, or follows from weights."""
        if isinstance(node, ast.Constant) or any(isinstance(each, ast.Name) and id(each) in self._seen for each in ast.walk(node)):
            return True
        return not any(isinstance(each, ast.Call) and self._names_of(each) for each in ast.walk(node)) and not self._is_made(node)

    def _is_made(self, node: ast.expr) -> bool:
        """Whether an expression holds a tensor that the program makes.

        Of numbers, of sizes or of an array.
        """
        return self._file.is_made(node)


def _own_parameters(called: ast.expr, function: ast.FunctionDef | ast.Lambda) -> int:
    """How many parameters of a method stand for its object: one but for a static method."""
    static = any(getattr(each, "id", "") == "staticmethod" for each in getattr(function, "decorator_list", []))
    return int(isinstance(called, ast.Attribute) and not static)


class _File:
    """What the names of a file are given, and its functions."""

    def __init__(self, tree: ast.Module, parents: dict[int, ast.AST], names_of: Callable[[ast.AST], list[str]]) -> None:
        self._parents, self._names_of = parents, names_of
        functions: dict[str, list[ast.FunctionDef]] = {}
        for each in ast.walk(tree):
            if isinstance(each, ast.FunctionDef):
                functions.setdefault(each.name, []).append(each)
        self._functions = {name: found[0] for name, found in functions.items() if len(found) == 1}
        self._bound: dict[tuple[int, str], list[ast.expr]] = {}
        for scope, name, value in (found for each in ast.walk(tree) for found in self._binds(each)):
            self._bound.setdefault((scope, name), []).append(value)
        self._made: dict[tuple[int, str], bool] = {}

    def _scopes(self, node: ast.AST) -> Iterator[int]:
        """The functions around a place, the innermost first, and the file."""
        inner: ast.AST | None = node
        while inner is not None:
            if isinstance(inner, ast.FunctionDef | ast.Lambda | ast.Module):
                yield id(inner)
            inner = self._parents.get(id(inner))

    def function_named(self, node: ast.expr) -> ast.FunctionDef | ast.Lambda | None:
        """The function of the file that an expression stands for, where one alone has its name."""
        if isinstance(node, ast.Lambda):
            return node
        own = node.attr if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self" else ""
        return self._functions.get(getattr(node, "id", "") or own)

    def _binds(self, node: ast.AST) -> Iterator[tuple[int, str, ast.expr]]:
        """The scopes and names that are given a value.

        By a statement, a loop, or a call of a function of the file.
        """
        if isinstance(node, ast.Assign):
            yield from ((next(self._scopes(node)), name, node.value) for each in node.targets for name in _names_in(each))
        elif isinstance(node, ast.For | ast.comprehension):
            yield from ((next(self._scopes(node)), name, node.iter) for name in _names_in(node.target))
        elif isinstance(node, ast.Call) and isinstance(function := self.function_named(node.func), ast.FunctionDef):
            own = 1 if isinstance(node.func, ast.Attribute) else 0
            taken = [each.arg for each in function.args.args][own:]
            yield from ((id(function), name, value) for name, value in zip(taken, node.args, strict=False))

    def is_made(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression holds a tensor that the program makes.

        Of numbers, of sizes or of an array.
        """
        inner = list(ast.walk(node))
        if any(isinstance(each, ast.Call) and any(name.rpartition(".")[2] in _MAKERS for name in self._names_of(each)) for each in inner):
            return True
        return depth < _DEEP and any(self._is_name_made(each, depth) for each in inner if isinstance(each, ast.Name))

    def _is_name_made(self, node: ast.Name, depth: int) -> bool:
        key = next((each for scope in self._scopes(node) if (each := (scope, node.id)) in self._bound), None)
        if key is None:
            return False
        if key not in self._made:
            self._made[key] = False  # one that follows from itself
            self._made[key] = any(self.is_made(each, depth + 1) for each in self._bound[key])
        return self._made[key]


def _names_in(target: ast.expr) -> list[str]:
    """The names that a target binds."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [each.id for part in parts for each in ([part] if isinstance(part, ast.Name) else ast.walk(part)) if isinstance(each, ast.Name)]
