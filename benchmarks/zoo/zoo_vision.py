"""Images: torchvision against paddle.vision, timm against paddleclas."""

from __future__ import annotations

from zoo_inputs import images, operators

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
    ("vgg13", 64),
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
    ("shufflenet_v2_x1_5", 96),
    ("shufflenet_v2_x2_0", 96),
    ("squeezenet1_0", 96),
    ("squeezenet1_1", 96),
    ("alexnet", 224),
    ("googlenet", 224),
    ("inception_v3", 128),
]

SWIN = ("swin_tiny_patch4_window7_224", "SwinTransformer_tiny_patch4_window7_224", 224)

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
    SWIN,
]


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


def mended(build, mend):
    """A pair whose known difference is taken out of the candidate: that nothing else differs is then shown by its verdict."""

    def both():
        model, candidate, inputs = build()
        for layer in candidate.sublayers():
            mend(layer)
        return model, candidate, inputs

    return both


def upscaling(layer):
    """Dropout as PyTorch has it, which does nothing in eval mode."""
    if type(layer).__name__ == "Dropout":
        layer.mode = "upscale_in_train"


def ceiling(layer):
    """The same, and pooling that rounds sizes up."""
    upscaling(layer)
    if type(layer).__name__ == "MaxPool2D":
        layer.ceil_mode = True


def unpadded(layer):
    """The same, and a first convolution without padding."""
    ceiling(layer)
    if type(layer).__name__ == "Conv2D" and layer.weight.shape[1] == 3:
        layer._updated_padding = [0, 0]  # noqa: SLF001 - there is no public way


def epsilon(layer):
    """Dropout as PyTorch has it, and BatchNorm with torchvision's epsilon."""
    upscaling(layer)
    if type(layer).__name__ == "BatchNorm2D":
        layer._epsilon = 1e-3  # noqa: SLF001 - there is no public way


def unshifted(layer):
    """Windows that are not shifted where one of them is the whole image."""
    if type(layer).__name__ == "SwinTransformerBlock" and min(layer.input_resolution) <= layer.window_size:
        layer.shift_size = 0


MENDED = [
    ("squeezenet1_0", 96, "ceil_mode, dropout", ceiling),
    ("squeezenet1_1", 96, "padding, ceil_mode, dropout", unpadded),
    ("alexnet", 224, "dropout", upscaling),
    ("inception_v3", 128, "epsilon, dropout", epsilon),
]


def torchvision_pairs():
    found = [(f"torchvision.{n}", f"paddle.vision.{n}", vision(n, s)) for n, s in VISION]
    return found + [(f"torchvision.{n} [{what} mended]", f"paddle.vision.{n}", mended(vision(n, s), mend)) for n, s, what, mend in MENDED]


def timm_pairs():
    found = [(f"timm.{o}", f"paddleclas.{t}", clas(o, t, s)) for o, t, s in CLAS]
    found += [
        ("timm.mobilenetv1_100", "paddle.vision.mobilenet_v1", mobilenetv1(False)),
        ("timm.mobilenetv1_100 [ReLU6->ReLU]", "paddle.vision.mobilenet_v1", mobilenetv1(True)),
        (f"timm.{SWIN[0]} [shift mended]", f"paddleclas.{SWIN[1]}", mended(clas(*SWIN), unshifted)),
    ]
    return found
