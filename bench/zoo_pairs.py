"""Models that exist in both frameworks and that nobody here wrote: how to build each pair, and what to feed it.

A builder gives the PyTorch model, the Paddle model, and the inputs: a tuple of arrays, or a dict for keywords.
"""

from __future__ import annotations

import numpy as np

VISION = [
    ("resnet18", 64),
    ("resnet34", 64),
    ("resnet50", 64),
    ("resnet101", 64),
    ("resnet152", 64),
    ("resnext50_32x4d", 64),
    ("resnext101_64x4d", 64),
    ("wide_resnet50_2", 64),
    ("wide_resnet101_2", 64),
    ("vgg11", 64),
    ("vgg16", 64),
    ("vgg16_bn", 64),
    ("densenet121", 64),
    ("densenet161", 64),
    ("densenet169", 64),
    ("densenet201", 64),
    ("mobilenet_v2", 96),
    ("mobilenet_v3_small", 96),
    ("mobilenet_v3_large", 96),
    ("shufflenet_v2_x0_5", 96),
    ("shufflenet_v2_x1_0", 96),
    ("shufflenet_v2_x2_0", 96),
    ("squeezenet1_0", 96),
    ("squeezenet1_1", 96),
    ("alexnet", 224),
    ("googlenet", 224),
    ("inception_v3", 128),
]

CLAS = [
    ("vit_small_patch16_224", "ViT_small_patch16_224", 224),
    ("deit_tiny_patch16_224", "DeiT_tiny_patch16_224", 224),
    ("deit_small_patch16_224", "DeiT_small_patch16_224", 224),
    ("vit_base_patch16_224", "ViT_base_patch16_224", 224),
    ("convnext_tiny", "ConvNeXt_tiny", 64),
    ("resnet50", "ResNet50", 64),
    ("mobilenetv1_100", "MobileNetV1", 96),
    ("mobilenetv3_large_100", "MobileNetV3_large_x1_0", 96),
    ("hrnet_w18", "HRNet_W18_C", 64),
    ("ghostnet_100", "GhostNet_x1_0", 96),
    ("rexnet_100", "ReXNet_1_0", 96),
    ("levit_128s", "LeViT_128S", 224),
    ("swin_tiny_patch4_window7_224", "SwinTransformer_tiny_patch4_window7_224", 224),
]


def images(size, batch=2):
    return (np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype("float32"),)


def sequence(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def tokens(length=24, most=90, seed=0, least=1):
    return np.random.default_rng(seed).integers(least, most, (2, length))


def operators():
    """The compiled operators that torchvision's CPU wheel lacks, declared so that it can be imported."""
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def vision(name, size):
    def build():
        operators()
        import paddle.vision.models as theirs
        from torchvision import models as ours

        options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        if name == "inception_v3":
            options["transform_input"] = False
        return getattr(ours, name)(weights=None, **options), port(theirs, name), images(size)

    return build


def port(models, name):
    """A model of paddle.vision, which builds VGG with BatchNorm by an argument."""
    return getattr(models, name.removesuffix("_bn"))(**({"batch_norm": True} if name.endswith("_bn") else {}))


def clas(ours, theirs, size):
    def build():
        operators()
        import timm
        from paddleclas.ppcls.arch import backbone

        model = timm.create_model(ours, pretrained=False)
        return model, getattr(backbone, theirs)(), images(size)

    return build


def mobilenetv1(relu):
    def build():
        operators()
        import paddle.vision.models as theirs
        import timm
        import torch

        model = timm.create_model("mobilenetv1_100", pretrained=False)
        if relu:
            for module in model.modules():
                for name, child in module.named_children():
                    if isinstance(child, torch.nn.ReLU6):
                        setattr(module, name, torch.nn.ReLU())
        return model, theirs.mobilenet_v1(), images(96)

    return build


def recurrent(kind, layers, both, size=24, hidden=32, **options):
    def build():
        import paddle
        import torch

        ours = {"SimpleRNN": "RNN"}.get(kind, kind)
        model = getattr(torch.nn, ours)(size, hidden, layers, batch_first=True, bidirectional=both, **options)
        port = getattr(paddle.nn, kind)(size, hidden, layers, direction="bidirect" if both else "forward", **options)
        return model, port, (sequence(3, 11, size),)

    return build


def layer(ours, theirs=None, *inputs, **_):
    """A pair of built-in layers from two expressions over ``nn``."""

    def build():
        import paddle
        import torch

        return eval(ours, {"nn": torch.nn}), eval(theirs or ours, {"nn": paddle.nn}), tuple(inputs)

    return build


def transformer(ours, theirs, *inputs):
    return layer(ours, theirs, *inputs)


def hf(ours, theirs, config, port=None, inputs=None, **renamed):
    """A model of transformers against one of paddlenlp, both from small configurations."""

    def build():
        operators()
        import paddlenlp.transformers as candidates
        import transformers as references

        own = dict(config)
        other = {**config, **(port or {})}
        for old, new in renamed.items():
            other[new] = other.pop(old)
        model = getattr(references, ours + "Model")(getattr(references, ours + "Config")(**own))
        model.config.use_cache = False
        copy = getattr(candidates, theirs + "Model")(getattr(candidates, theirs + "Config")(**other))
        copy.config.use_cache = False
        return model, copy, inputs if inputs is not None else (tokens(),)

    return build


def clip():
    operators()
    import paddlenlp.transformers as candidates
    import transformers as references

    config = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    model = references.CLIPVisionModel(references.CLIPVisionConfig(**config))
    return model, candidates.CLIPVisionModel(candidates.CLIPVisionConfig(**config)), images(32)


SMALL = {
    "vocab_size": 99,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LLAMA = {"vocab_size": 99, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
T5 = {"vocab_size": 99, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
BLOCK = "nn.TransformerEncoderLayer(32, 4, 64, 0.0, {}, batch_first=True, norm_first={})"
PORT = "nn.TransformerEncoderLayer(32, 4, 64, 0.0, {}, normalize_before={})"


def _pairs():
    found = [("vision", f"torchvision.{n}", f"paddle.vision.{n}", vision(n, s)) for n, s in VISION]
    found += [("clas", f"timm.{o}", f"paddleclas.{t}", clas(o, t, s)) for o, t, s in CLAS]
    found += [
        ("clas", "timm.mobilenetv1_100", "paddle.vision.mobilenet_v1", mobilenetv1(False)),
        ("clas", "timm.mobilenetv1_100 [ReLU6->ReLU]", "paddle.vision.mobilenet_v1", mobilenetv1(True)),
    ]
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        for layers, both in ((1, False), (2, False), (2, True)):
            found.append(("builtin", f"nn.{kind} nl={layers} bi={both}", f"paddle.nn.{kind}", recurrent(kind, layers, both)))
    found += [
        ("builtin", "nn.LSTM proj_size=8", "paddle.nn.LSTM", recurrent("LSTM", 1, False, proj_size=8)),
        ("builtin", "nn.LSTM proj_size=8 nl=2 bi=True", "paddle.nn.LSTM", recurrent("LSTM", 2, True, proj_size=8)),
        ("builtin", "nn.LSTM proj_size=16 square", "paddle.nn.LSTM", recurrent("LSTM", 2, False, proj_size=16)),
    ]
    for kind in ("LSTMCell", "GRUCell"):
        found.append(("builtin", f"nn.{kind}", f"paddle.nn.{kind}", layer(f"nn.{kind}(24, 32)", None, sequence(3, 24))))
    found += _attention()
    found += _layers()
    found += _language()
    return found


def _attention():
    x, memory = sequence(3, 11, 32), sequence(3, 7, 32, seed=1)
    found = [
        (
            "builtin",
            "nn.MultiheadAttention(batch_first)",
            "paddle.nn.MultiHeadAttention",
            layer("nn.MultiheadAttention(32, 4, batch_first=True)", "nn.MultiHeadAttention(32, 4)", x, memory, memory),
        ),
        (
            "builtin",
            "nn.MultiheadAttention(kdim, vdim)",
            "paddle.nn.MultiHeadAttention",
            layer(
                "nn.MultiheadAttention(32, 4, kdim=24, vdim=16, batch_first=True)",
                "nn.MultiHeadAttention(32, 4, kdim=24, vdim=16)",
                x,
                sequence(3, 7, 24),
                sequence(3, 7, 16),
            ),
        ),
    ]
    for first in (False, True):
        for activation in ("relu", "gelu"):
            arguments = (repr(activation), first)
            found.append(
                (
                    "builtin",
                    f"nn.TransformerEncoderLayer norm_first={first} {activation}",
                    "paddle.nn.TransformerEncoderLayer",
                    layer(BLOCK.format(*arguments), PORT.format(*arguments), x),
                )
            )
    relu = ("'relu'", False)
    stack = "nn.TransformerEncoder(" + BLOCK.format(*relu) + ", 3)", "nn.TransformerEncoder(" + PORT.format(*relu) + ", 3)"
    found.append(("builtin", "nn.TransformerEncoder(3)", "paddle.nn.TransformerEncoder", layer(*stack, x)))
    decoder = [text.replace("Encoder", "Decoder") for text in (BLOCK.format(*relu), PORT.format(*relu))]
    found.append(("builtin", "nn.TransformerDecoderLayer", "paddle.nn.TransformerDecoderLayer", layer(*decoder, x, memory)))
    for first, ours, theirs in (
        (False, "nn.Transformer(2,2) post-norm", "paddle.nn.Transformer"),
        (True, "nn.Transformer(2,2) norm_first", "paddle.nn.Transformer(normalize_before)"),
    ):
        pair = (
            f"nn.Transformer(32, 4, 2, 2, 64, 0.0, batch_first=True, norm_first={first})",
            f"nn.Transformer(32, 4, 2, 2, 64, 0.0, normalize_before={first})",
        )
        found.append(("builtin", ours, theirs, layer(*pair, x, memory)))
    return found


def _layers():
    x, image = sequence(3, 11, 32), sequence(2, 8, 6, 6)
    every = [
        ("nn.LayerNorm", "nn.LayerNorm(32)", None, x),
        ("nn.Embedding", "nn.Embedding(99, 16)", None, tokens(4)),
        ("nn.GroupNorm", "nn.GroupNorm(4, 8)", None, image),
        ("nn.InstanceNorm2d(affine)", "nn.InstanceNorm2d(8, affine=True)", "nn.InstanceNorm2D(8)", image),
        ("nn.ConvTranspose2d s2 op1", "nn.ConvTranspose2d(8, 6, 3, 2, 1, 1)", "nn.Conv2DTranspose(8, 6, 3, 2, 1, 1)", image),
        ("nn.PReLU", "nn.PReLU(8)", None, image),
        ("nn.AvgPool2d(3,2,1)", "nn.AvgPool2d(3, 2, 1)", "nn.AvgPool2D(3, 2, 1)", image),
        ("nn.Linear square", "nn.Linear(32, 32)", None, x),
        ("nn.Conv1d", "nn.Conv1d(11, 5, 3)", "nn.Conv1D(11, 5, 3)", x),
        ("nn.BatchNorm1d", "nn.BatchNorm1d(11)", "nn.BatchNorm1D(11, data_format='NCL')", x),
        ("nn.GELU", "nn.GELU()", None, x),
        ("nn.Hardswish", "nn.Hardswish()", None, x),
        ("nn.Softplus", "nn.Softplus()", None, x),
    ]
    found = [("layer", name, "paddle.nn", layer(ours, theirs, value)) for name, ours, theirs, value in every]
    found.append(("layer", "nn.Bilinear", "paddle.nn", layer("nn.Bilinear(5, 6, 4)", None, sequence(3, 5), sequence(3, 6))))
    return found


def _language():
    padded = tokens()
    padded[:, 18:] = 0
    gpt = {
        "vocab_size": 99,
        "n_embd": 128,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 64,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "n_inner": 256,
    }
    gpt_port = {
        "vocab_size": 99,
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "hidden_activation": "gelu",
    }
    distil = {"vocab_size": 99, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256, "dropout": 0.0, "attention_dropout": 0.0}
    bloom = {"vocab_size": 99, "hidden_size": 128, "n_layer": 3, "n_head": 4, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    pair = {"input_ids": tokens(24), "decoder_input_ids": tokens(10)}
    found = [
        ("HF.BertModel", "paddlenlp.BertModel", hf("Bert", "Bert", SMALL)),
        ("HF.BertModel square", "paddlenlp.BertModel", hf("Bert", "Bert", {**SMALL, "intermediate_size": 128})),
        ("HF.BertModel +pad ids", "paddlenlp.BertModel", hf("Bert", "Bert", SMALL, inputs=(padded,))),
        ("HF.ElectraModel", "paddlenlp.ElectraModel", hf("Electra", "Electra", {**SMALL, "embedding_size": 128})),
        ("HF.ErnieModel", "paddlenlp.ErnieModel", hf("Ernie", "Ernie", {**SMALL, "use_task_id": False})),
        ("HF.RobertaModel", "paddlenlp.RobertaModel", hf("Roberta", "Roberta", SMALL, inputs=(tokens(least=2),))),
        ("HF.DistilBertModel", "paddlenlp.DistilBertModel", hf("DistilBert", "DistilBert", distil, SMALL)),
        ("HF.GPT2Model", "paddlenlp.GPTModel", hf("GPT2", "GPT", gpt, gpt_port)),
        ("HF.T5Model", "paddlenlp.T5Model", hf("T5", "T5", T5, inputs=pair)),
        ("HF.T5Model gated-gelu", "paddlenlp.T5Model", hf("T5", "T5", {**T5, "feed_forward_proj": "gated-gelu"}, inputs=pair)),
        ("HF.LlamaModel", "paddlenlp.LlamaModel", hf("Llama", "Llama", LLAMA)),
        ("HF.LlamaModel GQA", "paddlenlp.LlamaModel", hf("Llama", "Llama", {**LLAMA, "num_key_value_heads": 2})),
        (
            "HF.LlamaModel, fused port",
            "paddlenlp.LlamaModel(fuse_attention_qkv, fuse_attention_ffn)",
            hf("Llama", "Llama", LLAMA, {"fuse_attention_qkv": True, "fuse_attention_ffn": True}),
        ),
        (
            "HF.LlamaModel GQA, fused port",
            "paddlenlp.LlamaModel(fuse_attention_qkv)",
            hf("Llama", "Llama", {**LLAMA, "num_key_value_heads": 2}, {"fuse_attention_qkv": True}),
        ),
        ("HF.BloomModel", "paddlenlp.BloomModel", hf("Bloom", "Bloom", bloom)),
        ("HF.CLIPVisionModel", "paddlenlp.CLIPVisionModel", clip),
    ]
    return [("nlp", *pair) for pair in found]


PAIRS = _pairs()
