"""Pairs that are not the same model although their names say so, and what differs between them.

What stands here was read in both sources; pairs whose name ends in "mended" show for several of them that nothing else differs.
"""

PADDING = "paddlenlp masks the tokens that are padding when no mask is given, transformers attends to all"

DIFFERENCES = {
    ("nn.AvgPool2d(3,2,1)", "paddle.nn"): "Paddle leaves padding out of the mean unless exclusive=False",
    ("torchvision.shufflenet_v2_x2_0", "paddle.vision.shufflenet_v2_x2_0"): "a stage of 224 channels where torchvision has 244",
    ("torchvision.squeezenet1_0", "paddle.vision.squeezenet1_0"): "pooling rounds sizes down, not up; dropout scales in eval mode",
    ("torchvision.squeezenet1_1", "paddle.vision.squeezenet1_1"): (
        "the first convolution is padded; pooling rounds sizes down, not up; dropout scales in eval mode"
    ),
    ("torchvision.alexnet", "paddle.vision.alexnet"): "dropout scales in eval mode",
    ("torchvision.googlenet", "paddle.vision.googlenet"): "Paddle's has no BatchNorm",
    ("torchvision.inception_v3", "paddle.vision.inception_v3"): "BatchNorm's epsilon 1e-5 for 1e-3; dropout scales in eval mode",
    ("timm.vit_small_patch16_224", "paddleclas.ViT_small_patch16_224"): "another width and depth: 768 and 8 blocks for 384 and 12",
    ("timm.mobilenetv1_100", "paddleclas.MobileNetV1"): "ReLU for ReLU6",
    ("timm.mobilenetv1_100", "paddle.vision.mobilenet_v1"): "ReLU for ReLU6",
    (
        "timm.mobilenetv3_large_100",
        "paddleclas.MobileNetV3_large_x1_0",
    ): "the first block expands its channels, by 1, where timm's does not",
    ("timm.hrnet_w18", "paddleclas.HRNet_W18_C"): "convolutions of the head have no bias",
    (
        "timm.ghostnet_100",
        "paddleclas.GhostNet_x1_0",
    ): "another width of squeeze-and-excite (18 for 20); BatchNorm behind the head's convolution",
    ("timm.levit_128s", "paddleclas.LeViT_128S"): "timm's has a head of distillation besides",
    ("timm.swin_tiny_patch4_window7_224", "paddleclas.SwinTransformer_tiny_patch4_window7_224"): (
        "windows are shifted also in the last stage, where one window is the whole image"
    ),
    ("HF.BertModel +pad ids", "paddlenlp.BertModel"): PADDING,
    ("HF.AlbertModel", "paddlenlp.AlbertModel"): "exact GELU by default for the approximation by tanh",
    ("HF.RobertaModel", "paddlenlp.RobertaModel"): "positions begin behind the padding token, which is 0 for 1 by default",
    (
        "HF.CLIPVisionModel [n-th Linear->n-th Linear]",
        "paddlenlp.CLIPVisionModel",
    ): "keys, values and queries are forced into each other's places",
}
