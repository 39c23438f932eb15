"""Paddle in several processes, see ``parallel.py``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np
import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.autograd import PyLayer


class _Total(PyLayer):  # type: ignore[misc]
    """The sum over the processes; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:  # noqa: ARG004 - nothing is kept
        result = value.clone()
        dist.all_reduce(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ARG004 - as above
        result = gradient.clone()
        dist.all_reduce(result)
        return result


def _forward(self: Any, x: Any) -> Any:
    """Batch normalisation over all processes (Ioffe and Szegedy, 2015).

    The running statistics are those of ``BatchNorm``.
    """
    channel = 1 if str(self._data_format).startswith("NC") else x.ndim - 1
    axes = [axis for axis in range(x.ndim) if axis != channel]
    shape = [-1 if axis == channel else 1 for axis in range(x.ndim)]
    if not self.training or not dist.is_initialized():
        form = self._data_format if x.ndim > 2 else "NC"  # noqa: PLR2004 - without axes of space
        momentum = self._momentum
        return nn.functional.batch_norm(x, self._mean, self._variance, self.weight, self.bias, self.training, momentum, self._epsilon, form)
    count = paddle.full([1], x.size / x.shape[channel], x.dtype)
    sums = _Total.apply(paddle.concat([x.sum(axes), count]))
    total = sums[-1].detach()
    mean = sums[:-1] / total
    centred = x - mean.reshape(shape)
    variance = _Total.apply((centred * centred).sum(axes)) / total
    with paddle.no_grad():
        for kept, new in ((self._mean, mean), (self._variance, variance)):
            kept.set_value((kept * self._momentum + new.detach().astype(kept.dtype) * (1 - self._momentum)).astype(kept.dtype))
    result = centred * paddle.rsqrt(variance + self._epsilon).reshape(shape)
    if self.weight is not None:
        result = result * self.weight.reshape(shape)
    return result if self.bias is None else result + self.bias.reshape(shape)


def synchronise_on_cpu() -> None:
    """Let ``SyncBatchNorm`` compute on the CPU."""
    original = nn.SyncBatchNorm.forward

    def forward(self: Any, x: Any) -> Any:
        return _forward(self, x) if x.place.is_cpu_place() else original(self, x)

    nn.SyncBatchNorm.forward = forward


@contextmanager
def after_backward(act: Callable[[], None]) -> Iterator[None]:
    """Around ``Tensor.backward``."""
    original = paddle.Tensor.backward

    def backward(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        act()

    paddle.Tensor.backward = backward
    try:
        yield
    finally:
        paddle.Tensor.backward = original


def join(device: str) -> None:
    """``init_parallel_env()``; the launcher has chosen how to communicate."""
    paddle.set_device(device)
    dist.init_parallel_env()


def total(value: "np.ndarray[Any, Any]", device: str) -> "np.ndarray[Any, Any]":  # noqa: ARG001 - the device in use
    """``all_reduce``."""
    tensor = paddle.to_tensor(np.array(value))
    dist.all_reduce(tensor)
    return np.asarray(tensor.numpy())


def draw_of_loader(loader: Any) -> None:
    """Nothing: Paddle's loader draws a seed for workers only, and by numpy."""
