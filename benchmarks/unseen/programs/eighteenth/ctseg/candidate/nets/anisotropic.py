import math

import paddle
from paddle import nn
from paddle.nn.initializer import Assign, Normal

from .parts import ConvPair, Merge, ResizeUp, TransposedUp, conv3d


class VolumeNet(nn.Layer):
    """Encoder with three levels; logits at full and at half in-plane resolution."""

    def __init__(self, n_classes=3, widths=(8, 16, 32), prior=0.25):
        super().__init__()
        a, b, c = widths
        flat, cube = [1, 3, 3], [3, 3, 3]
        self.level0 = ConvPair(1, a, flat)
        self.level1 = ConvPair(a, b, cube, stride=[1, 2, 2])
        self.level2 = ConvPair(b, c, cube, stride=[2, 2, 2])
        self.merge1 = Merge(TransposedUp(c, b, [2, 2, 2]), b, cube)
        self.merge0 = Merge(ResizeUp(b, a), a, flat)
        start = [0.0] + [0.5 * math.log(prior / (1 - prior))] * (n_classes - 1)
        head = {"weight_attr": Normal(0.0, 0.15), "bias_attr": Assign(paddle.to_tensor(start, dtype="float32"))}
        self.logits_full = conv3d(a, n_classes, 1, **head)
        self.logits_half = conv3d(b, n_classes, 1, **head)

    def forward(self, image):
        s0 = self.level0(image)
        s1 = self.level1(s0)
        half = self.merge1(self.level2(s1), s1)
        full = self.merge0(half, s0)
        return self.logits_full(full), self.logits_half(half)
