"""What of Paddle is asked again where it refuses float32 beside float64."""

from __future__ import annotations

import paddle

from paralign.adapters._mixed import MixedOperations

#: operations that change nothing of what they are given, and draw nothing before they refuse
PURE = frozenset(
    [
        "add",
        "addmm",
        "baddbmm",
        "bce_loss",
        "bilinear",
        "bmm",
        "concat",
        "conv2d",
        "conv2d_transpose",
        "conv3d",
        "conv3d_transpose",
        "cross",
        "cross_entropy_with_softmax",
        "depthwise_conv2d",
        "depthwise_conv2d_transpose",
        "dist",
        "divide",
        "dot",
        "einsum",
        "fmax",
        "fmin",
        "grid_sample",
        "group_norm",
        "huber_loss",
        "instance_norm",
        "kldiv_loss",
        "kron",
        "layer_norm",
        "lerp",
        "linear",
        "linear_v2",
        "matmul",
        "maximum",
        "minimum",
        "multi_dot",
        "multiply",
        "mv",
        "p_norm",
        "prelu",
        "put_along_axis",
        "scatter",
        "scatter_nd_add",
        "sigmoid_cross_entropy_with_logits",
        "stack",
        "subtract",
        "where",
    ]
)


def create() -> MixedOperations:
    """Of Paddle's operations; its methods and operators go through them."""
    operations = paddle._C_ops  # noqa: SLF001 - Paddle's only name for its operations
    own = "paddle.base.libpaddle"
    return MixedOperations([(operations, PURE)], (paddle.Tensor, frozenset()), paddle.Tensor, paddle.float32, paddle.float64, _cast, own)


def _cast(tensor: paddle.Tensor, dtype: object) -> paddle.Tensor:
    return tensor.cast(dtype)
