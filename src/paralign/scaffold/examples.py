"""Tensors that a repository's code gives to a model or a loss. Read, never run."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: functions of torch that make a tensor of a shape
_MAKERS = frozenset({"randn", "rand", "zeros", "ones", "empty", "full"})

#: methods that give the same tensor or model elsewhere, in another type or mode
_KEEPS = frozenset({"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "long", "int", "requires_grad_", "contiguous"})

#: functions that take a model, and then an example of its input
_SHOWS = frozenset({"export", "trace", "profile", "summary", "get_model_complexity_info", "FlopCountAnalysis", "make_dot"})

#: keywords of theirs that take the example
_SHOWN = frozenset({"input_size", "inputs", "args", "example_inputs", "input_data"})

#: names of types and of the methods that convert to them
_TYPES = {"long": "int64", "int64": "int64", "int": "int32", "int32": "int32", "double": "float64", "float64": "float64", "bool": "bool"}

#: variables that hold a model whose class the file does not tell
_MODELS = frozenset({"model", "net", "network"})

#: assignments that are followed from one name to the next
_DEEPEST = 4

_OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv}


@dataclass(frozen=True)
class Tensor:
    """A tensor that code makes: shape, type, and the parameter it is given for."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Example:
    """A call of a model (its class, '' where unknown) or of a loss, with tensors."""

    called: str
    path: Path
    line: int
    tensors: tuple[Tensor, ...]
    loss: bool = False


def find(path: Path, tree: ast.Module, options: Mapping[str, ast.expr]) -> list[Example]:
    """All calls of models and losses with tensors of known shape in a file.

    Args:
        path: of the file, relative to the repository.
        tree: what it holds.
        options: the defaults of the command line.
    """
    reader = _Reader(tree, options)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += [Example(called, path, node.lineno, tensors, loss) for called, tensors, loss in reader.examples(node)]
    return sorted(found, key=lambda each: each.line)


class _Reader:
    """What names of one file stand for."""

    def __init__(self, tree: ast.Module, options: Mapping[str, ast.expr]) -> None:
        self._options = options
        self._assigned: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.targets[0].id, []).append((node.lineno, node.value))

    def examples(self, call: ast.Call) -> Iterator[tuple[str, tuple[Tensor, ...], bool]]:
        """Class, tensors and whether it is a loss, of a call that is given tensors."""
        last = _last(call.func)
        if last in _SHOWS and call.args:
            yield from self._shown(call)
            return
        made = self._class(call.func, call.lineno)
        if made is None:
            return
        if made.endswith(("Loss", "loss", "cross_entropy", "Criterion")) and len(call.args) > 1:
            label = self.tensor(call.args[1], call.lineno)
            if label is not None:
                yield made, (label,), True
            return
        known = self._all_tensors(call)
        if known:
            yield made, tuple(known), False

    def _all_tensors(self, call: ast.Call) -> list[Tensor] | None:
        """The tensors that a call is given; None where it is given anything else."""
        found = []
        for each in call.args:
            tensor = self.tensor(each, call.lineno)
            if tensor is None:
                return None
            found.append(tensor)
        for keyword in call.keywords:
            tensor = self.tensor(keyword.value, call.lineno)
            if tensor is None:
                return None
            found.append(Tensor(tensor.shape, tensor.dtype, tensor.high, keyword.arg or ""))
        return found

    def _shown(self, call: ast.Call) -> Iterator[tuple[str, tuple[Tensor, ...], bool]]:
        """The example that a tool is given beside a model."""
        made = self._class(call.args[0], call.lineno)
        given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg in _SHOWN)]
        if made is None or not given:
            return
        example = given[0]
        lengths = self._shape([example], call.lineno)
        if lengths is not None:  # without the batch, as torchsummary has it
            yield made, (Tensor((2, *lengths) if len(lengths) == 3 else lengths),), False  # noqa: PLR2004 - channels, height, width
            return
        parts = example.elts if isinstance(example, (ast.Tuple, ast.List)) else [example]
        tensors = []
        for part in parts:
            tensor = self.tensor(part, call.lineno)
            if tensor is None:
                return
            tensors.append(tensor)
        if tensors:
            yield made, tuple(tensors), False

    def _class(self, node: ast.expr, line: int) -> str | None:
        """The class of the object that an expression is.

        '' for a variable that bears a model's name; None for anything else.
        """
        for _ in range(_DEEPEST):
            node = _kept(node)
            if isinstance(node, ast.Call):
                name = _last(node.func)
                return name if name[:1].isupper() else None
            if not isinstance(node, ast.Name):
                name = _last(node)
                return name if name.endswith(("cross_entropy", "_loss")) else None
            value = self._value(node.id, line)
            if value is None or (isinstance(_kept(value), ast.Call) and not _last(_kept(value).func)[:1].isupper()):  # type: ignore[attr-defined]
                return "" if node.id in _MODELS else None
            node = value
        return None

    def _value(self, name: str, line: int) -> ast.expr | None:
        """What was assigned to a name last before a line."""
        before = [(at, value) for at, value in self._assigned.get(name, []) if at < line]
        if not before:
            return None
        return max(before, key=lambda each: each[0])[1]

    def tensor(self, node: ast.expr, line: int) -> Tensor | None:
        """The tensor that an expression makes; None where that is not seen."""
        dtype = ""
        for _ in range(_DEEPEST):
            while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
                dtype = dtype or _TYPES.get(node.func.attr, "")
                node = node.func.value
            if not isinstance(node, ast.Name):
                break
            value = self._value(node.id, line)
            if value is None:
                return None
            node = value
        return self._made(node, line, dtype) if isinstance(node, ast.Call) else None

    def _made(self, call: ast.Call, line: int, dtype: str) -> Tensor | None:
        name = _last(call.func)
        keywords = {each.arg: each.value for each in call.keywords}
        if not dtype and "dtype" in keywords:
            dtype = _TYPES.get(_last(keywords["dtype"]), "")
        if name == "randint":
            return self._made_of_integers(call, keywords.get("size"), line, dtype or "int64")
        if name not in _MAKERS:
            return None
        if "size" in keywords:
            sizes = [keywords["size"]]
        elif name == "full":
            sizes = call.args[:1]
        else:
            sizes = call.args
        shape = self._shape(sizes, line)
        if shape is None:
            return None
        return Tensor(shape, dtype or "float32")

    def _made_of_integers(self, call: ast.Call, size: ast.expr | None, line: int, dtype: str) -> Tensor | None:
        """What ``randint(high, size)`` or ``randint(low, high, size)`` makes."""
        both = size is not None or len(call.args) > 2  # noqa: PLR2004 - low, high, size
        bounds = [self._number(each, line) for each in call.args[: 2 if both else 1]]
        if size is None and len(call.args) > 1:
            size = call.args[-1]
        shape = None if size is None else self._shape([size], line)
        if shape is None:
            return None
        return Tensor(shape, dtype, bounds[-1] if bounds else None)

    def _shape(self, nodes: list[ast.expr], line: int) -> tuple[int, ...] | None:
        """A shape as one tuple, or as several numbers."""
        if len(nodes) == 1:
            sizes: ast.expr | None = nodes[0]
            if isinstance(sizes, ast.Name):
                sizes = self._value(sizes.id, line)
            if isinstance(sizes, (ast.Tuple, ast.List)):
                nodes = sizes.elts
        lengths = []
        for each in nodes:
            length = self._number(each, line)
            if length is None or length <= 0:
                return None
            lengths.append(length)
        return tuple(lengths) or None

    def _number(self, node: ast.expr, line: int, depth: int = 0) -> int | None:
        """A whole number that an expression is."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.Name):
            value = self._value(node.id, line)
            return None if value is None else self._number(value, line, depth + 1)
        if isinstance(node, ast.Attribute) and node.attr in self._options:
            return self._number(self._options[node.attr], line, depth + 1)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            ends = self._number(node.left, line, depth + 1), self._number(node.right, line, depth + 1)
            if ends[0] is not None and ends[1]:
                return int(_OPERATORS[type(node.op)](ends[0], ends[1]))
        return None


def _kept(node: ast.expr) -> ast.expr:
    """An expression without the calls that give the same object."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
        node = node.func.value
    return node


def _last(node: ast.expr) -> str:
    """The last part of a dotted name; '' for what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
