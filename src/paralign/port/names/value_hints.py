"""What a program's text says of its values: whole numbers of few bits, NaN among its data."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: names, attributes and texts for whole numbers of less than 32 bits
_NARROW = frozenset({"ByteTensor", "CharTensor", "ShortTensor", "byte", "char", "int16", "int8", "short", "uint8"})

#: packages whose pictures are whole numbers of eight bits
_OF_PICTURES = frozenset({"PIL", "cv2", "imageio", "skimage"})

#: functions for data with NaN
_OF_NAN = frozenset({"nan", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum"})

#: callables whose results for NaN differ in Paddle, on the CPU of 3.3.1
_DIFFERENT_FOR_NAN = frozenset({
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "ReLU", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "argmax", "argmin", "max_pool1d", "max_pool2d", "max_pool3d", "relu", "relu_",
    "scatter_reduce", "scatter_reduce_", "sgn", "sgn_", "sign", "sign_", "unique",
})  # fmt: skip

#: those that differ along an axis alone
_DIFFERENT_ALONG = frozenset({"max", "min"})

#: those that give the place of one of several equal elements, along an axis or always
_PLACES_ALONG, _PLACES = frozenset({"median", "nanmedian"}), frozenset({"kthvalue"})

_NAN = "NaN is treated otherwise in Paddle. Only where an element is NaN."

_TIED = "Of several equal elements the place of another one may be given. Only where places are used and elements are equal."


@lru_cache(maxsize=4)
def holds_narrow(tree: ast.AST) -> bool:
    """Whether a program speaks of whole numbers of less than 32 bits, or of pictures."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute | ast.Constant) and getattr(each, "attr", getattr(each, "value", None)) in _NARROW:
            return True
        if isinstance(each, ast.Import | ast.ImportFrom) and not _OF_PICTURES.isdisjoint(_roots(each)):
            return True
    return False


def _roots(node: ast.Import | ast.ImportFrom) -> Iterable[str]:
    names = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return [each.partition(".")[0] for each in names]


@lru_cache(maxsize=4)
def holds_nan(tree: ast.AST) -> bool:
    """Whether a program has NaN among its data, not as a failure that it looks for."""
    asked = {id(part) for each in ast.walk(tree) if isinstance(each, ast.If | ast.Assert | ast.While) for part in ast.walk(each.test)}
    for each in ast.walk(tree):
        if id(each) in asked:
            continue
        name = getattr(each, "attr", getattr(each, "id", "")) if isinstance(each, ast.Attribute | ast.Name) else ""
        if name in _OF_NAN or (name == "isnan" and isinstance(each, ast.Attribute)):
            return True
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "float" and each.args and _is_nan(each.args[0]):
            return True
    return False


def _is_nan(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() == "nan"


def conditions_of_values(name: str, given: Mapping[str, ast.expr], around: ast.AST, *, has_nan: bool) -> list[str]:
    """For which values a call gives something else in Paddle.

    ``around`` is the expression or statement that the call stands in; ``has_nan``: the program has NaN among its data.
    """
    last, axis = name.rpartition(".")[2], "dim" in given
    found = []
    if (last in _DIFFERENT_FOR_NAN or (axis and last in _DIFFERENT_ALONG)) and has_nan:
        found.append(_NAN)
    first = isinstance(around, ast.Subscript) and getattr(around.slice, "value", None) == 0
    if (last in _PLACES or (axis and last in _PLACES_ALONG)) and not first and getattr(around, "attr", "") != "values":
        found.append(_TIED)
    return found
