"""What is said of a fault by its kind, wherever a stage gets one sentence.

It is the same on the terminal, on the page and elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.model import argument_differences
from paralign.report.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping

#: kind of a fault -> what to say of its operation; other kinds say it in their first note
SENTENCES = {
    "different": "{op}: right inputs, another result",
    "missing": "the reference does {step} first, which is missing here",
    "extra": "{op}: this step is not there in the reference",
    "miswired": "{op} takes another value than in the reference",
    "order": "{op}: the right elements, in another order",
    "given": "a parameter, buffer or constant that goes into {op} is none of the reference's",
    "region": "computed in other steps than the reference's",
}

#: arguments that a sentence names
_NAMED = 2

#: what belongs to the name of a framework's operation and tells a porter nothing
_DIALECT = frozenset({"aten", "prims", "default", "Tensor", "Scalar", "dim", "int", "float", "self", "_C_ops"})


def operation(module: str, called: str) -> str:
    """An operation as a porter calls it: the layer, else the function's name.

    '' where neither is known.

    Args:
        module: the path of the module that it is in.
        called: its name in the framework, with the kind of the layer behind it.

    >>> operation("bn", "aten.native_batch_norm.default (BatchNorm2d)"), operation("", "aten.tanh.default")
    ('bn (BatchNorm2d)', 'tanh')
    """
    function, _, layer = called.partition(" (")
    plain = [part for part in function.split(".") if part and part not in _DIALECT]
    kind = layer.rstrip(")") if layer else ".".join(plain) or function
    if module and kind:
        return f"{module} ({kind})"
    return module or kind


def parted(kind: str, reference: Mapping[str, Any] | None, candidate: Mapping[str, Any] | None) -> str:
    """Arguments that differ between two operations of one kind, as a part of a sentence.

    '' where none is known to.
    """
    if kind != "different" or reference is None or candidate is None:
        return ""
    found = argument_differences(reference, candidate)[:_NAMED]
    return "".join(say("; {name}={own} here, {due} in the reference", name=name, own=repr(own), due=repr(due)) for name, own, due in found)
