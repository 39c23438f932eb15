"""What is known of Paddle without importing it."""

from __future__ import annotations

from paralign.adapters.profile import Equivalent, Profile

#: the guides' frequently asked questions; what they name is there in Paddle 3.3.1
_EQUIVALENTS = (
    Equivalent(
        frozenset({"gather", "take_along_dim"}),
        "torch.gather takes an index for every element: in Paddle paddle.take_along_axis(x, index, axis); paddle.gather takes whole rows",
    ),
    Equivalent(
        frozenset({"scatter", "scatter_", "scatter_add", "scatter_add_"}),
        "torch.scatter places single elements: in Paddle paddle.put_along_axis(x, index, values, axis); paddle.scatter places whole rows",
    ),
    Equivalent(
        frozenset({"masked_fill", "masked_fill_"}),
        "masked_fill fills where the mask is True: in Paddle x.masked_fill(mask, value) or "
        "paddle.where(mask, paddle.full_like(x, value), x), in this order",
    ),
    Equivalent(
        frozenset({"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}),
        "Paddle has no pack_padded_sequence: give the recurrent layer sequence_length=lengths, "
        "which leaves outputs behind a sequence's end zero and takes the state at its end",
    ),
    Equivalent(
        frozenset({"avg_pool1d", "avg_pool2d", "avg_pool3d"}),
        "PyTorch's average counts the padding (count_include_pad=True), Paddle's does not: exclusive=False makes Paddle count it",
    ),
)

PROFILE = Profile(
    "paddle",
    layouts={
        ("linear", "weight"): (1, 0),
        ("linear", "weight_v"): (1, 0),
        ("linear", "weight_orig"): (1, 0),
        ("lstm", "weight_hr"): (1, 0),
        ("lstmcell", "weight_hr"): (1, 0),
    },
    momentum_keeps_old=True,
    unbiased_variance=False,
    launcher="paddle",
    initialisers="paralign.init",
    initialises_all="paralign.init.default_like_torch(model) gives all layers PyTorch's defaults",
    distributions={"cpu": "paddlepaddle", "gpu": "paddlepaddle-gpu"},
    gpu_build="install paddlepaddle-gpu: https://www.paddlepaddle.org.cn/install/quick",
    deterministic="FLAGS_cudnn_deterministic = 1 in the side's `env`",
    not_tuned="FLAGS_cudnn_exhaustive_search = 0 in the side's `env`",
    equivalents=_EQUIVALENTS,
    switches=(("", "{leaf}_attr"),),
)
