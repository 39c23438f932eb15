"""Where a tensor that a program puts into a state comes from."""

from __future__ import annotations

import ast
from enum import IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING

from paralign.port.edits.scope_index import FUNCTIONS, Scope, given_for, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: what makes a tensor of what is no tensor, or of numbers that it draws
_MAKING = frozenset({
    "DoubleTensor", "FloatTensor", "Tensor", "arange", "as_tensor", "asarray", "empty", "eye", "from_numpy", "full", "linspace", "normal",
    "ones", "rand", "randint", "randn", "tensor", "zeros",
})  # fmt: skip

#: methods that give a tensor other elements, whatever it had
_FILLING = frozenset({"normal_", "uniform_", "fill_", "zero_", "random_", "bernoulli_"})

#: functions of several tensors, element by element: noise on a tensor lies as that tensor does
_ELEMENTWISE = frozenset({"add", "div", "lerp", "mul", "sub", "where"})

#: what gives the tensors of a layer, or of a file that was converted with them
_STATES = frozenset({"buffers", "load", "load_file", "named_buffers", "named_parameters", "parameters", "state_dict"})

#: names of modules, whose functions are no methods of tensors
_MODULES = frozenset({"F", "functional", "init", "math", "nn", "np", "numpy", "torch"})

#: modules whose files hold no tensors of layers
_READERS = frozenset({"json", "np", "numpy", "pickle", "yaml"})

#: names that are followed from one another; the longest way in the tests has six
_DEEP = 12

#: values that are looked at for one tensor: far more than programs need, and a bound for functions that call one another
_VALUES = 300


class Origin(IntFlag):
    """Where a tensor comes from: more than one where it may be either; none of a number."""

    MADE = 1
    #: a layer's, or a file's
    TAKEN = 2
    #: under a name in what a function is given, which may be a state
    NAMED = 4
    UNKNOWN = 8


_OF_STATES = Origin.TAKEN | Origin.NAMED


class Origins:
    """The origins of values that stand in a function, by what binds their names."""

    def __init__(self, around: Sequence[ast.AST]) -> None:
        self._around = around
        self._module = next((each for each in around if isinstance(each, ast.Module)), None)
        self._followed: set[tuple[str, int]] = set()
        self._left = [_VALUES]

    def of(self, value: ast.expr, over: dict[str, ast.expr] | None = None, *, depth: int = 0) -> Origin:
        """The origin of a value; ``over`` has what the names of comprehensions around it run over."""
        over = over or {}
        self._left[0] -= 1
        if depth > _DEEP or self._left[0] < 0:
            return Origin.UNKNOWN
        if isinstance(value, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            over = {**over, **runs_over(value)}
        if isinstance(value, ast.BinOp):
            return _together([self.of(each, over, depth=depth + 1) for each in (value.left, value.right)])
        if isinstance(value, ast.Name):
            return self._of_name(value.id, over, depth)
        if isinstance(value, ast.Subscript | ast.Attribute | ast.Call):
            return self._of_taken(value, over, depth)
        return _either([self.of(each, over, depth=depth + 1) for each in _within(value)])

    def _of_taken(self, value: ast.Subscript | ast.Attribute | ast.Call, over: dict[str, ast.expr], depth: int) -> Origin:
        """The origin of an item, an attribute, or a result."""
        if isinstance(value, ast.Subscript):
            return self._of_item(value, over, depth)
        return self._of_attribute(value, over, depth) if isinstance(value, ast.Attribute) else self._of_call(value, over, depth)

    def _of_name(self, name: str, over: dict[str, ast.expr], depth: int) -> Origin:
        if name in over:
            return self.of(over[name], {key: each for key, each in over.items() if key != name}, depth=depth + 1)
        for at in range(len(self._around) - 1, -1, -1):
            around = self._around[at]
            if not isinstance(around, (*FUNCTIONS, ast.Module)):
                continue
            scope = scope_of(around)
            if name in scope.bindings or name in scope.given:
                return self._bound(name, around, scope, depth)
        return Origin(0)

    def _bound(self, name: str, around: ast.AST, scope: Scope, depth: int) -> Origin:
        """The origin of what a function binds or is given under a name, with what it writes there."""
        if (name, id(around)) in self._followed:
            return Origin(0)
        self._followed.add((name, id(around)))
        found = [self.of(each.value, depth=depth + 1) for each in scope.bindings.get(name, [])]
        if name in scope.given:
            found.append(self._given(name, around, depth))
        written = list(_written_into(name, around))
        found += [Origin.MADE if isinstance(each, ast.Constant | ast.UnaryOp) else self.of(each, depth=depth + 1) for each in written]
        self._followed.discard((name, id(around)))
        return _either(found)

    def _given(self, name: str, function: ast.AST, depth: int) -> Origin:
        """The origin of what a function of the file is given by its calls there."""
        given = list(self.given(name, function))
        if not given:
            return Origin.UNKNOWN
        return _either([self._within(scope).of(each, depth=depth + 1) for scope, each in given])

    def given(self, name: str, function: ast.AST) -> Iterator[tuple[list[ast.AST], ast.expr]]:
        """What the calls of the file give a parameter, and the functions that these stand in."""
        if self._module is None or not isinstance(function, FUNCTIONS):
            return
        for scope, call in _calls(self._module).get(function.name, []):
            value = given_for(name, call, function)
            if value is not None:
                yield scope, value

    def _of_item(self, value: ast.Subscript, over: dict[str, ast.expr], depth: int) -> Origin:
        """The origin of an item: by a name, of what a function is given, one of a state."""
        found = self.of(value.value, over, depth=depth + 1)
        numbered = isinstance(value.slice, ast.Slice | ast.Tuple | ast.UnaryOp) or isinstance(getattr(value.slice, "value", None), int)
        return found if numbered or found != Origin.UNKNOWN else Origin.NAMED

    def _of_attribute(self, value: ast.Attribute, over: dict[str, ast.expr], depth: int) -> Origin:
        """The origin of an attribute, by what the file stores; parameters are taken."""
        if value.attr == "weight":  # read as PyTorch lays it out
            return Origin.MADE
        if value.attr in ("data", "T", "mT", "grad", "real", "shape"):
            return self.of(value.value, over, depth=depth + 1)
        spelled = ast.unparse(value)
        stored = _stored(self._module).get(spelled, []) if self._module is not None else []
        if not stored or (spelled, 0) in self._followed:
            return Origin(0) if stored or getattr(value.value, "id", "") in _MODULES else Origin.TAKEN
        self._followed.add((spelled, 0))
        found = _either([self._within(scope).of(each, depth=depth + 1) for scope, each in stored])
        self._followed.discard((spelled, 0))
        return found

    def _of_call(self, call: ast.Call, over: dict[str, ast.expr], depth: int) -> Origin:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        of_module = of is None or getattr(of, "id", getattr(of, "attr", "")) in _MODULES
        if name in _STATES:
            return Origin(0) if getattr(of, "id", "") in _READERS else Origin.TAKEN
        given = [self.of(each, over, depth=depth + 1) for each in (*call.args, *(each.value for each in call.keywords if each.arg))]
        if name in _COUNTED and of_module:  # in PyTorch's order, whatever number of elements they have
            return Origin.MADE
        if name in _MAKING and of_module:  # by another tensor's shape, or of its numbers, it lies as that one
            return Origin.TAKEN if Origin.TAKEN in _either(given) else Origin.MADE
        own = _functions(self._module).get(name, [])
        if len(own) == 1:
            return self._of_function(own[0], depth)
        if of is not None and not of_module:
            return _of_method(name, self.of(of, over, depth=depth + 1), given)
        found = _together(given) if name in _ELEMENTWISE else _either(given)
        parts = Origin.MADE in found and found != Origin.MADE  # of what is made, and of what is not
        return Origin.UNKNOWN if parts or (not found and call.args and of is None and name not in _PLAIN) else found

    def _of_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> Origin:
        """The origin of what a function of the file gives back."""
        if (function.name, 1) in self._followed:
            return Origin(0)
        self._followed.add((function.name, 1))
        inner = self._within([function])
        back = [each.value for each in ast.walk(function) if isinstance(each, ast.Return | ast.Yield) and each.value is not None]
        found = _either([inner.of(each, depth=depth + 1) for each in back])
        self._followed.discard((function.name, 1))
        return found

    def _within(self, scope: Sequence[ast.AST]) -> Origins:
        """The origins of values that stand in other functions of the file."""
        inner = Origins([*([self._module] if self._module else []), *scope])
        inner._followed, inner._left = self._followed, self._left
        return inner


#: functions whose elements differ by their places
_COUNTED = frozenset({"arange", "linspace", "logspace", "range"})

#: functions of Python that give no tensor, or those that they are given
_PLAIN = frozenset({"dict", "enumerate", "float", "int", "len", "list", "range", "reversed", "sorted", "str", "sum", "tuple", "zip"})


def _of_method(name: str, base: Origin, given: Sequence[Origin]) -> Origin:
    """The origin of what a method gives, by that of its object and of its arguments."""
    if name in ("items", "values", "keys", "get", "pop"):
        return Origin.NAMED if base == Origin.UNKNOWN else base
    if name == "copy_":
        return _either(given)
    if name.rstrip("_") in _ELEMENTWISE:
        return _together([base, *given])
    return base or _either(given)


def _within(value: ast.expr) -> list[ast.expr]:
    """The values that a display, a choice or a sign is one of."""
    if isinstance(value, ast.Dict):
        return value.values
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return value.elts
    if isinstance(value, ast.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, ast.DictComp):
        return [value.value]
    if isinstance(value, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return [value.elt]
    return [value.operand] if isinstance(value, ast.UnaryOp) else [value.value] if isinstance(value, ast.Starred | ast.NamedExpr) else []


def _either(origins: Sequence[Origin]) -> Origin:
    found = Origin(0)
    for each in origins:
        found |= each
    return found


def _together(origins: Sequence[Origin]) -> Origin:
    """The origin of a result element by element: what is made lies as the other does."""
    found = _either(origins)
    return found & _OF_STATES if found & _OF_STATES and not found & Origin.UNKNOWN else found


def runs_over(comprehension: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> dict[str, ast.expr]:
    """What the names of a comprehension run over."""
    return {name.id: each.iter for each in comprehension.generators for name in ast.walk(each.target) if isinstance(name, ast.Name)}


def _written_into(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    """What statements of a function write into a tensor or container of a name."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == name:
                    yield node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == name:
            if node.func.attr in ("append", "copy_", "extend", "update"):
                yield from node.args[:1]
            elif node.func.attr in _FILLING:
                yield ast.Constant(0)


@lru_cache(maxsize=4)
def _calls(module: ast.AST) -> dict[str, list[tuple[list[ast.AST], ast.Call]]]:
    """The calls of a file by what they call, and the function that each stands in."""
    found: dict[str, list[tuple[list[ast.AST], ast.Call]]] = {}
    for scope, node in _placed(module, []):
        if isinstance(node, ast.Call):
            found.setdefault(getattr(node.func, "attr", getattr(node.func, "id", "")), []).append((scope, node))
    return found


@lru_cache(maxsize=4)
def _stored(module: ast.AST) -> dict[str, list[tuple[list[ast.AST], ast.expr]]]:
    """What a file stores under attributes, and the function that does."""
    found: dict[str, list[tuple[list[ast.AST], ast.expr]]] = {}
    for scope, node in _placed(module, []):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Attribute) and isinstance(node, ast.Assign):
                found.setdefault(ast.unparse(target), []).append((scope, node.value))
    return found


def _placed(node: ast.AST, scope: list[ast.AST]) -> Iterator[tuple[list[ast.AST], ast.AST]]:
    """Every node of a file with the functions that it stands in."""
    inner = [*scope, node] if isinstance(node, FUNCTIONS) else scope
    for each in ast.iter_child_nodes(node):
        yield inner, each
        yield from _placed(each, inner)


@lru_cache(maxsize=4)
def _functions(module: ast.AST | None) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a file by name."""
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for each in ast.walk(module) if module is not None else []:
        if isinstance(each, FUNCTIONS):
            found.setdefault(each.name, []).append(each)
    return found
