"""A library's MobileNetV2 with its last stage wrapped by attention over positions; PyTorch and torchvision."""

import torch
from given import images
from torch import nn

for operator in ("nms", "qnms"):  # which torchvision's CPU wheel lacks, and needs to be imported
    torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from torchvision.models import mobilenet_v2  # noqa: E402


class Attentive(nn.Module):
    """A convolution, followed by attention over its positions."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer = layer
        self.score = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = self.layer(x)
        weights = torch.softmax(self.score(x).flatten(2), -1)
        pooled = (x.flatten(2) * weights).sum(-1)
        return x + pooled[:, :, None, None]


def build_model():
    torch.manual_seed(10)
    model = mobilenet_v2(num_classes=10, width_mult=0.5)
    model.features[-1] = Attentive(model.features[-1], 1280)
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    for norm in norms:
        nn.init.uniform_(norm.weight, 0.7, 1.3)
        nn.init.normal_(norm.bias, std=0.2)
        norm.momentum = None
    model.train()
    with torch.no_grad():
        for step in range(2):
            model(torch.from_numpy(images(8, 64, seed=70 + step)))
    for norm in norms:
        norm.momentum = 0.01
    return model


def inputs():
    return images(2, 64, seed=6)
