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
        "allclose",
        "baddbmm",
        "bilinear",
        "binary_cross_entropy",
        "bmm",
        "cdist",
        "chain_matmul",
        "cholesky_solve",
        "complex",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "cross",
        "cross_entropy",
        "dot",
        "einsum",
        "embedding_bag",
        "grid_sampler",
        "group_norm",
        "heaviside",
        "index_add",
        "index_copy",
        "index_put",
        "index_reduce",
        "inner",
        "isclose",
        "kron",
        "layer_norm",
        "lerp",
        "linear",
        "masked_scatter",
        "matmul",
        "mm",
        "multi_margin_loss",
        "mv",
        "nanquantile",
        "nll_loss",
        "outer",
        "polar",
        "prelu",
        "quantile",
        "scaled_dot_product_attention",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "tensordot",
        "vdot",
        "where",
    ]
)

#: functions of linear algebra that do so
LINEAR_ALGEBRA = frozenset(["cross", "lstsq", "multi_dot", "solve", "solve_triangular", "vecdot"])

#: methods and operators of tensors that do so
METHODS = frozenset(
    [
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "allclose",
        "baddbmm",
        "bmm",
        "dot",
        "heaviside",
        "index_add",
        "index_copy",
        "index_put",
        "index_reduce",
        "isclose",
        "lerp",
        "masked_scatter",
        "matmul",
        "mm",
        "mv",
        "quantile",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "__matmul__",
        "__rmatmul__",
    ]
)


def create() -> MixedOperations:
    """Of PyTorch's functions, wherever modules hold them, and of tensors' methods."""
    at_home = torch._C._nn  # noqa: SLF001 - where functions of layers and losses are
    sources = [(torch, PURE), (torch.nn.functional, PURE), (at_home, PURE), (torch.linalg, LINEAR_ALGEBRA)]
    return MixedOperations(sources, (torch.Tensor, METHODS), torch.Tensor, torch.float32, torch.float64, torch.Tensor.to, "torch._C")
