"""Layers that both frameworks have."""

from __future__ import annotations

from zoo_inputs import sequence, tokens

BLOCK = "nn.TransformerEncoderLayer(32, 4, 64, 0.0, {}, batch_first=True, norm_first={})"
PORT = "nn.TransformerEncoderLayer(32, 4, 64, 0.0, {}, normalize_before={})"


def recurrent(kind, layers, both, size=24, hidden=32, **options):
    def build():
        import paddle
        import torch

        ours = {"SimpleRNN": "RNN"}.get(kind, kind)
        model = getattr(torch.nn, ours)(size, hidden, layers, batch_first=True, bidirectional=both, **options)
        port = getattr(paddle.nn, kind)(size, hidden, layers, direction="bidirect" if both else "forward", **options)
        return model, port, (sequence(3, 11, size),)

    return build


def cell(kind):
    """Cells: Paddle's give the output beside the new states, which PyTorch's give alone."""

    def build():
        import paddle
        import torch

        class Cell(getattr(paddle.nn, kind)):
            def forward(self, inputs):
                return super().forward(inputs)[1]

        return getattr(torch.nn, kind)(24, 32), Cell(24, 32), (sequence(3, 24),)

    return build


def attention(ours, theirs, *inputs):
    """Attention: PyTorch's gives the scores beside the output."""

    def build():
        import paddle
        import torch

        class Attention(torch.nn.MultiheadAttention):
            def forward(self, *inputs):
                return super().forward(*inputs, need_weights=False)[0]

        return Attention(32, 4, batch_first=True, **ours), paddle.nn.MultiHeadAttention(32, 4, **theirs), inputs

    return build


def layer(ours, theirs=None, *inputs):
    """A pair of built-in layers from two expressions over ``nn``."""

    def build():
        import paddle
        import torch

        return eval(ours, {"nn": torch.nn}), eval(theirs or ours, {"nn": paddle.nn}), tuple(inputs)

    return build


def builtin_pairs():
    found = []
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        for layers, both in ((1, False), (2, False), (2, True)):
            found.append((f"nn.{kind} nl={layers} bi={both}", f"paddle.nn.{kind}", recurrent(kind, layers, both)))
    found += [
        ("nn.LSTM proj_size=8", "paddle.nn.LSTM", recurrent("LSTM", 1, False, proj_size=8)),
        ("nn.LSTM proj_size=8 nl=2 bi=True", "paddle.nn.LSTM", recurrent("LSTM", 2, True, proj_size=8)),
        ("nn.LSTM proj_size=16 square", "paddle.nn.LSTM", recurrent("LSTM", 2, False, proj_size=16)),
        ("nn.LSTMCell", "paddle.nn.LSTMCell", cell("LSTMCell")),
        ("nn.GRUCell", "paddle.nn.GRUCell", cell("GRUCell")),
    ]
    return found + _attention() + _transformers()


def _attention():
    x, memory = sequence(3, 11, 32), sequence(3, 7, 32, seed=1)
    apart = {"kdim": 24, "vdim": 16}
    return [
        ("nn.MultiheadAttention(batch_first)", "paddle.nn.MultiHeadAttention", attention({}, {}, x, memory, memory)),
        (
            "nn.MultiheadAttention(kdim, vdim)",
            "paddle.nn.MultiHeadAttention",
            attention(apart, apart, x, sequence(3, 7, 24), sequence(3, 7, 16)),
        ),
        (
            "nn.MultiheadAttention(bias=False)",
            "paddle.nn.MultiHeadAttention",
            attention({"bias": False}, {"bias_attr": False}, x, memory, memory),
        ),
    ]


def _transformers():
    x, memory = sequence(3, 11, 32), sequence(3, 7, 32, seed=1)
    found = []
    for first in (False, True):
        for activation in ("relu", "gelu"):
            arguments = (repr(activation), first)
            pair = layer(BLOCK.format(*arguments), PORT.format(*arguments), x)
            found.append((f"nn.TransformerEncoderLayer norm_first={first} {activation}", "paddle.nn.TransformerEncoderLayer", pair))
    relu = ("'relu'", False)
    stack = "nn.TransformerEncoder(" + BLOCK.format(*relu) + ", 3)", "nn.TransformerEncoder(" + PORT.format(*relu) + ", 3)"
    found.append(("nn.TransformerEncoder(3)", "paddle.nn.TransformerEncoder", layer(*stack, x)))
    decoder = [text.replace("Encoder", "Decoder") for text in (BLOCK.format(*relu), PORT.format(*relu))]
    found.append(("nn.TransformerDecoderLayer", "paddle.nn.TransformerDecoderLayer", layer(*decoder, x, memory)))
    for first, ours, theirs in (
        (False, "nn.Transformer(2,2) post-norm", "paddle.nn.Transformer"),
        (True, "nn.Transformer(2,2) norm_first", "paddle.nn.Transformer(normalize_before)"),
    ):
        pair = (
            f"nn.Transformer(32, 4, 2, 2, 64, 0.0, batch_first=True, norm_first={first})",
            f"nn.Transformer(32, 4, 2, 2, 64, 0.0, normalize_before={first})",
        )
        found.append((ours, theirs, layer(*pair, x, memory)))
    return found


def layer_pairs():
    x, image, volume = sequence(3, 11, 32), sequence(2, 8, 6, 6), sequence(2, 4, 5, 6, 6)
    every = [
        ("nn.LayerNorm", "nn.LayerNorm(32)", None, x),
        ("nn.LayerNorm tiny x1e-3", "nn.LayerNorm(32)", None, x * 1e-3),
        ("nn.Embedding", "nn.Embedding(99, 16)", None, tokens(4)),
        ("nn.Embedding(padding_idx)", "nn.Embedding(99, 16, padding_idx=3)", None, tokens(24, most=9)),
        ("nn.GroupNorm", "nn.GroupNorm(4, 8)", None, image),
        ("nn.InstanceNorm2d(affine)", "nn.InstanceNorm2d(8, affine=True)", "nn.InstanceNorm2D(8)", image),
        ("nn.BatchNorm1d", "nn.BatchNorm1d(11)", "nn.BatchNorm1D(11, data_format='NCL')", x),
        ("nn.BatchNorm3d", "nn.BatchNorm3d(4)", "nn.BatchNorm3D(4)", volume),
        ("nn.ConvTranspose2d s2 op1", "nn.ConvTranspose2d(8, 6, 3, 2, 1, 1)", "nn.Conv2DTranspose(8, 6, 3, 2, 1, 1)", image),
        (
            "nn.ConvTranspose2d groups square",
            "nn.ConvTranspose2d(8, 8, 3, 2, 1, groups=2)",
            "nn.Conv2DTranspose(8, 8, 3, 2, 1, groups=2)",
            image,
        ),
        ("nn.ConvTranspose1d", "nn.ConvTranspose1d(11, 6, 3, 2)", "nn.Conv1DTranspose(11, 6, 3, 2)", x),
        ("nn.Conv1d", "nn.Conv1d(11, 5, 3)", "nn.Conv1D(11, 5, 3)", x),
        ("nn.Conv2d groups", "nn.Conv2d(8, 16, 3, groups=4, dilation=2)", "nn.Conv2D(8, 16, 3, groups=4, dilation=2)", image),
        (
            "nn.Conv2d reflect",
            "nn.Conv2d(8, 8, 3, padding=1, padding_mode='reflect')",
            "nn.Conv2D(8, 8, 3, padding=1, padding_mode='reflect')",
            image,
        ),
        ("nn.Conv3d", "nn.Conv3d(4, 4, 3, padding=1)", "nn.Conv3D(4, 4, 3, padding=1)", volume),
        ("nn.Linear square", "nn.Linear(32, 32)", None, x),
        ("nn.PReLU", "nn.PReLU(8)", None, image),
        ("nn.PReLU of one", "nn.PReLU()", None, image),
    ]
    every += [
        (f"nn.{text}", f"nn.{text}()", None, x * 3) for text in ("GELU", "SiLU", "Hardswish", "Hardsigmoid", "Softplus", "ELU", "LeakyReLU")
    ]
    every += [
        (f"nn.{text}", f"nn.{text}()", None, x * 3)
        for text in ("Mish", "SELU", "CELU", "ReLU6", "Hardtanh", "LogSigmoid", "Softsign", "Tanhshrink")
    ]
    every += _resizing(image)
    found = [(name, "paddle.nn", layer(ours, theirs, value)) for name, ours, theirs, value in every]
    found.append(("nn.Bilinear", "paddle.nn", layer("nn.Bilinear(5, 6, 4)", None, sequence(3, 5), sequence(3, 6))))
    return found


def _resizing(image):
    found = [
        ("nn.AvgPool2d(3,2,1)", "nn.AvgPool2d(3, 2, 1)", "nn.AvgPool2D(3, 2, 1)", image),
        (
            "nn.AvgPool2d(3,2,1) [count_include_pad=False]",
            "nn.AvgPool2d(3, 2, 1, count_include_pad=False)",
            "nn.AvgPool2D(3, 2, 1)",
            image,
        ),
        ("nn.MaxPool2d(3,2,1)", "nn.MaxPool2d(3, 2, 1)", "nn.MaxPool2D(3, 2, 1)", image),
        ("nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d(4)", "nn.AdaptiveAvgPool2D(4)", image),
        ("nn.PixelShuffle", "nn.PixelShuffle(2)", None, image),
    ]
    for name, arguments in (
        ("bilinear", "scale_factor=2, mode='bilinear', align_corners=False"),
        ("bilinear corners", "scale_factor=2, mode='bilinear', align_corners=True"),
        ("bicubic", "scale_factor=2, mode='bicubic'"),
        ("nearest 2.5x", "scale_factor=2.5, mode='nearest'"),
    ):
        found.append((f"nn.Upsample {name}", f"nn.Upsample({arguments})", None, image))
    return found
