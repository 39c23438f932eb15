"""Calls that a configuration stands for: ``dict(type="Net")`` and a registered class."""

from __future__ import annotations

import ast
import keyword
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: optimizers of PyTorch that configurations name
_OPTIMIZERS = frozenset(
    {"ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
)

#: schedules and losses of PyTorch that configurations name: others of such names are of libraries that register their own
_SCHEDULES = frozenset(
    {
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "PolynomialLR",
        "CosineAnnealingLR",
        "CosineAnnealingWarmRestarts",
        "LambdaLR",
        "MultiplicativeLR",
        "CyclicLR",
        "OneCycleLR",
        "ReduceLROnPlateau",
    }
)
_LOSSES = frozenset(
    {
        "L1Loss",
        "NLLLoss",
        "PoissonNLLLoss",
        "GaussianNLLLoss",
        "KLDivLoss",
        "MSELoss",
        "BCELoss",
        "BCEWithLogitsLoss",
        "HingeEmbeddingLoss",
        "MultiLabelMarginLoss",
        "SmoothL1Loss",
        "HuberLoss",
        "SoftMarginLoss",
        "CrossEntropyLoss",
        "MultiLabelSoftMarginLoss",
        "CosineEmbeddingLoss",
        "MarginRankingLoss",
        "MultiMarginLoss",
        "TripletMarginLoss",
        "CTCLoss",
    }
)


def registered(trees: Iterable[ast.Module]) -> dict[str, str]:
    """Name in configurations -> class, by its own name and those that decorators register."""
    found: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            found.setdefault(node.name, node.name)
            for each in node.decorator_list:
                if isinstance(each, ast.Call) and "register" in ast.unparse(each.func).lower():
                    given = [*each.args, *(keyword.value for keyword in each.keywords)]
                    found.update({a.value: node.name for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)})
    return found


def calls(tree: ast.Module, names: dict[str, str]) -> Iterator[tuple[ast.Call, str, bool]]:
    """The calls that a file's configurations stand for.

    With the name of what is called, and whether the call is a part of another one.
    """
    parts = {id(inner) for node in ast.walk(tree) if _typed(node) for inner in ast.walk(node) if inner is not node}
    for node in ast.walk(tree):
        called = _typed(node)
        if called is None:
            continue
        kind, given = called
        for name, arguments in _meant(kind, names):
            first = [ast.parse(text, mode="eval").body for text in arguments]
            call = ast.Call(ast.parse(name, mode="eval").body, first, given)
            yield ast.copy_location(call, node), name, id(node) in parts


def _meant(kind: str, names: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """What a type may be called, and the arguments that it is given first."""
    if kind in names:
        yield names[kind], []
    elif kind in _OPTIMIZERS:
        yield f"torch.optim.{kind}", ["model.parameters()"]
    elif kind in _SCHEDULES:
        yield f"torch.optim.lr_scheduler.{kind}", ["optimizer"]
    elif kind in _LOSSES:
        yield f"torch.nn.{kind}", []


def _typed(node: ast.AST) -> tuple[str, list[ast.keyword]] | None:
    """The type and the settings of ``dict(type="X", …)`` or ``{"type": "X", …}``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        pairs = {each.arg: each.value for each in node.keywords}
    elif isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys):
        pairs = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}  # type: ignore[misc]
    else:
        return None
    kind = pairs.pop("type", None)
    if not isinstance(kind, ast.Constant) or not isinstance(kind.value, str) or not _is_name(kind.value):
        return None
    if not all(name is not None and _is_name(name) for name in pairs):
        return None
    return kind.value, [ast.keyword(name, value) for name, value in pairs.items()]


def _is_name(text: str) -> bool:
    """Whether a text can be the name of a class or of an argument."""
    return text.isidentifier() and not keyword.iskeyword(text)
