"""Names of operations that frameworks have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import FrozenSet

#: common name -> names in the frameworks, without overloads and without the underscore of in-place operations
_SAME = {
    "add": "add radd elementwise_add",
    "subtract": "sub rsub subtract",
    "multiply": "mul rmul multiply scale",
    "divide": "div rdiv truediv rtruediv divide",
    "power": "pow rpow square",
    "negative": "neg negative",
    "matmul": "mm bmm addmm baddbmm matmul rmatmul linear mv dot fused_gemm_epilogue",
    "convolution": "convolution conv1d conv2d conv3d depthwise_conv2d mkldnn_convolution _convolution",
    "convolution_transpose": "conv2d_transpose conv3d_transpose depthwise_conv2d_transpose",
    "batch_norm": "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update "
    "cudnn_batch_norm batch_norm sync_batch_norm",
    "layer_norm": "native_layer_norm layer_norm",
    "group_norm": "native_group_norm group_norm",
    "instance_norm": "instance_norm",
    "rms_norm": "_fused_rms_norm rms_norm fused_rms_norm",
    "softmax": "_softmax softmax",
    "log_softmax": "_log_softmax log_softmax",
    "dropout": "native_dropout dropout alpha_dropout",
    "embedding": "embedding lookup_table_v2",
    "attention": "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_fused_attention_overrideable flash_attn memory_efficient_attention",
    "view": "view _unsafe_view reshape flatten unflatten alias squeeze unsqueeze _reshape_alias view_shape expand broadcast_to expand_as",
    "transpose": "t transpose permute numpy_t",
    "copy": "clone copy set contiguous assign detach lift_fresh assign_out set_value share_data stop_gradient tensor_use_gpudnn",
    "cast": "_to_copy cast astype to",
    "concatenate": "cat concat",
    "split": "split unsafe_split split_with_sizes unbind chunk split_with_num unstack",
    "slice": "slice select index getitem strided_slice narrow",
    "mean": "mean mean_all",
    "sum": "sum",
    "maximum": "max amax maximum",
    "minimum": "min amin minimum",
    "clip": "clamp clamp_min clamp_max clip hardtanh relu6",
    "relu": "relu threshold",
    "leaky_relu": "leaky_relu",
    "average_pool": "avg_pool1d avg_pool2d avg_pool3d pool2d_avg pool3d_avg",
    "maximum_pool": "max_pool2d_with_indices max_pool3d_with_indices max_pool2d pool2d_max pool3d_max mkldnn_max_pool2d",
    "adaptive_average_pool": "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool2d",
    "interpolate": "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d upsample_linear1d "
    "upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_nearest_exact2d nearest_interp bilinear_interp "
    "bicubic_interp linear_interp trilinear_interp",
    "grid_sample": "grid_sampler_2d grid_sampler_3d grid_sampler grid_sample",
    "pad": "constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d pad pad3d",
    "where": "where masked_fill",
    "cross_entropy": "nll_loss_forward nll_loss2d_forward cross_entropy_with_softmax nll_loss",
    "random": "rand randn randint bernoulli uniform normal gaussian randperm multinomial random exponential rand_like randn_like poisson",
    "fill": "fill zero zeros ones full zeros_like ones_like full_like empty empty_like new_zeros new_ones new_full empty_strided",
}
_KINDS = {name: kind for kind, names in _SAME.items() for name in names.split()}

#: common name of an argument -> the names that frameworks record it by, and that calls write
_ARGUMENTS = {
    "dilation": "dilation dilations",
    "epsilon": "eps epsilon",
    "groups": "group groups",
    "kernel_size": "kernel_size kernel_sizes",
    "output_size": "output_size output_sizes",
    "padding": "padding paddings",
    "value": "value pad_value",
    "stride": "stride strides",
    "threshold": "threshold lambd",
}
_COMMON_ARGUMENTS = {name: argument for argument, names in _ARGUMENTS.items() for name in names.split()}

#: kinds that only move values or hand them on
MOVES = frozenset({"view", "transpose", "copy", "cast"})

#: names of operations that hand out memory as it is, with what happens to be in it
_UNSET = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


@lru_cache(maxsize=None)
def common(op: str) -> str:
    """The common name of an operation; its own, without dressing, where there is none.

    >>> common("aten.addmm.default"), common("__radd__"), common("relu_"), common("aten.my_op.out")
    ('matmul', 'add', 'relu', 'my_op')
    """
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    if name in _KINDS:
        return _KINDS[name]
    bare = name.strip("_") if name.startswith("__") else name.rstrip("_")
    return _KINDS.get(bare, bare)


def leaves_unset(op: str) -> bool:
    """Whether an operation hands out memory that nothing has been written to yet.

    >>> leaves_unset("aten.empty.memory_format"), leaves_unset("empty_like"), leaves_unset("aten.zeros.default")
    (True, True, False)
    """
    parts = op.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]) in _UNSET


def common_argument(name: str) -> str:
    """The common name of an argument; its own where there is none.

    >>> common_argument("eps"), common_argument("strides"), common_argument("axis")
    ('epsilon', 'stride', 'axis')
    """
    return _COMMON_ARGUMENTS.get(name, name)


def names_of_argument(argument: str) -> FrozenSet[str]:
    """All names of an argument, given its common one.

    >>> sorted(names_of_argument("groups")), sorted(names_of_argument("axis"))
    (['group', 'groups'], ['axis'])
    """
    return frozenset(_ARGUMENTS.get(argument, argument).split())
