"""Paddle's half of :class:`paralign.adapters.base.Lending`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

import paddle

from paralign.adapters._autocast_paddle import no_autocast
from paralign.adapters._lending import Attributes


class Lends:
    """What the adapter has of it."""

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Gradients on and automatic casts off, as in a thread that has just begun."""
        with paddle.enable_grad(), no_autocast():
            yield

    def process_state(self) -> Any:
        """States of the generators of all devices, and the device in use."""
        state: Dict[str, Any] = {"device": paddle.get_device(), "cpu": paddle.framework.core.default_cpu_generator().get_state()}
        if paddle.device.is_compiled_with_cuda() and paddle.device.cuda.device_count():
            state["cuda"] = paddle.get_cuda_rng_state()
        return state

    def put_process_state(self, state: Any) -> None:
        """Put them back."""
        if paddle.get_device() != state["device"]:
            paddle.set_device(state["device"])
        paddle.framework.core.default_cpu_generator().set_state(state["cpu"])
        if "cuda" in state:
            paddle.set_cuda_rng_state(state["cuda"])

    def lend(self, model: Any) -> Callable[[], None]:
        """Keep all tensors' memory, values, gradients and flags, and all layers' attributes."""
        attributes = Attributes(model.sublayers(include_self=True))
        found: Dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
        found.update({id(v): v for v in attributes.values() if isinstance(v, paddle.Tensor)})
        held = [_Held(t) for t in found.values() if t.is_dense() and t._is_initialized()]  # noqa: SLF001 - there is no public question

        def give_back() -> None:
            attributes.restore()
            with paddle.no_grad():
                for each in held:
                    each.restore()

        return give_back


class _Held:
    """One tensor as it was. ``memory`` is another handle to its memory."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.memory = tensor, _handle(tensor)
        self.values = tensor.detach().clone()
        self.stop_gradient = tensor.stop_gradient
        gradient = tensor._grad_ivar() if tensor.is_leaf else None  # noqa: SLF001 - ``grad`` is a copy of the handle
        self.gradient: Optional[Any] = None if gradient is None or not gradient.is_dense() else _handle(gradient)
        if self.gradient is not None:
            tensor.clear_gradient(False)  # a check that casts the model would cast it too; by keyword, the argument is not heard

    def restore(self) -> None:
        """Put it back."""
        tensor = self.tensor
        if tensor.is_leaf:
            tensor.clear_gradient(False)
        _share(tensor, self.memory)
        self.memory.copy_(self.values, True)
        tensor.stop_gradient = self.stop_gradient
        if self.gradient is not None:
            tensor.grad = self.gradient
            _share(tensor._grad_ivar(), self.gradient)  # noqa: SLF001 - as above; what is set is a copy


def _handle(tensor: Any) -> Any:
    found = paddle.empty([0], tensor.dtype)
    _share(found, tensor)
    return found


def _share(tensor: Any, memory: Any) -> None:
    tensor.value().get_tensor()._share_data_with(memory.value().get_tensor())  # noqa: SLF001 - ``Layer.to`` has no other way
