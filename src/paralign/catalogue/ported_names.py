"""What a call of the reference is called in the candidate's framework.

By its last name, from the catalogue's tables.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.naming import names, paddle_name, torch_signature
from paralign.catalogue.parameters import Signature, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

#: where a call's last name is looked for, in this order
_HOMES = {
    "torch": (
        "torch.nn", "torch.nn.functional", "torch", "torch.Tensor", "torch.optim", "torch.optim.lr_scheduler",
        "torchvision.transforms",
    ),
    "paddle": (
        "paddle.nn", "paddle.nn.functional", "paddle", "paddle.Tensor", "paddle.optimizer", "paddle.optimizer.lr",
        "paddle.vision.transforms",
    ),
}  # fmt: skip

#: modules that say nothing of what is called
PREFIXES = frozenset(
    {"torch", "paddle", "nn", "F", "np", "numpy", "self", "optim", "optimizer", "functional", "lr", "lr_scheduler", "init"}
)

#: words of numpy and Python that mean what a word of the frameworks does
_WORDS = {"clamp": "clip", "concatenate": "concat", "cat": "concat", "axis": "axis", "dim": "axis", "keepdims": "keepdim", "eps": "epsilon"}


def last_name(node: ast.AST) -> str:
    """The last part of what a call calls, or of a name."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return str(getattr(node, "attr", None) or getattr(node, "id", None) or "")


@cache
def full_name(framework: str, last: str) -> str:
    """The public name of a framework's callable by its last part; '' where it has none."""
    for home in _HOMES.get(framework, ()):
        if f"{home}.{last}" in stored(home.partition(".")[0]):
            return f"{home}.{last}"
    return ""


@cache
def signature(framework: str, last: str) -> Signature | None:
    """The signature of a framework's callable by its last part; None where it is not known."""
    name = full_name(framework, last)
    if not name:
        return None
    found = torch_signature(name) if framework == "torch" else stored("paddle").signature(name)
    return found if found.known else None


@cache
def ported(last: str, framework: str) -> str:
    """The last part of a name of PyTorch's in the candidate's framework.

    The name itself where nothing else is known.
    """
    if framework != "paddle":
        return last
    name = full_name("torch", last)
    port = paddle_name(name, stored("paddle")) if name else ""
    return port.rpartition(".")[2] or _WORDS.get(last, last)


@cache
def argument_names(name: str, framework: str) -> tuple[str, ...]:
    """What an argument of PyTorch may be called in the candidate's framework.

    Its own name comes first.
    """
    if framework != "paddle":
        return (name,)
    return tuple(dict.fromkeys([name, *names().arguments.get(name, []), f"{name}s"]))


@cache
def word(name: str) -> str:
    """A name as two programs in different frameworks have it in common."""
    name = ported(name, "paddle").lower().strip("_")
    return _WORDS.get(name, name)


def words(node: ast.AST) -> list[str]:
    """The words of an expression or statement in the order of reading.

    Names, operators, numbers, texts.
    """
    return list(_words(node))


def _words(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.BinOp):
        yield from _words(node.left)
        yield type(node.op).__name__
        yield from _words(node.right)
    elif isinstance(node, ast.Compare):
        yield from _words(node.left)
        for op, right in zip(node.ops, node.comparators, strict=True):
            yield type(op).__name__
            yield from _words(right)
    elif isinstance(node, ast.Constant):
        yield _number(node.value)
    elif isinstance(node, ast.Name):
        if node.id not in PREFIXES:
            yield word(node.id)
    else:
        yield from _own_words(node)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt):
                yield from _words(child)


def _own_words(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Attribute):
        yield word(node.attr)
    elif isinstance(node, ast.keyword) and node.arg:
        yield word(node.arg)
    elif isinstance(node, ast.operator | ast.unaryop | ast.boolop):
        yield type(node).__name__
    elif isinstance(node, ast.arg):
        yield word(node.arg)


def _number(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return f"{value:g}"
        except OverflowError:  # an integer that no float holds
            return repr(value)
    return repr(value)


def is_port(framework: str) -> bool:
    """Whether a framework is the one that the catalogue's fixes are written for."""
    return framework == "paddle"
