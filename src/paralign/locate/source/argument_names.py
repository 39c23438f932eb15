"""Names of Paddle's arguments that a run records by position, for people to read.

Rules compare arguments as they were recorded; these names are put in place of positions where a point is told.
Source: the calls of ``paddle._C_ops`` in paddle 3.3.1's Python code, whose variables bear the names of the parameters.
"""

from __future__ import annotations

from typing import Any

#: operation -> names of its arguments, tensors included, from the first on
NAMES: dict[str, tuple[str, ...]] = {
    "addmm": ("input", "x", "y", "beta", "alpha"),
    "affine_grid": ("theta", "out_shape", "align_corners"),
    "argmax": ("x", "axis", "keepdim", "flatten", "dtype"),
    "argmin": ("x", "axis", "keepdim", "flatten", "dtype"),
    "argsort": ("x", "axis", "descending", "stable"),
    "channel_shuffle": ("x", "groups", "data_format"),
    "conv3d": ("x", "weight", "stride", "padding", "padding_algorithm", "groups", "dilation", "data_format"),
    "conv3d_transpose": (
        "x", "weight", "stride", "padding", "output_padding", "output_size", "padding_algorithm", "groups", "dilation", "data_format",
    ),
    "crop": ("x", "shape", "offsets"),
    "cross": ("x", "y", "axis"),
    "cumprod": ("x", "dim", "exclusive", "reverse"),
    "dist": ("x", "y", "p"),
    "expand": ("x", "shape"),
    "flash_attn": ("query", "key", "value", "fixed_seed_offset", "attn_mask", "dropout", "causal", "return_softmax", "is_test", "rng_name"),
    "fold": ("x", "output_sizes", "kernel_sizes", "strides", "paddings", "dilations"),
    "frobenius_norm": ("x", "axis", "keepdim", "reduce_all"),
    "gather": ("x", "index", "axis"),
    "huber_loss": ("input", "label", "delta"),
    "index_add": ("x", "index", "value", "axis"),
    "index_select": ("x", "index", "axis"),
    "instance_norm": ("x", "weight", "bias", "epsilon"),
    "kldiv_loss": ("input", "label", "reduction", "log_target"),
    "kthvalue": ("x", "k", "axis", "keepdim"),
    "label_smooth": ("label", "prior_dist", "epsilon"),
    "log_loss": ("input", "label", "epsilon"),
    "max": ("x", "axis", "keepdim"),
    "max_pool2d_with_index": ("x", "kernel_size", "stride", "padding", "global_pooling", "adaptive", "ceil_mode"),
    "maxout": ("x", "groups", "axis"),
    "median": ("x", "axis", "keepdim", "mode"),
    "min": ("x", "axis", "keepdim"),
    "mode": ("x", "axis", "keepdim"),
    "multinomial": ("x", "num_samples", "replacement"),
    "nll_loss": ("input", "label", "weight", "ignore_index", "reduction"),
    "one_hot": ("x", "num_classes"),
    "p_norm": ("x", "p", "axis", "epsilon", "keepdim", "as_vector"),
    "pixel_shuffle": ("x", "upscale_factor", "data_format"),
    "pixel_unshuffle": ("x", "downscale_factor", "data_format"),
    "prelu": ("x", "weight", "data_format", "mode"),
    "prod": ("x", "axis", "keepdim", "reduce_all"),
    "put_along_axis": ("x", "indices", "values", "axis", "reduce", "include_self"),
    "repeat_interleave": ("x", "repeats", "axis", "output_size"),
    "rms_norm": ("x", "weight", "normalized_shape", "epsilon"),
    "scatter": ("x", "index", "updates", "overwrite"),
    "selu": ("x", "scale", "alpha"),
    "sequence_mask": ("x", "maxlen", "dtype"),
    "sigmoid_cross_entropy_with_logits": ("logit", "label", "pos_weight", "normalize", "ignore_index"),
    "slice": ("x", "axes", "starts", "ends", "infer_flags", "decrease_axis"),
    "squeeze": ("x", "axis"),
    "stack": ("x", "axis"),
    "stanh": ("x", "scale_a", "scale_b"),
    "std": ("x", "axis", "keepdim", "unbiased", "correction"),
    "strided_slice": ("x", "axes", "starts", "ends", "strides"),
    "take_along_axis": ("x", "indices", "axis"),
    "temporal_shift": ("x", "seg_num", "shift_ratio", "data_format"),
    "tile": ("x", "repeat_times"),
    "tril": ("x", "diagonal"),
    "triu": ("x", "diagonal"),
    "unbind": ("x", "axis"),
    "unfold": ("x", "kernel_sizes", "strides", "paddings", "dilations"),
    "unsqueeze": ("x", "axis"),
    "unstack": ("x", "axis", "num"),
    "var": ("x", "axis", "keepdim", "unbiased", "correction"),
    "warpctc": ("input", "label", "input_length", "label_length", "blank", "norm_by_times"),
}  # fmt: skip


def named(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments with names in place of positions; ``argument 6`` for unknown ones.

    >>> named("label_smooth", {"2": 0.1}), named("something", {"5": 0, "axis": 1})
    ({'epsilon': 0.1}, {'argument 6': 0, 'axis': 1})
    """
    known = NAMES.get(op.rstrip("_"), ())
    told: dict[str, Any] = {}
    for name, value in arguments.items():
        place = int(name) if name.isascii() and name.isdigit() else -1
        told[name if place < 0 else known[place] if place < len(known) else f"argument {place + 1}"] = value
    return told
