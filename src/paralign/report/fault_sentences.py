"""What is said of a fault by its kind, wherever a stage gets one sentence.

It is the same on the terminal, on the page and elsewhere.
"""

from __future__ import annotations

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
