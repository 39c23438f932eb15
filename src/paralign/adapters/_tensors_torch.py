"""The element types of PyTorch, and which of its tensors can be read."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import is_lazy

from paralign.dtypes import STORAGE
from paralign.errors import UnsupportedTensor

#: canonical name -> type of this version of the framework, and back
TYPES = {name: getattr(torch, name) for name in STORAGE if hasattr(torch, name)}
NAMES = {kind: name for name, kind in TYPES.items()}


def recordable(tensor: Any) -> str:
    """The canonical dtype of a tensor whose values can be read."""
    refuse_lazy(tensor)
    what, hint = "", ""
    if tensor.is_nested:
        what, hint = "a nested tensor", "use torch.nested.to_padded_tensor(x, 0.0)"
    elif tensor.layout is not torch.strided:
        what, hint = f"a tensor of layout {tensor.layout}", "call .to_dense() on it"
    elif tensor.is_quantized:
        what, hint = f"a quantised tensor ({tensor.dtype})", "call .dequantize() or .int_repr() on it"
    elif tensor.is_meta:
        what, hint = "a meta tensor (it has no values)", "build the model on a real device (module.to_empty, then load weights)"
    elif tensor.dtype not in NAMES:
        what, hint = f"a tensor of {tensor.dtype}", "convert it to one of: " + ", ".join(sorted(TYPES))
    if what:
        raise UnsupportedTensor(f"{what} cannot be recorded", hint=hint)
    return NAMES[tensor.dtype]


def refuse_lazy(tensor: Any) -> None:
    """Stop at a parameter of a lazy module that has not run.

    Raises:
        UnsupportedTensor: it has no shape yet.
    """
    if is_lazy(tensor):
        raise UnsupportedTensor("a parameter of a lazy module has no shape yet", hint="run the model once before it is compared")
