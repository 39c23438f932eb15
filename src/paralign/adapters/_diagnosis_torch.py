"""PyTorch's half of :class:`paralign.adapters.base.Diagnosing`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict

import torch
from torch import distributed

if TYPE_CHECKING:
    import numpy as np


#: seconds after which a group of one process counts as hanging
_PATIENCE = 60


class Diagnoses:
    """What the adapter has of it."""

    _device: torch.device

    def diagnose(self) -> Dict[str, Any]:
        """Build, collective libraries, settings."""
        version = torch.version
        gpu = bool(version.cuda or getattr(version, "hip", None))
        collectives: Dict[str, str] = {}
        if distributed.is_available():
            if distributed.is_nccl_available():
                collectives["nccl"] = ".".join(str(number) for number in torch.cuda.nccl.version())
            if distributed.is_gloo_available():
                collectives["gloo"] = "yes"
        settings = {
            "threads": torch.get_num_threads(),
            "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""),
        }
        if self._device.type == "cuda":
            cudnn = torch.backends.cudnn
            settings["deterministic"] = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
            settings["autotune"] = cudnn.benchmark
        return {"build": "gpu" if gpu else "cpu", "commit": version.git_version or "", "collectives": collectives, "settings": settings}

    def rehearse(self, check: str, first: "np.ndarray[Any, Any]", second: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """A small computation on the device in use."""
        one, two = (torch.from_numpy(array).to(self._device) for array in (first, second))
        if check == "convolution":
            result = torch.nn.functional.conv2d(one, two, padding=1)
        elif check == "matmul":
            result = one @ two
        else:
            one.requires_grad_(True)
            ((one @ two) ** 2).sum().backward()
            result = one.grad
        array: np.ndarray[Any, Any] = result.detach().cpu().numpy()
        return array

    def joined_sum(self, first: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """By NCCL on a GPU, by gloo on a CPU."""
        kind = "nccl" if self._device.type == "cuda" else "gloo"
        distributed.init_process_group(kind, store=distributed.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=_PATIENCE))
        try:
            tensor = torch.from_numpy(first).to(self._device)
            distributed.all_reduce(tensor)
            array: np.ndarray[Any, Any] = tensor.cpu().numpy()
        finally:
            distributed.destroy_process_group()
        return array
