"""Parts of a module that may have weights though its source does not show them.

They were handed over, or built by something that is not read.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: packages whose functions and classes hold no weights, unless :data:`WEIGHTY` or the caller says so
_BARE = ("torch.", "torchvision.ops.", "torchvision.transforms.", "math.", "numpy.")

#: functions of PyTorch that give back a model that they are given, or one that was trained
WEIGHTY = ("torch.jit.", "torch.compile", "torch.hub.", "torch.load", "torch.nn.utils.", "torch.nn.parallel.", "torch.nn.DataParallel")

#: classes of PyTorch that hold what they are given, and a function that calls it
_CONTAINERS = frozenset(
    {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "functools.partial", "list", "tuple", "dict", "staticmethod"}
)

#: methods that every module has: they compute nothing
METHODS = frozenset(
    {"register_buffer", "parameters", "named_parameters", "buffers", "modules", "children", "log", "log_dict", "get_buffer"}
)


def called(function: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Attributes of ``self`` that a function calls.

    ``self.x(…)``, ``self.x[0](…)``, ``self.x.forward(…)``, and ``each(…)`` in a loop over ``self.x``.
    """
    looped = _looped(function)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        target: ast.expr = node.func
        if isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "forward"):
            target = target.value
        names = looped.get(target.id, set()) if isinstance(target, ast.Name) else {own(target)} - {""}
        for name in sorted(names):
            yield name, node


def _looped(function: ast.AST) -> dict[str, set[str]]:
    """Name of a loop -> the attributes of ``self`` that it goes through."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if not isinstance(node, (ast.For, ast.comprehension)):
            continue
        pairs = [(node.target, node.iter)]
        if isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple) and len(node.iter.args) == len(node.target.elts):
            pairs = list(zip(node.target.elts, node.iter.args, strict=True))  # as zip does
        for target, through in pairs:
            attributes = {own(each) for each in ast.walk(through) if isinstance(each, ast.expr)} - {""}
            for name in (each.id for each in ast.walk(target) if isinstance(each, ast.Name)):
                found.setdefault(name, set()).update(attributes)
    return found


def own(node: ast.expr) -> str:
    """``x`` of ``self.x``, else ''."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return ""


def assigned(tree: ast.ClassDef, name: str) -> list[ast.expr]:
    """All that a class puts into an attribute, in methods and in its body."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        in_body = node in tree.body
        if any(own(each) == name or (in_body and isinstance(each, ast.Name) and each.id == name) for each in targets):
            found.append(node.value)
    return found


def unpacked(tree: ast.ClassDef, name: str) -> list[ast.expr]:
    """All that a class puts into an attribute beside others: ``self.x, self.y = x, y``."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(node.value.elts):
                found += [value for each, value in zip(target.elts, node.value.elts, strict=True) if own(each) == name]
    return found


def local(tree: ast.ClassDef, name: str) -> list[ast.expr]:
    """All that the methods of a class put into a name of their own."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return [node.value for node in nodes if any(isinstance(each, ast.Name) and each.id == name for each in node.targets)]


def held(value: ast.expr) -> list[ast.expr]:
    """What an expression is one of, or a collection of; nothing of any other."""
    found: list[ast.expr] = []
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        found = value.elts
    elif isinstance(value, (ast.Dict, ast.BoolOp)):
        found = value.values
    elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        found = [value.elt]
    elif isinstance(value, (ast.DictComp, ast.Starred)):
        found = [value.value]
    elif isinstance(value, ast.IfExp):
        found = [value.body, value.orelse]
    return found


def arguments(call: ast.Call) -> list[ast.expr]:
    """All that a call is given."""
    return [*call.args, *(each.value for each in call.keywords)]


def is_container(name: str) -> bool:
    """Whether what a call of this name gives holds its arguments."""
    return name in _CONTAINERS


def is_bare(name: str) -> bool:
    """Whether a dotted name belongs to a package whose functions hold no weights."""
    return name.startswith(_BARE) and not name.startswith(WEIGHTY)


def flows_into(function: ast.AST, calls: list[ast.Call]) -> Callable[[ast.AST], bool]:
    """Tell whether an expression holds the result of one of the calls.

    Under whatever name of the function.
    """
    sources, names = {id(call) for call in calls}, set[str]()

    def holds(tree: ast.AST) -> bool:
        return any(id(node) in sources or (isinstance(node, ast.Name) and node.id in names) for node in ast.walk(tree))

    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    for _ in range(len(nodes)):
        before = len(names)
        for node in nodes:
            if holds(node.value):
                names |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)} - {"self"}
        if len(names) == before:
            break
    return holds


def trained(trees: list[tuple[ast.Module, dict[str, str]]], dotted: Callable[[ast.expr, dict[str, str]], str], known: set[str]) -> set[str]:
    """The classes whose parameters alone a program gives to an optimizer.

    ``SGD(X(…).parameters())``, or those of a name bound to ``X(…)``.
    """
    found = set()
    for tree, aliases in trees:
        bound = _bound(tree, aliases, dotted, known)
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or "optim" not in dotted(call.func, aliases).lower():
                continue
            given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in ("params", "parameters"))]
            owners = [owner for each in given for node in ast.walk(each) if (owner := _owner_of_parameters(node)) is not None]
            classes = {_built(owner, aliases, dotted, known) or bound.get(dotted(owner, {}), "") for owner in owners}
            if len(classes) == 1:  # of several together, one may be a loss that has no weights
                found |= classes
    return found - {""}


def _owner_of_parameters(node: ast.AST) -> ast.expr | None:
    """``x`` of ``x.parameters()``; None of anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return node.func.value if node.func.attr in ("parameters", "named_parameters") else None


def _bound(tree: ast.Module, aliases: dict[str, str], dotted: Callable[[ast.expr, dict[str, str]], str], known: set[str]) -> dict[str, str]:
    """Name in a file -> the class that it was built by; '' where there are several."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        made = _built(node.value, aliases, dotted, known) if isinstance(node, ast.Assign) else ""
        if not made or not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            name = dotted(target, {})
            found[name] = made if found.get(name, made) == made else ""
    found.pop("", None)
    return found


def _built(value: ast.expr, aliases: dict[str, str], dotted: Callable[[ast.expr, dict[str, str]], str], known: set[str]) -> str:
    """The outermost class of the repository that an expression builds; '' without one."""
    names = [dotted(node.func, aliases).rpartition(".")[2] for node in ast.walk(value) if isinstance(node, ast.Call)]
    return next((name for name in names if name in known), "")
