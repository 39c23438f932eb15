"""PyTorch in several processes, see ``parallel.py``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


class _Total(torch.autograd.Function):  # type: ignore[misc]
    """The sum over the processes; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Any, group: Any) -> Any:
        ctx.group = group
        result = value.clone()
        dist.all_reduce(result, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        result = gradient.contiguous().clone()
        dist.all_reduce(result, group=ctx.group)
        return result, None


def _forward(self: Any, x: Any) -> Any:
    """Batch normalisation over all processes (Ioffe and Szegedy, 2015).

    The running statistics are those of ``BatchNorm``.
    """
    batch = self.training or self.running_mean is None
    if not batch or not dist.is_initialized():
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, batch, self.momentum or 0.0, self.eps
        )
    axes = [axis for axis in range(x.dim()) if axis != 1]
    shape = [1, -1] + [1] * (x.dim() - 2)
    count = x.new_full((1,), x.numel() / x.shape[1])
    sums = _Total.apply(torch.cat([x.sum(axes), count]), self.process_group)
    total = sums[-1].detach()
    mean = sums[:-1] / total
    centred = x - mean.view(shape)
    variance = _Total.apply((centred * centred).sum(axes), self.process_group) / total
    if self.running_mean is not None and self.track_running_stats:
        _keep(self, mean.detach(), variance.detach(), float(total))
    result = centred * torch.rsqrt(variance + self.eps).view(shape)
    return result if self.weight is None else result * self.weight.view(shape) + self.bias.view(shape)


def _keep(self: Any, mean: Any, variance: Any, total: float) -> None:
    """Update the running statistics."""
    self.num_batches_tracked.add_(1)
    share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
    self.running_mean.mul_(1 - share).add_(mean, alpha=share)
    self.running_var.mul_(1 - share).add_(variance * (total / max(total - 1.0, 1.0)), alpha=share)


def synchronise_on_cpu() -> None:
    """Let ``SyncBatchNorm`` compute on the CPU."""
    original = nn.SyncBatchNorm.forward

    def forward(self: Any, x: Any) -> Any:
        return _forward(self, x) if x.device.type == "cpu" else original(self, x)

    nn.SyncBatchNorm.forward = forward
    refuse = getattr(DistributedDataParallel, "_passing_sync_batchnorm_handle", None)

    def handle(self: Any, module: Any) -> None:
        if self.device_type != "cpu" and refuse is not None:
            refuse(self, module)

    DistributedDataParallel._passing_sync_batchnorm_handle = handle  # noqa: SLF001 - it refuses the CPU


@contextmanager
def after_backward(act: Callable[[], None]) -> Iterator[None]:
    """Around ``torch.autograd.backward``, which ``Tensor.backward`` calls."""
    original = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        act()

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original


def join(device: str) -> None:
    """``init_process_group``."""
    if device != "cpu":
        torch.cuda.set_device(int(device.partition(":")[2] or 0))
    dist.init_process_group("gloo" if device == "cpu" else "nccl")


def total(value: "np.ndarray[Any, Any]", device: str) -> "np.ndarray[Any, Any]":
    """``all_reduce``."""
    tensor = torch.from_numpy(np.array(value)).to(device.replace("gpu", "cuda"))
    dist.all_reduce(tensor)
    result: "np.ndarray[Any, Any]" = tensor.cpu().numpy()
    return result


def draw_of_loader(loader: Any) -> Optional[Callable[[], None]]:
    """The seed that ``DataLoader`` draws for workers, also where it has none."""
    if not isinstance(loader, DataLoader) or loader.generator is not None:
        return None

    def draw() -> None:
        torch.empty((), dtype=torch.int64).random_()

    return draw
