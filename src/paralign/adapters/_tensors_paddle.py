"""The element types of Paddle, and which of its tensors can be read."""

from __future__ import annotations

from typing import Any

import paddle

from paralign.dtypes import STORAGE
from paralign.errors import UnsupportedTensor

#: canonical name -> type of this version of the framework, and back
TYPES = {name: getattr(paddle, name) for name in STORAGE if hasattr(paddle, name) and name not in ("uint16", "uint32", "uint64")}
NAMES = {kind: name for name, kind in TYPES.items()}


def recordable(tensor: Any) -> str:
    """The canonical dtype of a tensor whose values can be read.

    Paddle crashes on some of those that are refused here.
    """
    what, hint = "", ""
    if tensor.is_dist():
        what, hint = "a distributed tensor", "gather it with paddle.distributed.unshard_dtensor"
    elif tensor.is_selected_rows():
        what, hint = "a tensor of selected rows", "build the Embedding with sparse=False"
    elif not tensor.is_dense():
        what, hint = "a sparse tensor", "call .to_dense() on it"
    elif not tensor._is_initialized() and tensor.size:  # noqa: SLF001 - there is no public question
        what, hint = "a tensor without memory", "give it a value first"
    elif tensor.dtype not in NAMES:
        what, hint = f"a tensor of {tensor.dtype}", "convert it to one of: " + ", ".join(sorted(TYPES))
    if what:
        raise UnsupportedTensor(f"{what} cannot be recorded", hint=hint)
    return NAMES[tensor.dtype]


def held_still(tensor: Any) -> bool:
    """Whether a parameter is frozen as the guides do it, by ``ParamAttr(learning_rate=0)``.

    That is a factor of the optimizer's rate.
    """
    return bool((getattr(tensor, "optimize_attr", None) or {}).get("learning_rate", 1.0) == 0)
