"""What of PyTorch is asked again where it refuses float32 beside float64."""

from __future__ import annotations

import torch

from paralign.adapters._mixed import MixedOperations

#: functions that change nothing of what they are given, and draw nothing before they refuse
PURE = frozenset(
    [
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bilinear",
        "bmm",
        "cdist",
        "chain_matmul",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "cross",
        "dot",
        "einsum",
        "grid_sampler",
        "group_norm",
        "index_add",
        "inner",
        "kron",
        "layer_norm",
        "lerp",
        "linear",
        "matmul",
        "mm",
        "mv",
        "outer",
        "prelu",
        "scaled_dot_product_attention",
        "scatter",
        "scatter_add",
        "tensordot",
        "vdot",
        "where",
    ]
)

#: methods and operators of tensors that do so
METHODS = frozenset(
    [
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bmm",
        "dot",
        "index_add",
        "lerp",
        "matmul",
        "mm",
        "mv",
        "scatter",
        "scatter_add",
        "__matmul__",
        "__rmatmul__",
    ]
)


def create() -> MixedOperations:
    """Of PyTorch's functions, wherever modules hold them, and of tensors' methods."""
    sources = [(torch, PURE), (torch.nn.functional, PURE), (torch._C._nn, PURE)]  # noqa: SLF001 - where its functions are at home
    return MixedOperations(sources, (torch.Tensor, METHODS), torch.Tensor, torch.float32, torch.float64, torch.Tensor.to, "torch._C")
