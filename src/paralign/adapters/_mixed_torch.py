"""Float32 beside float64 in one operation of PyTorch, taken together in float64.

A model that was cast to float64 meets constants that its code makes in float32. Most of PyTorch's operations compute with both in the
wider type; products of matrices, convolutions and some others refuse. What they refuse is asked again here with all floating values in
float64. An operation that takes what it is given is left alone.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from paralign.adapters._operations import replaced, tensors

NARROW, WIDE = torch.float32, torch.float64


class Mixing:
    """Float64 runs under way."""

    def __init__(self) -> None:
        self._mode: Optional[_Joining] = None

    def install(self) -> None:
        """Have operations join what they would refuse."""
        if self._mode is None:
            self._mode = _Joining()
            self._mode.__enter__()

    def remove(self) -> None:
        """Leave operations as they are.

        Under a mode that somebody else has entered since, ours stays and does nothing more.
        """
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.active = False
        stack: List[Any] = _get_current_function_mode_stack()
        if stack and stack[-1] is mode:
            mode.__exit__(None, None, None)


class _Joining(TorchFunctionMode):  # type: ignore[misc] # PyTorch's types are not looked into
    """Calls again, with all in float64, what refuses float32 beside float64."""

    active = True

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        named = kwargs or {}
        try:
            return function(*args, **named)
        except RuntimeError:
            given = tensors((args, named), _is_tensor)
            if not self.active or _writes(function) or {NARROW, WIDE} - {tensor.dtype for tensor in given}:
                raise
            wide = iter([_widened(tensor) for tensor in given])
            args = replaced(args, _is_tensor, wide)
            named = {name: replaced(value, _is_tensor, wide) for name, value in named.items()}
        return function(*args, **named)


def _writes(function: Callable[..., Any]) -> bool:
    """Whether a function changes what it is given."""
    name = getattr(function, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor in float64, with its gradient's way back; any other as it is."""
    return tensor.to(WIDE) if tensor.dtype == NARROW else tensor
