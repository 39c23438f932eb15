"""Paddle's half of :class:`paralign.adapters.base.Diagnosing`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Dict, Optional

import paddle

if TYPE_CHECKING:
    import numpy as np

#: what all frameworks have in common -> Paddle's flag; a build has those of its devices only
_SETTINGS = {
    "threads": "FLAGS_paddle_num_threads",
    "deterministic": "FLAGS_cudnn_deterministic",
    "autotune": "FLAGS_cudnn_exhaustive_search",
}

#: what Paddle's version module says where a library is not part of the build
_ABSENT = (None, False, "False", "0", 0, "")


def compat_level() -> Optional[str]:
    """How far ``paddle.enable_compat`` makes ``import torch`` give Paddle; None without it.

    Off, everywhere, or in which modules.
    """
    finder = getattr(sys.modules.get("paddle.compat.proxy"), "TORCH_PROXY_FINDER", None)
    if finder is None:
        return None
    if finder not in sys.meta_path:
        return "off"
    scope = getattr(finder, "_local_enabled_scope", ())
    return "everywhere" if getattr(finder, "_globally_enabled", True) else "in " + ", ".join(sorted(scope))


class Diagnoses:
    """What the adapter has of it."""

    def diagnose(self) -> Dict[str, Any]:
        """Build, collective libraries, settings."""
        gpu = paddle.is_compiled_with_cuda() or paddle.is_compiled_with_rocm()
        collectives: Dict[str, str] = {}
        if paddle.is_compiled_with_distribute():
            nccl = paddle.version.nccl() if hasattr(paddle.version, "nccl") else None
            if nccl not in _ABSENT:
                collectives["nccl"] = str(nccl)
            if hasattr(paddle.base.core, "ProcessGroupGloo"):
                collectives["gloo"] = "yes"
        settings: Dict[str, Any] = {"default_dtype": paddle.get_default_dtype()}
        for name, flag in _SETTINGS.items():
            if name == "threads" or not str(paddle.get_device()).startswith("cpu"):
                with suppress(ValueError):  # Paddle's way of saying that this build has no such flag
                    settings[name] = next(iter(paddle.get_flags([flag]).values()))
        return {"build": "gpu" if gpu else "cpu", "commit": paddle.version.commit, "collectives": collectives, "settings": settings}

    def rehearse(self, check: str, first: "np.ndarray[Any, Any]", second: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """A small computation on the device in use."""
        one, two = paddle.to_tensor(first), paddle.to_tensor(second)
        if check == "convolution":
            result = paddle.nn.functional.conv2d(one, two, padding=1)
        elif check == "matmul":
            result = one @ two
        else:
            one.stop_gradient = False
            ((one @ two) ** 2).sum().backward()
            result = one.grad
        array: np.ndarray[Any, Any] = result.numpy()
        return array
