"""Layers and losses that PyTorch and Paddle both have, with variants of their arguments, as expressions of either.

Where only one expression stands, the other side's has the same arguments and the name in Paddle's spelling (``Conv2d``, ``Conv2D``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

RANDOM = np.random.RandomState(0)


def numbers(*shape):
    return RANDOM.randn(*shape).astype("float32")


#: what layers are given; floating inputs pass a Linear layer first, so that every case has parameters and gradients
INPUTS = {
    "rows": (numbers(5, 6),),
    "line": (numbers(3, 4, 9),),
    "image": (numbers(2, 4, 8, 6),),
    "volume": (numbers(2, 4, 4, 6, 4),),
    "volume-even": (numbers(2, 4, 4, 4, 4),),
    "sequence": (numbers(3, 7, 6),),
    "tokens": (RANDOM.randint(1, 11, (3, 7)),),
    "two": (numbers(5, 6), numbers(5, 6)),
    "memory": (numbers(3, 7, 8), numbers(3, 5, 8)),
    "wide": (numbers(3, 7, 8),),
    "columns": (numbers(2, 16, 12),),
    "state": (numbers(3, 7, 6), numbers(2, 3, 5)),
    "states": (numbers(3, 7, 6), numbers(2, 3, 5), numbers(2, 3, 5)),
    "cell": (numbers(5, 6), numbers(5, 4)),
    "cells": (numbers(5, 6), numbers(5, 4), numbers(5, 4)),
}


class Case(NamedTuple):
    """``reference`` and ``candidate`` make the layer, given ``nn``; ``ours`` and ``theirs`` call it ``m`` with ``x``.

    ``labels`` are those of a loss, which is called with ``y``; None for a layer.
    """

    name: str
    reference: str
    candidate: str
    inputs: str
    ours: str = "m(*x)"
    theirs: str = "m(*x)"
    labels: object = None


def spelled(text):
    """An expression in Paddle's spelling of layers."""
    return re.sub(r"(nn\.[A-Za-z]+)(\d)d\(", r"\1\2D(", re.sub(r"nn\.Conv(Transpose)(\d)d", r"nn.Conv\2D\1", text))


def same(inputs, *texts):
    return [Case(text, f"nn.{text}", spelled(f"nn.{text}"), inputs) for text in texts]


def pairs(inputs, *both, ours="m(*x)", theirs="m(*x)"):
    return [Case(one, f"nn.{one}", f"nn.{other}", inputs, ours, theirs) for one, other in both]


def activations():
    return [
        *same("sequence", "CELU()", "CELU(0.5)", "ELU()", "ELU(0.3)", "GELU()", "GLU()", "GLU(-1)", "Hardshrink()", "Hardshrink(0.3)"),
        *same("sequence", "Hardsigmoid()", "Hardswish()", "Hardtanh()", "Hardtanh(-0.5, 0.7)", "LeakyReLU()", "LeakyReLU(0.2)"),
        *same("sequence", "LogSigmoid()", "LogSoftmax(-1)", "LogSoftmax(1)", "Mish()", "ReLU()", "SELU()", "Sigmoid()"),
        *same("sequence", "ReLU6()", "SiLU()"),
        *same("sequence", "Softmax(-1)", "Softmax(1)", "Softplus()", "Softplus(2, 10)", "Softshrink()", "Softshrink(0.2)", "Softsign()"),
        *same("sequence", "Tanh()", "Tanhshrink()", "Identity()", "RReLU()"),
        *same("image", "Softmax2d()", "PReLU()", "PReLU(4)", "PReLU(4, 0.1)"),
        *pairs("sequence", ("GELU(approximate='tanh')", "GELU(approximate=True)"), ("Threshold(0.5, 0.0)", "ThresholdedReLU(0.5)")),
        *pairs("sequence", ("SiLU()", "Swish()")),
        *pairs("sequence", ("Softmin(-1)", "Softmax(-1)"), theirs="m(-x[0])"),
    ]  # fmt: skip


def convolutions():
    found = []
    for count, inputs in ((1, "line"), (2, "image"), (3, "volume")):
        found += same(inputs, *(f"Conv{count}d(4, {rest})" for rest in ("6, 3", "8, 3, 2, 1", "4, 3, padding=1, groups=4", "6, 1, 2")))
        found += same(inputs, f"Conv{count}d(4, 6, 3, dilation=2, padding=2)", f"Conv{count}d(4, 6, 2, padding='same')")
        found += pairs(inputs, (f"Conv{count}d(4, 6, 3, bias=False)", f"Conv{count}D(4, 6, 3, bias_attr=False)"))
        for mode in ("reflect", "replicate", "circular"):
            found += same(inputs, f"Conv{count}d(4, 4, 3, padding=1, padding_mode='{mode}')")
        found += same(inputs, *(f"ConvTranspose{count}d(4, {rest})" for rest in ("6, 3", "6, 3, 2, 1, 1", "8, 3, 2, groups=2")))
    found += same("image", "Conv2d(4, 6, (3, 1), (2, 1), (1, 0))", "Conv2d(4, 8, 3, groups=2, dilation=(1, 2))")
    return found


def pools():
    found = []
    for count, inputs in ((1, "line"), (2, "image"), (3, "volume")):
        found += same(inputs, f"MaxPool{count}d(2)", f"MaxPool{count}d(3, 2, 1)", f"MaxPool{count}d(3, 2, ceil_mode=True)")
        found += same(inputs, f"AvgPool{count}d(2)", f"AvgPool{count}d(2, 1)", f"AdaptiveMaxPool{count}d(3)")
        found += pairs(
            inputs,
            (f"AvgPool{count}d(3, 2, 1)", f"AvgPool{count}D(3, 2, 1, exclusive=False)"),
            (f"AvgPool{count}d(3, 2, 1, count_include_pad=False)", f"AvgPool{count}D(3, 2, 1)"),
        )
        found += same(inputs, f"AdaptiveAvgPool{count}d(1)", f"AdaptiveAvgPool{count}d(3)")
        unpool = "m(*POOL(*x))"
        pair = (f"MaxUnpool{count}d(2)", f"MaxUnPool{count}D(2)")
        ours = unpool.replace("POOL", f"F.max_pool{count}d_with_indices").replace("*x)", "*x, 2)")
        theirs = unpool.replace("POOL", f"F.max_pool{count}d").replace("*x)", "*x, 2, return_mask=True)")
        found += pairs("volume-even" if count > 2 else inputs, pair, ours=ours, theirs=theirs)
    found += same("image", "AdaptiveAvgPool2d((2, 3))", "AdaptiveAvgPool2d((None, 2))", "MaxPool2d((2, 1), (2, 2))", "LPPool2d(2, 2)")
    return [*found, *same("line", "LPPool1d(2, 3)")]


def norms():
    found = []
    for count, inputs in ((1, "line"), (2, "image"), (3, "volume")):
        found += pairs(
            inputs,
            (f"BatchNorm{count}d(4)", f"BatchNorm{count}D(4)"),
            (f"BatchNorm{count}d(4, eps=1e-3, momentum=0.3)", f"BatchNorm{count}D(4, epsilon=1e-3, momentum=0.7)"),
            (f"BatchNorm{count}d(4, affine=False)", f"BatchNorm{count}D(4, weight_attr=False, bias_attr=False)"),
            (f"InstanceNorm{count}d(4, affine=True)", f"InstanceNorm{count}D(4)"),
            (f"InstanceNorm{count}d(4)", f"InstanceNorm{count}D(4, weight_attr=False, bias_attr=False)"),
        )
    found += same(
        "image", "GroupNorm(2, 4)", "GroupNorm(4, 4)", "GroupNorm(1, 4)", "LocalResponseNorm(3)", "LocalResponseNorm(5, 1e-3, 0.5, 2.0)"
    )
    # not GroupNorm without weights: the gradient of Paddle 3.3 is wrong there, by up to 3 %
    found += same("sequence", "LayerNorm(6)", "LayerNorm((7, 6))", "LayerNorm(6, 1e-4)")
    found += pairs("sequence", ("LayerNorm(6, elementwise_affine=False)", "LayerNorm(6, weight_attr=False, bias_attr=False)"))
    return [*found, *pairs("rows", ("BatchNorm1d(6)", "BatchNorm1D(6)"))]


def shapes():
    found = []
    for count, inputs in ((1, "line"), (2, "image"), (3, "volume")):
        both = [
            ("Constant", f"Pad{count}d(2, 0.5)"),
            ("Reflection", f"Pad{count}d(1)"),
            ("Replication", f"Pad{count}d(2)"),
            ("Zero", f"Pad{count}d(1)"),
        ]
        modes = {
            "Constant": "'constant', 0.5",
            "Reflection": "'reflect'",
            "Replication": "'replicate'",
            "Zero": "'constant'",
            "Circular": "'circular'",
        }
        for kind, rest in [*both, ("Circular", f"Pad{count}d(1)")]:
            size = re.search(r"\((\d)", rest)[1]
            found += pairs(inputs, (kind + rest, f"Pad{count}D({size}, {modes[kind]})"))
    found += same(
        "image", "PixelShuffle(2)", "PixelUnshuffle(2)", "ChannelShuffle(2)", "Flatten()", "Flatten(1, 2)", "Unflatten(1, (2, 2))"
    )
    found += pairs("image", ("Unfold(3, padding=1)", "Unfold(3, paddings=1)"), ("Unfold(2, stride=2)", "Unfold(2, strides=2)"))
    found += pairs(
        "columns",
        ("Fold((4, 5), 2)", "Fold((4, 5), 2)"),
        ("Fold((5, 6), 2, padding=1, stride=2)", "Fold((5, 6), 2, paddings=1, strides=2)"),
    )
    found += same(
        "image",
        "Upsample(scale_factor=2)",
        "Upsample(size=(12, 9))",
        "UpsamplingNearest2d(scale_factor=2)",
        "UpsamplingBilinear2d(scale_factor=2)",
    )
    for mode in ("bilinear", "bicubic"):
        for corners in (False, True):
            for how in ("scale_factor=2", "scale_factor=1.5", "size=(13, 11)", "size=(5, 4)"):
                found += same("image", f"Upsample({how}, mode='{mode}', align_corners={corners})")
    for corners in (False, True):
        found += same("volume", f"Upsample(size=(7, 5, 9), mode='trilinear', align_corners={corners})")
        theirs = f"Upsample(size=[13], mode='linear', align_corners={corners}, data_format='NCW')"
        found += pairs("line", (f"Upsample(size=13, mode='linear', align_corners={corners})", theirs))
    return found


def plain():
    found = same("rows", "Linear(6, 4)", "Dropout(0.5)", "Dropout(0.2)", "AlphaDropout(0.3)", "FeatureAlphaDropout(0.3)")
    found += pairs("rows", ("Linear(6, 4, bias=False)", "Linear(6, 4, bias_attr=False)"))
    found += same("image", "Dropout2d(0.3)", "Linear(6, 6)") + same("volume", "Dropout3d(0.4)")
    found += same("two", "Bilinear(6, 6, 3)", "CosineSimilarity(1)", "CosineSimilarity(0)", "PairwiseDistance()", "PairwiseDistance(1.0)")
    found += pairs("two", ("PairwiseDistance(3.0, keepdim=True)", "PairwiseDistance(3.0, keepdim=True)"))
    found += same(
        "tokens", "Embedding(12, 5)", "Embedding(12, 5, padding_idx=0)", "Embedding(12, 5, padding_idx=3)", "Embedding(12, 5, sparse=True)"
    )
    return found


def recurrent():
    found = []
    for kind, name in (("LSTM", "LSTM"), ("GRU", "GRU"), ("RNN", "SimpleRNN")):
        for layers in (1, 2):
            for both in (False, True):
                direction = "bidirect" if both else "forward"
                ours, theirs = f"{kind}(6, 5, {layers}, bidirectional={both}", f"{name}(6, 5, {layers}, direction='{direction}'"
                found += pairs("sequence", (f"{ours}, batch_first=True)", f"{theirs})"))
                if both != (layers == 1):
                    found += pairs("sequence", (f"{ours})", f"{theirs}, time_major=True)"))
        # not without bias: there Paddle 3.3 itself crashes
        found += pairs("sequence", (f"{kind}(6, 5, 2, batch_first=True, dropout=0.4)", f"{name}(6, 5, 2, dropout=0.4)"))
        call = "m(x[0], tuple(x[1:]))" if kind == "LSTM" else "m(*x)"
        given = "states" if kind == "LSTM" else "state"
        found += pairs(given, (f"{kind}(6, 5, 2, batch_first=True)", f"{name}(6, 5, 2)"), ours=call, theirs=call)
    found += pairs("sequence", ("RNN(6, 5, nonlinearity='relu', batch_first=True)", "SimpleRNN(6, 5, activation='relu')"))
    found += pairs("sequence", ("LSTM(6, 5, proj_size=3, batch_first=True)", "LSTM(6, 5, proj_size=3)"))
    found += pairs("cells", ("LSTMCell(6, 4)", "LSTMCell(6, 4)"), ours="m(x[0], tuple(x[1:]))", theirs="m(x[0], tuple(x[1:]))[1]")
    found += pairs("cell", ("GRUCell(6, 4)", "GRUCell(6, 4)"), ("RNNCell(6, 4)", "SimpleRNNCell(6, 4)"), theirs="m(*x)[1]")
    ours, theirs = "RNNCell(6, 4, nonlinearity='relu')", "SimpleRNNCell(6, 4, activation='relu')"
    return [*found, *pairs("cell", (ours, theirs), theirs="m(*x)[1]")]


def transformers():
    attention = {"ours": "m(x[0], x[-1], x[-1], need_weights=False)[0]", "theirs": "m(x[0], x[-1], x[-1])"}
    found = pairs("memory", ("MultiheadAttention(8, 2, batch_first=True)", "MultiHeadAttention(8, 2)"), **attention)
    found += pairs("wide", ("MultiheadAttention(8, 2, dropout=0.3, batch_first=True)", "MultiHeadAttention(8, 2, 0.3)"), **attention)
    found += pairs(
        "wide", ("MultiheadAttention(8, 2, bias=False, batch_first=True)", "MultiHeadAttention(8, 2, bias_attr=False)"), **attention
    )
    for first in (False, True):
        for activation in ("relu", "gelu"):
            for part, inputs in (("Encoder", "wide"), ("Decoder", "memory")):
                text = f"Transformer{part}Layer(8, 2, 16, 0.0, '{activation}', "
                found += pairs(inputs, (f"{text}batch_first=True, norm_first={first})", f"{text}normalize_before={first})"))
    one, other = "TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)", "TransformerEncoderLayer(8, 2, 16, 0.0)"
    found += pairs("wide", (f"TransformerEncoder(nn.{one}, 2)", f"TransformerEncoder(nn.{other}, 2)"))
    return found + pairs("memory", ("Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)", "Transformer(8, 2, 1, 1, 16, 0.0)"))


def losses():
    """The layer is the loss; ``x`` are the outputs of a Linear layer, or of two where they are ``two``, ``y`` the labels."""
    classes, shares, signs = RANDOM.randint(0, 6, 5), RANDOM.rand(5, 6).astype("float32"), np.sign(RANDOM.randn(5)).astype("float32")
    several = RANDOM.randint(0, 2, (5, 6)).astype("float32")
    share = shares / shares.sum(1, keepdims=True)
    weights = "W([1.0, 0.5, 2.0, 1.0, 3.0, 0.1])"
    found = []

    def add(labels, *both, inputs="rows", ours="m(x[0], y)", theirs=""):
        for one, other in both:
            found.append(Case(one, f"nn.{one}", f"nn.{other}", inputs, ours, theirs or ours, labels))

    def alike(labels, *texts, **more):
        add(labels, *((text, text) for text in texts), **more)

    reductions = ("", "reduction='sum'")
    for rest in reductions:
        alike(shares, *(f"{kind}({rest})" for kind in ("L1Loss", "MSELoss", "SmoothL1Loss")))
        alike(classes, f"CrossEntropyLoss({rest})", f"MultiMarginLoss({rest})")
        alike(shares, f"BCEWithLogitsLoss({rest})")
        alike(shares, f"BCELoss({rest})", ours="m(F.sigmoid(x[0]), y)")
        alike(classes, f"NLLLoss({rest})", ours="m(F.log_softmax(x[0], -1), y)")
        alike(share, f"KLDivLoss({rest})", ours="m(F.log_softmax(x[0], -1), y)")
    alike(share, "KLDivLoss(reduction='batchmean')", ours="m(F.log_softmax(x[0], -1), y)")
    alike(share, "KLDivLoss(reduction='sum', log_target=True)", ours="m(F.log_softmax(x[0], -1), y)")
    add(shares, ("SmoothL1Loss(beta=0.5)", "SmoothL1Loss(delta=0.5, is_huber=False)"), ("HuberLoss(delta=0.5)", "SmoothL1Loss(delta=0.5)"))
    alike(classes, f"CrossEntropyLoss({weights})", "CrossEntropyLoss(label_smoothing=0.1)")
    alike(classes, f"NLLLoss({weights})", ours="m(F.log_softmax(x[0], -1), y)")
    # not with an ignored label below zero: Paddle 3.3 divides by the ignored ones too
    alike(classes, f"CrossEntropyLoss(ignore_index={classes[0]})")
    add(share, ("CrossEntropyLoss()", "CrossEntropyLoss(soft_label=True)"))
    add(shares, (f"BCEWithLogitsLoss(pos_weight={weights})", f"BCEWithLogitsLoss(pos_weight={weights})"))
    alike(several, "MultiLabelSoftMarginLoss()", f"MultiLabelSoftMarginLoss({weights})")
    alike(np.sign(several - 0.5), "SoftMarginLoss()", "SoftMarginLoss(reduction='sum')")
    alike(np.sign(several - 0.5), "HingeEmbeddingLoss()", "HingeEmbeddingLoss(margin=0.5)")
    alike(classes, "MultiMarginLoss(2, 0.5)", "MultiMarginLoss(margin=0.5)")
    alike(shares, "PoissonNLLLoss()", "PoissonNLLLoss(log_input=False)", "PoissonNLLLoss(full=True)", ours="m(F.softplus(x[0]), y)")
    # not with a variance that is computed: Paddle 3.3 cuts its gradient off
    alike(shares, "GaussianNLLLoss()", "GaussianNLLLoss(full=True)", ours="m(x[0], y, y + 0.1)")
    alike(signs, "CosineEmbeddingLoss()", "CosineEmbeddingLoss(0.3)", inputs="two", ours="m(x[0], x[1], y)")
    alike(signs[:, None], "MarginRankingLoss()", "MarginRankingLoss(0.4)", inputs="two", ours="m(x[0], x[1], y)")
    alike(
        shares,
        "TripletMarginLoss()",
        "TripletMarginLoss(margin=0.5, swap=True)",
        "TripletMarginWithDistanceLoss()",
        inputs="two",
        ours="m(x[0], x[1], y)",
    )
    order = np.stack([RANDOM.permutation(6) for _ in range(5)])
    labelled = np.where(np.arange(6) < 2, order, -1)
    alike(labelled, "MultiLabelMarginLoss()")
    ctc = "m(F.log_softmax(x[0].METHOD, -1), y, L([9] * 5), L([2] * 5))"
    ours, theirs = (ctc.replace("METHOD", method) for method in ("reshape(1, 5, 6).repeat(9, 1, 1)", "reshape([1, 5, 6]).tile([9, 1, 1])"))
    add(
        RANDOM.randint(1, 6, (5, 2)).astype("int32"),
        ("CTCLoss()", "CTCLoss()"),
        ours=ours,
        theirs=theirs.replace("F.log_softmax(", "(").replace(", -1), y", "), y"),
    )
    return found


def every():
    """All cases; a name that comes again has a number."""
    groups = {g.__name__: g() for g in (activations, convolutions, pools, norms, shapes, plain, recurrent, transformers, losses)}
    seen: dict[str, int] = {}
    found = {}
    for group, cases in groups.items():
        found[group] = []
        for case in cases:
            seen[case.name] = seen.get(case.name, 0) + 1
            found[group].append(case._replace(name=case.name if seen[case.name] == 1 else f"{case.name} #{seen[case.name]}"))
    return found
