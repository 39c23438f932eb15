"""What a loop over parameters takes from around it.

Single numbers, generators of numbers, and functions that draw by a shape. Anything else may be laid out as Paddle lays weights out.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from paralign.port.names.name_bindings import bindings

if TYPE_CHECKING:
    from collections.abc import Callable

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

#: methods of a generator of numbers that draw by a shape, or by a count
DRAWS = frozenset({
    "beta", "binomial", "exponential", "gamma", "integers", "laplace", "normal", "permutation", "poisson", "rand", "randint", "randn",
    "random", "random_sample", "standard_normal", "uniform",
})  # fmt: skip

#: functions of PyTorch and NumPy that fill a shape
_FILLS = frozenset({"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros"})

#: functions that give one number, or what draws numbers
_SINGLE = frozenset({
    "Generator", "PCG64", "Random", "RandomState", "bool", "default_rng", "device", "float", "int", "len", "manual_seed", "max", "min",
    "parse_args", "round", "sqrt",
})  # fmt: skip

#: modules that draw or compute, and keep no weights
LIBRARIES = frozenset({"math", "np", "numpy", "random", "torch"})

#: functions of Python that look nothing up in a place that the program's text does not show
_UNSEEN = frozenset({"__import__", "compile", "eval", "exec", "getattr", "globals", "input", "locals", "open", "vars"})


class Outside:
    """The values around one loop."""

    def __init__(self, loop: ast.AST, parents: dict[int, ast.AST], names_of: Callable[[ast.AST], list[str]]) -> None:
        self._names_of = names_of
        self._scopes = [loop]  # the innermost first, at last without the loop itself
        while id(self._scopes[-1]) in parents:
            self._scopes.append(parents[id(self._scopes[-1])])
        self._module = self._scopes[-1]
        self._scopes = [each for each in self._scopes if isinstance(each, (*_FUNCTIONS, ast.Module))]
        self._asked: set[int] = set()

    def bound(self, name: str) -> list[ast.AST]:
        """What binds a name in the innermost function or module that binds it."""
        return next((found for scope in self._scopes if (found := bindings(name, scope))), [])

    def is_number(self, name: str, but: frozenset[int] | set[int] = frozenset()) -> bool:
        """Whether a name is bound to single numbers, or generators of numbers, alone.

        ``but``: other than by these parts of the program.
        """
        bound = [each for each in self.bound(name) if id(each) not in but]
        if not bound:
            return name in LIBRARIES or hasattr(builtins, name)
        if any(id(each) in self._asked for each in bound):
            return True
        self._asked.update(map(id, bound))
        found = all(self._is_single(each, name) for each in bound)
        self._asked.difference_update(map(id, bound))
        return found

    def _is_single(self, node: ast.AST, name: str = "") -> bool:
        """Whether an expression, or what binds a name, gives one number."""
        if isinstance(node, ast.Name):
            return isinstance(node.ctx, ast.Load) and self.is_number(node.id)
        if isinstance(node, ast.arg):
            return self._is_single_argument(node)
        if isinstance(node, ast.alias):
            return name in LIBRARIES
        if isinstance(node, ast.Call):
            return (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in _SINGLE
        parts = {ast.UnaryOp: ("operand",), ast.BinOp: ("left", "right"), ast.IfExp: ("body", "orelse"), ast.Attribute: ("value",)}
        inner = parts.get(type(node), ())
        counts = isinstance(node, ast.Constant | ast.For)  # a loop binds its counter
        return counts or (bool(inner) and all(self._is_single(getattr(node, each)) for each in inner))

    def _is_single_argument(self, node: ast.arg) -> bool:
        """Whether an argument is a number: by annotation or default."""
        if isinstance(node.annotation, ast.Name):
            return node.annotation.id in ("bool", "float", "int", "str")
        for scope in self._scopes:
            if isinstance(scope, _FUNCTIONS):
                given = scope.args
                plain = [*given.posonlyargs, *given.args]
                pairs = [
                    *zip(reversed(plain), reversed(given.defaults), strict=False),
                    *zip(given.kwonlyargs, given.kw_defaults, strict=True),
                ]
                for argument, value in pairs:
                    if argument is node:
                        return isinstance(value, ast.Constant) and isinstance(value.value, int | float | str)
        return False

    def is_drawing(self, call: ast.Call, given: list[bool]) -> bool:
        """Whether a function of the program draws by a shape.

        Or fills it by a formula, and looks nothing up. ``given`` tells of each argument whether it is a number, or follows from sizes;
        another one may but draw.
        """
        functions = [
            each for each in ast.walk(self._module) if isinstance(each, ast.FunctionDef) and each.name == getattr(call.func, "id", "")
        ]
        if len(functions) != 1 or call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
            return False
        function = functions[0]
        arguments = function.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        if function.decorator_list or arguments.vararg or arguments.kwarg or len(call.args) > len(names):
            return False
        nodes = [each for statement in function.body for each in ast.walk(statement)]
        calls = [each for each in nodes if isinstance(each, ast.Call)]
        if not any(self._draws(each) for each in calls) or not all(isinstance(each.func, ast.Attribute | ast.Name) for each in calls):
            return False
        drawing = {id(each.func.value) for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in DRAWS}
        opaque = {name for name, known in zip(names, given, strict=False) if not known}
        return all(self._is_told(each, function, opaque, drawing) for each in nodes)

    def _draws(self, call: ast.Call) -> bool:
        called = getattr(call.func, "attr", "")
        return called in DRAWS or (called in _FILLS and getattr(getattr(call.func, "value", None), "id", "") in LIBRARIES)

    def _is_told(self, node: ast.AST, function: ast.FunctionDef, opaque: set[str], drawing: set[int]) -> bool:
        """Whether a part of a function looks nothing up."""
        if isinstance(node, ast.Global | ast.Nonlocal | ast.Lambda | ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("load"):
            return False
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return True
        if node.id in opaque:  # what draws, and does nothing else
            return id(node) in drawing
        inside = bindings(node.id, function)
        return bool(inside) or (node.id not in _UNSEEN and self.is_number(node.id))
