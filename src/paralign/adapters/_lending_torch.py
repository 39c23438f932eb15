"""PyTorch's half of :class:`paralign.adapters.base.Lending`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List

import torch
from torch.nn.parameter import is_lazy

from paralign.adapters._lending import Attributes


class Lends:
    """What the adapter has of it."""

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Gradients on, inference mode and autocast off, as in a thread that has just begun."""
        devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        contexts = [torch.autocast(device, enabled=False) for device in devices]
        with torch.inference_mode(False), torch.enable_grad():
            for context in contexts:
                context.__enter__()
            try:
                yield
            finally:
                for context in reversed(contexts):
                    context.__exit__(None, None, None)

    def process_state(self) -> Any:
        """States of the generators of all devices in use, and the current device."""
        state: Dict[str, Any] = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"], state["device"] = torch.cuda.get_rng_state_all(), torch.cuda.current_device()
        return state

    def put_process_state(self, state: Any) -> None:
        """Put them back."""
        torch.set_rng_state(state["cpu"])
        if "cuda" in state:
            torch.cuda.set_rng_state_all(state["cuda"])
            torch.cuda.set_device(state["device"])

    def lend(self, model: Any) -> Callable[[], None]:
        """Keep all tensors' memory, values, gradients and flags, and all modules' attributes."""
        attributes = Attributes(m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule))
        found: Dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
        found.update({id(v): v for v in attributes.values() if isinstance(v, torch.Tensor)})
        held = [_Held(t) for t in found.values() if not is_lazy(t)]

        def give_back() -> None:
            attributes.restore()
            _restore(held)

        return give_back


class _Held:
    """One tensor as it was.

    ``memory`` is another handle to its memory, with a count of writes of its own.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.memory = tensor, tensor.detach() if tensor.is_inference() else tensor.data
        self.values = self.memory.clone()
        self.requires_grad = tensor.requires_grad
        self.version = None if tensor.is_inference() else tensor._version  # noqa: SLF001 - autograd's own counter, which has no public name
        self.gradient = tensor.grad if tensor.is_leaf else None
        if self.gradient is not None:
            tensor.grad = None  # a check that casts the model would cast it too

    def restore(self) -> None:
        """Put it back."""
        tensor = self.tensor
        if tensor.is_leaf:
            tensor.grad = None  # one of another type would forbid what follows
        if tensor.dtype != self.memory.dtype or tensor.data_ptr() != self.memory.data_ptr() or tensor.shape != self.memory.shape:
            tensor.data = self.memory
        if not torch.equal(self.memory, self.values):
            self.memory.copy_(self.values)
        if tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        if tensor.is_leaf:
            tensor.grad = self.gradient


def _restore(held: List[_Held]) -> None:
    with torch.no_grad():
        for each in held:
            each.restore()
    counted = [each for each in held if each.version is not None and each.tensor._version != each.version]  # noqa: SLF001 - as above
    reset = getattr(torch._C._autograd, "_unsafe_set_version_counter", None)  # noqa: SLF001 - PyTorch has it for FSDP, under this name only
    if reset is None or not counted:
        return
    try:  # a graph of the user's that was recorded before the check can still be differentiated
        reset(tuple(each.tensor for each in counted), tuple(each.version for each in counted))
    except TypeError:  # before 2.7, one tensor a call
        for each in counted:
            reset(each.tensor, each.version)
