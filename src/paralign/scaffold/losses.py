"""Which modules of a repository compute a loss, by what they do and not by their names.

Such a module has no weights, takes two inputs or more, and gives a scalar: what is left when all elements are summed up or averaged.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.scaffold import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: a dotted name of an expression, imports resolved; '' for what is no name
    Naming = Callable[[ast.expr, dict[str, str]], str]

_Function = ast.FunctionDef | ast.AsyncFunctionDef

#: functions of torch.nn.functional that are losses though their names do not end so
FUNCTIONAL = frozenset({"cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"})

#: classes of torch.nn with weights, by the beginning or the end of their names
_WEIGHTS = re.compile(
    r"(Lazy)?(Conv|Linear|Bilinear|Embedding|RNN|LSTM|GRU|Transformer|Multihead|Parameter|PReLU|AdaptiveLogSoftmax)|\w*Norm(\dd)?$"
)

#: where packages keep whole models
_ZOOS = ("torchvision.models.", "timm.", "transformers.", "torch.hub.", "segmentation_models_pytorch.")

#: methods and functions that leave one number of all elements, where no axis is given
_REDUCTIONS = frozenset({"mean", "sum", "max", "min", "norm", "median", "nanmean", "nansum", "prod"})

#: what makes a scalar of a scalar
_ELEMENTWISE = frozenset(
    {"sqrt", "log", "log1p", "exp", "abs", "neg", "clamp", "clip", "pow", "square", "relu", "sigmoid", "tanh", "nan_to_num", "maximum",
     "minimum", "float", "double", "to", "squeeze", "reshape", "view", "unsqueeze", "item", "detach", "div", "mul", "add", "sub"}
)  # fmt: skip

#: calls that give Python's numbers
_NUMBERS = frozenset({"len", "float", "int", "max", "min", "size", "numel", "dim", "pow"})

#: how deep calls are followed, and how deep an expression is read: both are deeper than people write
_DEPTH, _NESTED = 8, 100


@dataclass(frozen=True)
class Source:
    """A class as it was read, with the names of its file, and its bases, dotted."""

    node: ast.ClassDef
    aliases: dict[str, str] = field(hash=False)
    bases: tuple[str, ...]


@dataclass
class Losses:
    """The classes and functions of a repository, by name.

    ``dotted`` resolves a name.
    """

    dotted: Naming
    classes: dict[str, Source] = field(default_factory=dict)
    functions: dict[str, tuple[_Function, dict[str, str]]] = field(default_factory=dict)
    trees: list[tuple[ast.Module, dict[str, str]]] = field(default_factory=list)
    bare: dict[tuple[str, str, int], bool] = field(default_factory=dict)

    @cached_property
    def trained(self) -> set[str]:
        """The classes whose parameters a program gives to an optimizer."""
        return parts.trained(self.trees, self.dotted, set(self.classes))

    def computes_loss(self, name: str, depth: int = _DEPTH) -> bool:
        """Whether the class of this name does what a loss does."""
        found = self._method(name, "forward", depth)
        if found is None or depth <= 0:
            return False
        forward, source = found
        plain = [*forward.args.posonlyargs, *forward.args.args][1:]
        if len(plain) < 2 or name in self.trained:  # noqa: PLR2004 - outputs and labels
            return False
        if self._has_weights(name, depth) or self._may_have_weights(name, "forward", depth):
            return False
        return _Reading(self, name, source.aliases, forward, depth).gives_scalar()

    def _method(self, owner: str, name: str, depth: int) -> tuple[_Function, Source] | None:
        """A method of a class or of its bases in the repository."""
        source = self.classes.get(owner)
        if source is None or depth <= 0:
            return None
        for each in source.node.body:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == name:
                return each, source
        for base in source.bases:
            found = self._method(base.rpartition(".")[2], name, depth - 1)
            if found is not None:
                return found
        return None

    def _lineage(self, name: str, depth: int) -> Iterator[Source]:
        """A class and its bases in the repository."""
        source = self.classes.get(name)
        if source is None or depth <= 0:
            return
        yield source
        for base in source.bases:
            yield from self._lineage(base.rpartition(".")[2], depth - 1)

    def _has_weights(self, name: str, depth: int) -> bool:
        """Whether a class builds layers with weights, or parts that build some."""
        if depth <= 0:
            return True
        for source in self._lineage(name, depth):
            for call in _calls(source.node):
                made = self.dotted(call.func, source.aliases)
                head, _, last = made.rpartition(".")
                if last == "register_parameter" or made.startswith(_ZOOS):
                    return True
                if head.startswith("torch.nn") and _WEIGHTS.match(last):
                    return True
                if last != name and last in self.classes and self._is_module(last, depth) and self._has_weights(last, depth - 1):
                    return True
        return False

    def _may_have_weights(self, owner: str, entry: str, depth: int) -> bool:
        """Whether a method calls a part of which nobody knows that it has no weights.

        A part that is called with two arguments or more may be a loss that was handed over, unless its result goes on into a loss.
        """
        found = self._method(owner, entry, depth)
        waiting, seen = [] if found is None else [found], set[int]()
        while waiting:
            function, source = waiting.pop()
            if id(function) in seen:
                continue
            seen.add(id(function))
            unknown = []
            for name, call in parts.called(function):
                method = self._method(owner, name, depth)
                if method is not None:
                    waiting.append(method)
                elif name not in parts.METHODS and not self._is_bare_part(owner, name, depth):
                    unknown.append(call)
            if any(len(parts.arguments(call)) < 2 for call in unknown):  # noqa: PLR2004 - outputs and labels
                return True
            if unknown and _Reading(self, owner, source.aliases, function, depth).goes_on(unknown):
                return True
        return False

    def _is_bare_part(self, owner: str, name: str, depth: int) -> bool:
        """Whether all that a class puts into an attribute is known to have no weights.

        ``bare`` keeps what was read before.
        """
        if (owner, name, depth) not in self.bare:
            every = ((source, parts.assigned(source.node, name)) for source in self._lineage(owner, depth))
            source, values = next(((source, values) for source, values in every if values), (None, []))
            self.bare[owner, name, depth] = source is not None and all(self._is_bare(each, owner, source, depth) for each in values)
        return self.bare[owner, name, depth]

    def _is_bare(self, value: ast.expr, owner: str, source: Source, depth: int) -> bool:
        """Whether an expression is known to give nothing with weights."""
        if depth <= 0:
            return False
        if isinstance(value, ast.Call):
            return self._builds_bare(value, owner, source, depth)
        if parts.own(value):
            return self._is_bare_part(owner, parts.own(value), depth - 1)
        name = self.dotted(value, source.aliases)
        if parts.is_bare(name) or name.rpartition(".")[2] in self.functions or isinstance(value, (ast.Constant, ast.Lambda)):
            return True
        values = parts.held(value) or parts.local(source.node, name)
        return bool(values) and all(self._is_bare(each, owner, source, depth - 1) for each in values)

    def _builds_bare(self, call: ast.Call, owner: str, source: Source, depth: int) -> bool:
        name = self.dotted(call.func, source.aliases)
        head, _, last = name.rpartition(".")
        if parts.is_container(name):
            return all(self._is_bare(each, owner, source, depth - 1) for each in parts.arguments(call))
        if parts.is_bare(name):
            return not (head.startswith("torch.nn") and _WEIGHTS.match(last))
        made = last if last in self.classes else head.rpartition(".")[2]  # X(…), or X.from_config(…)
        if made not in self.classes:
            return False
        if (made, "", depth) not in self.bare:
            heavy = self._has_weights(made, depth - 1)
            self.bare[made, "", depth] = not heavy and not any(
                self._may_have_weights(made, entry, depth - 1) for entry in ("forward", "__call__")
            )
        return self.bare[made, "", depth]

    def _is_module(self, name: str, depth: int) -> bool:
        return any(base.startswith("torch.nn.") for source in self._lineage(name, depth) for base in source.bases)

    def attribute(self, owner: str, name: str, depth: int) -> tuple[ast.expr, Source] | None:
        """What the methods of a class put into an attribute, the last time."""
        found = None
        for source in self._lineage(owner, depth):
            for node in ast.walk(source.node):
                if isinstance(node, ast.Assign) and any(parts.own(target) == name for target in node.targets):
                    found = node.value, source
            if found is not None:
                return found
        return None


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


class _Worth(IntEnum):
    """What an expression gives.

    Several elements, a number of Python's, or one number that was made of all elements.
    """

    ELEMENTS = 0
    NUMBER = 1
    SCALAR = 2


@dataclass
class _Reading:
    """One function while what it gives is read.

    ``seen`` holds what was read before, and what is being read meanwhile: as elements.
    """

    losses: Losses
    owner: str
    aliases: dict[str, str]
    function: _Function
    depth: int
    seen: dict[int, _Worth] = field(default_factory=dict)

    def gives_scalar(self) -> bool:
        """Whether some ``return`` of the function gives a scalar."""
        returned = [each.value for each in ast.walk(self.function) if isinstance(each, ast.Return) and each.value is not None]
        return any(self._worth(each) is _Worth.SCALAR for each in returned)

    def goes_on(self, calls: list[ast.Call]) -> bool:
        """Whether the result of one of the calls is a prediction.

        It is given to a loss, or something is subtracted.
        """
        holds = parts.flows_into(self.function, calls)
        for node in ast.walk(self.function):
            if isinstance(node, ast.Call) and node not in calls and any(map(holds, parts.arguments(node))):
                if self._is_loss(node, self.losses.dotted(node.func, self.aliases)):
                    return True
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                sides = ((node.left, node.right), (node.right, node.left))
                if any(holds(one) and not holds(other) and not self._worth(other) for one, other in sides):
                    return True
        return False

    def _worth(self, node: ast.expr, nested: int = 0) -> _Worth:
        if nested > _NESTED:
            return _Worth.ELEMENTS
        if id(node) not in self.seen:
            self.seen[id(node)] = _Worth.ELEMENTS
            self.seen[id(node)] = self._read(node, nested + 1)
        return self.seen[id(node)]

    def _read(self, node: ast.expr, nested: int) -> _Worth:
        pieces: list[_Worth] = []
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            pieces = [self._worth(node.left, nested), self._worth(node.right, nested)]
            return max(pieces) if all(pieces) else _Worth.ELEMENTS
        if isinstance(node, ast.IfExp):
            pieces = [self._worth(node.body, nested), self._worth(node.orelse, nested)]
        elif isinstance(node, ast.UnaryOp):
            pieces = [self._worth(node.operand, nested)]
        elif isinstance(node, (ast.Tuple, ast.List)):  # the loss, and what is told beside it
            pieces = [self._worth(each, nested) for each in node.elts[:1]]
        elif isinstance(node, ast.Dict):
            pieces = [self._worth(each, nested) for each in node.values]
        elif isinstance(node, ast.Call):
            pieces = [self._of_call(node, nested)]
        elif isinstance(node, ast.Name):
            pieces = [self._of_name(node, nested)]
        elif isinstance(node, ast.Constant) or parts.own(node) or _is_of_shape(node):
            pieces = [_Worth.NUMBER]
        return max(pieces, default=_Worth.ELEMENTS)

    def _of_name(self, node: ast.Name, nested: int) -> _Worth:
        value = self._assigned(node.id, node.lineno)
        if value is not None:
            return self._worth(value, nested)
        return _Worth.NUMBER if node.id in self._settings() else _Worth.ELEMENTS

    def _settings(self) -> set[str]:
        """Parameters of the function whose default is a number."""
        arguments = self.function.args
        plain = [*arguments.posonlyargs, *arguments.args][::-1]
        given = [*zip(plain, arguments.defaults[::-1], strict=False), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        return {each.arg for each, default in given if isinstance(default, ast.Constant) and isinstance(default.value, (int, float))}

    def _assigned(self, name: str, line: int) -> ast.expr | None:
        """What a name was given last before a line; what is added to it counts as well."""
        found: ast.Assign | ast.AugAssign | ast.AnnAssign | None = None
        for node in ast.walk(self.function):
            if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or node.lineno >= line:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets) and (found is None or node.lineno > found.lineno):
                found = node
        return None if found is None else found.value

    def _of_call(self, node: ast.Call, nested: int) -> _Worth:
        name = self.losses.dotted(node.func, self.aliases)
        if self._is_reduction(node, name) or self._is_loss(node, name):
            return _Worth.SCALAR
        last, method = name.rpartition(".")[2], _method_name(node)
        made_of = node.func.value if isinstance(node.func, ast.Attribute) and not name.startswith("torch") else next(iter(node.args), None)
        if name == "sum" and isinstance(made_of, (ast.GeneratorExp, ast.ListComp)):
            return self._worth(made_of.elt, nested)
        if (last in _ELEMENTWISE or method in _ELEMENTWISE) and made_of is not None and self._worth(made_of, nested):
            return self._worth(made_of, nested)
        return _Worth.NUMBER if last in _NUMBERS or method in _NUMBERS else _Worth.ELEMENTS

    @staticmethod
    def _is_reduction(node: ast.Call, name: str) -> bool:
        """Whether a call leaves one number of all elements."""
        if node.keywords:
            return False
        head, _, last = name.rpartition(".")
        if head in ("torch", "torch.linalg"):
            return last in _REDUCTIONS and len(node.args) == 1
        return _method_name(node) in _REDUCTIONS and not node.args

    def _is_loss(self, node: ast.Call, name: str) -> bool:
        """Whether a call computes a loss: of PyTorch, of the repository, or a part of this one."""
        if parts.own(node.func):
            return self._is_scalar_part(parts.own(node.func), node)
        if isinstance(node.func, ast.Call):  # nn.MSELoss()(a, b)
            return self._makes_loss(node.func, self.aliases)
        head, _, last = name.rpartition(".")
        if head in ("torch.nn.functional", "torch.nn.functional.loss"):
            return (last in FUNCTIONAL or last.endswith("_loss")) and not _keeps_elements(node)
        own = self.losses.functions.get(last) if not head.startswith("torch") else None
        return own is not None and own[0] is not self.function and self._is_scalar_function(*own)

    def _is_scalar_part(self, name: str, call: ast.Call) -> bool:
        """Whether ``self.name(…)`` gives a scalar.

        It may be a method, a loss that was built, or one that was handed over.
        """
        found = self.losses._method(self.owner, name, self.depth)  # noqa: SLF001 - one reading, two classes
        if found is not None:
            return self._is_scalar_function(found[0], found[1].aliases)
        held = self.losses.attribute(self.owner, name, self.depth)
        if held is None:
            return False
        value, source = held
        if isinstance(value, ast.Call):
            return self._makes_loss(value, source.aliases)
        return False if len(call.args) + len(call.keywords) < 2 else isinstance(value, ast.Name)  # noqa: PLR2004 - outputs and labels

    def _is_scalar_function(self, function: _Function, aliases: dict[str, str]) -> bool:
        if self.depth <= 0:
            return False
        return _Reading(self.losses, self.owner, aliases, function, self.depth - 1).gives_scalar()

    def _makes_loss(self, call: ast.Call, aliases: dict[str, str]) -> bool:
        """Whether a call builds a loss, of PyTorch or of the repository."""
        name = self.losses.dotted(call.func, aliases)
        head, _, last = name.rpartition(".")
        if head.startswith("torch.nn"):
            return last.endswith("Loss") and not _keeps_elements(call)
        return last in self.losses.classes and self.losses.computes_loss(last, self.depth - 1)


def _keeps_elements(call: ast.Call) -> bool:
    """Whether a loss is told to leave every element: ``reduction="none"``."""
    given = {each.arg: each.value for each in call.keywords}.get("reduction")
    return isinstance(given, ast.Constant) and given.value == "none"


def _method_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_of_shape(node: ast.expr) -> bool:
    """Whether an expression is ``x.shape[0]``."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
