"""Of what element type an expression is, as far as a program's source tells it.

The answer serves to choose between ``a + b`` and a call that gives both one type: the call is right in any case, the operator
raises in Paddle for a whole and a floating tensor. So a wrong answer makes a program raise, or longer, and never wrong.
"""

from __future__ import annotations

import ast
from enum import Enum
from typing import TYPE_CHECKING

from paralign.port.names.observing import place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Kind(Enum):
    """The type of an expression's elements; ``NUMBER`` is one of Python's."""

    BOOL = "bool"
    INT = "int64"
    SHORT = "another whole number"
    #: one of less than 32 bits, whose sum Paddle takes in its own type
    NARROW = "a whole number of less than 32 bits"
    FLOAT = "float"
    NUMBER = "number"
    UNKNOWN = "unknown"


#: tensors of truth values and whole numbers, which Paddle's operators refuse beside those of another type
DISCRETE = frozenset({Kind.BOOL, Kind.INT, Kind.SHORT, Kind.NARROW})

#: of which type a tensor is that was given a type by its name
_BY_DTYPE = {
    **dict.fromkeys(("float", "float16", "float32", "float64", "double", "half", "bfloat16"), Kind.FLOAT),
    **dict.fromkeys(("int", "int32"), Kind.SHORT),
    **dict.fromkeys(("int8", "int16", "short", "uint8"), Kind.NARROW),
    **dict.fromkeys(("int64", "long"), Kind.INT),
    "bool": Kind.BOOL,
}

#: methods that give a tensor another type
_CASTS = {
    **dict.fromkeys(("float", "double", "half", "bfloat16"), Kind.FLOAT),
    "int": Kind.SHORT,
    **dict.fromkeys(("short", "char", "byte"), Kind.NARROW),
    "long": Kind.INT,
    "bool": Kind.BOOL,
}

#: functions and methods whose result is of one type, whatever they are given
_OF_ONE_TYPE = {
    **dict.fromkeys(
        ("argmax", "argmin", "argsort", "nonzero", "bincount", "searchsorted", "bucketize", "randperm", "multinomial", "count_nonzero",
         "one_hot", "tril_indices", "triu_indices"),
        Kind.INT,
    ),
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isin", "isclose", "logical_and", "logical_or", "logical_not",
         "logical_xor", "any", "all"),
        Kind.BOOL,
    ),
    **dict.fromkeys(("softmax", "log_softmax", "mean", "std", "var", "norm", "rand_like", "randn_like", "sigmoid", "tanh", "exp", "log",
                     "sqrt", "rsqrt", "sin", "cos", "relu", "gelu", "silu", "dropout", "layer_norm"), Kind.FLOAT),
}  # fmt: skip

#: functions whose tensors are of one type where no other is asked for
_FILLED = {
    **dict.fromkeys([f"torch.{name}" for name in ("zeros", "ones", "rand", "randn", "empty", "eye", "linspace", "logspace")], Kind.FLOAT),
    "torch.randint": Kind.INT,
}

#: functions whose tensors have the type of their numbers
_FROM_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.full"})

#: methods and functions of a tensor whose result is of its own type
_KEEPS = frozenset({
    "abs", "amax", "amin", "chunk", "clamp", "clone", "contiguous", "cpu", "cuda", "cummax", "detach", "diag", "diagonal", "expand",
    "expand_as", "flatten", "flip", "gather", "index_select", "masked_fill", "max", "min", "ones_like", "permute", "repeat",
    "repeat_interleave", "reshape", "roll", "squeeze", "t", "tile", "transpose", "tril", "triu", "unbind", "unfold", "unsqueeze", "view",
    "zeros_like",
})  # fmt: skip

#: methods and attributes that give a number of Python's, or a size
_NUMBERS = frozenset({"item", "size", "dim", "numel", "nelement", "ndimension", "shape", "ndim", "itemsize"})

_NUMBER_CALLS = frozenset({"len", "int", "float", "round", "range"})

_NUMBER_MODULES = frozenset({"math", "time", "random"})

#: a sum of truth values is a whole number
_SUMMED = frozenset({"sum", "cumsum", "prod", "cumprod"})

#: names that are followed to what they were given: beyond it a name is unknown (a chain of a program's assignments is short)
_FOLLOWED = 12

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_ANNOTATED = frozenset({"int", "float", "bool"})


class Kinds:
    """The types of a program's expressions.

    ``named`` are the places of names of PyTorch. A name has the type of the last assignment before it.
    """

    def __init__(self, named: Mapping[tuple[int, int, int, int], str]) -> None:
        self._named = named
        self._bound: dict[int, dict[str, list[tuple[int, ast.expr | None]]]] = {}

    def of(self, node: ast.expr, around: Sequence[ast.AST], depth: int = 0) -> Kind:
        """The type of an expression within other parts of the tree."""
        handle = getattr(self, f"_{type(node).__name__}", None)
        if handle is None or depth > _FOLLOWED:
            return Kind.UNKNOWN
        found: Kind = handle(node, around, depth + 1)
        return found

    def _Constant(self, node: ast.Constant, _around: Sequence[ast.AST], _depth: int) -> Kind:  # noqa: N802 - named as ast names it
        return Kind.NUMBER if isinstance(node.value, int | float | complex) else Kind.UNKNOWN

    def _Name(self, node: ast.Name, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        for at in range(len(around) - 1, -1, -1):
            scope = around[at]
            if not isinstance(scope, (*_FUNCTIONS, ast.Module)):
                continue
            bound = self._bindings(scope)
            if node.id in bound:
                before = [value for line, value in bound[node.id] if line < node.lineno] or [value for _, value in bound[node.id]]
                return Kind.UNKNOWN if before[-1] is None else self.of(before[-1], around[: at + 1], depth)
        return Kind.UNKNOWN

    def _Attribute(self, node: ast.Attribute, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        if node.attr in _NUMBERS:
            return Kind.NUMBER
        if self._is_number_module(node.value, around):
            return Kind.NUMBER
        if node.attr in ("data", "T", "mT"):
            return self.of(node.value, around, depth)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            for at in range(len(around) - 1, -1, -1):
                scope = around[at]
                if isinstance(scope, ast.ClassDef):
                    return self._of_object(node.attr, scope, around[: at + 1], depth)
        return Kind.UNKNOWN

    def _is_number_module(self, node: ast.expr, around: Sequence[ast.AST]) -> bool:
        """Whether an expression is a module whose functions give numbers.

        A variable of its name is none: ``time`` is often one.
        """
        if not isinstance(node, ast.Name) or node.id not in _NUMBER_MODULES:
            return False
        return not any(node.id in self._bindings(each) for each in around if isinstance(each, _FUNCTIONS))

    def _of_object(self, name: str, scope: ast.ClassDef, around: Sequence[ast.AST], depth: int) -> Kind:
        """The type of ``self.name``: what its class gives it, all of one type."""
        found = set()
        for each in scope.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {self.of(value, [*around, each], depth) for value in _given(each, name)}
        return found.pop() if len(found) == 1 else Kind.UNKNOWN

    def _Call(self, node: ast.Call, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        name = self._named.get(place(node.func), "")
        asked = next((each.value for each in node.keywords if each.arg == "dtype"), None)
        if asked is not None:
            return self._named_type(asked)
        if name:
            first = next(iter(node.args), None)
            return self._of_function(name, node.args) or self._of_own(name.rpartition(".")[2], first, around, depth)
        if isinstance(node.func, ast.Attribute):
            return self._of_method(node, node.func, around, depth)
        if getattr(node.func, "id", "") in _NUMBER_CALLS:
            return Kind.NUMBER
        return self._of_own_function(node.func.id, around, depth) if isinstance(node.func, ast.Name) else Kind.UNKNOWN

    def _of_own_function(self, name: str, around: Sequence[ast.AST], depth: int) -> Kind:
        """The type of what a function of the file returns, where that is one alone."""
        for at, scope in enumerate(around):
            body = scope.body if isinstance(scope, ast.Module | ast.FunctionDef) else []
            made = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == name]
            if len(made) == 1 and not made[0].decorator_list:
                inner = [*around[: at + 1], made[0]]
                returned = [each.value for each in _own_parts(made[0]) if isinstance(each, ast.Return)]
                found = {Kind.UNKNOWN if each is None else self.of(each, inner, depth) for each in returned}
                return found.pop() if len(found) == 1 else Kind.UNKNOWN
        return Kind.UNKNOWN

    def _of_function(self, name: str, given: Sequence[ast.expr]) -> Kind | None:
        """The type that a function of PyTorch makes; None: that of its tensor."""
        if name == "torch.arange":
            return Kind.FLOAT if any(map(_has_float, given)) else Kind.INT
        if name in _FROM_DATA:
            return _of_data(given[-1]) if given else Kind.UNKNOWN
        if name in _FILLED:
            return _FILLED[name]
        return _OF_ONE_TYPE.get(name.rpartition(".")[2])

    def _of_method(self, node: ast.Call, func: ast.Attribute, around: Sequence[ast.AST], depth: int) -> Kind:
        """The type of what a method gives."""
        if func.attr in _NUMBERS or self._is_number_module(func.value, around):
            return Kind.NUMBER
        if func.attr in _CASTS and not node.args:
            return _CASTS[func.attr]
        if func.attr in ("to", "type", "astype") and node.args:
            asked = self._named_type(node.args[0])
            return asked if asked is not Kind.UNKNOWN or func.attr != "to" else self.of(func.value, around, depth)
        return _OF_ONE_TYPE.get(func.attr) or self._of_own(func.attr, func.value, around, depth)

    def _of_own(self, last: str, own: ast.expr | None, around: Sequence[ast.AST], depth: int) -> Kind:
        """The type of a result that is of its tensor's type."""
        if own is None or last not in (_KEEPS | _SUMMED):
            return Kind.UNKNOWN
        kind = self.of(own, around, depth)
        return Kind.INT if last in _SUMMED and kind in DISCRETE else kind

    def _named_type(self, node: ast.expr) -> Kind:
        """The type that a dtype of PyTorch stands for."""
        name = self._named.get(place(node), "")
        return _BY_DTYPE.get(name.rpartition(".")[2], Kind.UNKNOWN) if name.count(".") == 1 else Kind.UNKNOWN

    def _Compare(self, node: ast.Compare, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        if len(node.ops) > 1 or isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            return Kind.NUMBER
        kinds = {self.of(each, around, depth) for each in (node.left, node.comparators[0])}
        return Kind.NUMBER if kinds == {Kind.NUMBER} else Kind.BOOL

    def _BinOp(self, node: ast.BinOp, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        kinds = [self.of(each, around, depth) for each in (node.left, node.right)]
        if set(kinds) == {Kind.NUMBER}:
            return Kind.NUMBER
        if isinstance(node.op, ast.Div) and not {Kind.UNKNOWN, *DISCRETE}.isdisjoint(kinds):
            return Kind.UNKNOWN if Kind.UNKNOWN in kinds else Kind.FLOAT
        if Kind.FLOAT in kinds:
            return Kind.FLOAT
        numbers = [each for kind, each in zip(kinds, (node.left, node.right), strict=True) if kind is Kind.NUMBER]
        if Kind.UNKNOWN in kinds or any(map(_has_float, numbers)):
            return Kind.UNKNOWN
        tensors = {each for each in kinds if each is not Kind.NUMBER}
        if tensors == {Kind.BOOL}:
            return Kind.BOOL if Kind.NUMBER not in kinds else Kind.INT
        return next(each for each in (Kind.INT, Kind.SHORT, Kind.NARROW) if each in tensors)

    def _UnaryOp(self, node: ast.UnaryOp, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        return Kind.NUMBER if isinstance(node.op, ast.Not) else self.of(node.operand, around, depth)

    def _Subscript(self, node: ast.Subscript, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        return self.of(node.value, around, depth)

    def _IfExp(self, node: ast.IfExp, around: Sequence[ast.AST], depth: int) -> Kind:  # noqa: N802 - as above
        kinds = {self.of(each, around, depth) for each in (node.body, node.orelse)}
        return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN

    def _bindings(self, scope: ast.AST) -> dict[str, list[tuple[int, ast.expr | None]]]:
        """What the names of a scope are given, by line; None: not known."""
        if id(scope) not in self._bound:
            found: dict[str, list[tuple[int, ast.expr | None]]] = {}
            if isinstance(scope, _FUNCTIONS):
                for name, value in _parameters(scope):
                    found.setdefault(name, []).append((0, value))
            for node in _own_parts(scope):
                for name, value in _binds(node):
                    found.setdefault(name, []).append((getattr(node, "lineno", 0), value))
            for each in found.values():
                each.sort(key=lambda pair: pair[0])
            self._bound[id(scope)] = found
        return self._bound[id(scope)]


#: what stands for a number of Python's whose value is not known
_SOME_NUMBER = ast.Constant(0)


def _parameters(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[tuple[str, ast.expr | None]]:
    """A function's parameters: those of ``__init__`` are settings, as are numbers."""
    arguments = scope.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip([each.arg for each in plain[len(plain) - len(arguments.defaults) :]], arguments.defaults, strict=True))
    defaults.update((each.arg, value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is not None)
    settings = getattr(scope, "name", "") == "__init__"
    for each in [*plain, *arguments.kwonlyargs]:
        default = getattr(defaults.get(each.arg), "value", None)
        annotated = getattr(each.annotation, "id", "") in _ANNOTATED
        told = annotated or isinstance(default, int | float) or (settings and each.annotation is None)
        yield each.arg, _SOME_NUMBER if told else None
    for other in (arguments.vararg, arguments.kwarg):
        if other is not None:
            yield other.arg, None


def _own_parts(scope: ast.AST) -> Iterator[ast.AST]:
    """The parts of a scope without those of functions and classes within."""
    rest = [scope.body] if isinstance(scope, ast.Lambda) else list(getattr(scope, "body", []))
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            rest += list(ast.iter_child_nodes(node))


def _binds(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement or an expression binds, and to what."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _targets(node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        counted = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range"
        yield from _targets(node.target, _SOME_NUMBER if counted else None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, None)


#: what stands for a tensor of places, or of numbers of elements
_SOME_PLACES = ast.increment_lineno(ast.parse("some.argsort()", mode="eval").body, -1)  # at no place of a program

#: functions and methods that give values, and behind them places or numbers of elements
_WITH_PLACES = frozenset({
    "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk", "unique", "unique_consecutive",
})  # fmt: skip


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        one_by_one = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        sizes = value if isinstance(value, ast.Attribute | ast.Call) and _is_sizes(value) else None
        called = value.func if isinstance(value, ast.Call) else None
        places = isinstance(called, ast.Attribute) and called.attr in _WITH_PLACES
        for at, each in enumerate(target.elts):
            shown = value.elts[at] if one_by_one and isinstance(value, ast.Tuple | ast.List) else sizes
            yield from _targets(each, _SOME_PLACES if places and at else shown)


def _is_sizes(node: ast.Attribute | ast.Call) -> bool:
    """Whether an expression is ``x.shape`` or ``x.size()``."""
    func = node.func if isinstance(node, ast.Call) else node
    return isinstance(func, ast.Attribute) and func.attr in ("shape", "size")


def _given(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
    """What a method gives ``self.name``, as an attribute or a buffer."""
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == name and getattr(target.value, "id", "") == "self":
                    yield node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "register_buffer" and len(node.args) > 1:
            yield from [node.args[1]] if getattr(node.args[0], "value", None) == name else []


def _has_float(node: ast.expr) -> bool:
    """Whether a floating number stands in an expression, or a quotient."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, float):
            return True
        if isinstance(each, ast.Div):
            return True
    return False


def _of_data(node: ast.expr) -> Kind:
    """The type of a tensor of literal numbers."""
    values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    parts = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.expr_context, ast.unaryop)
    plain = all(isinstance(each, parts) for each in ast.walk(node))
    if not values or not plain:
        return Kind.UNKNOWN
    if all(isinstance(each, bool) for each in values):
        return Kind.BOOL
    if all(isinstance(each, int) for each in values):
        return Kind.INT
    return Kind.FLOAT if all(isinstance(each, int | float) for each in values) else Kind.UNKNOWN
