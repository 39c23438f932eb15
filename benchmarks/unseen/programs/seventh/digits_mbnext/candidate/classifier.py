import numpy as np
import paddle.nn.functional as F
from paddle import nn

from .blocks import ConvUnit, InvertedBottleneck, ModernBlock, linear

SETTING = dict(stem=12, head=64, classes=10, gate=0.25, depth_rate=0.25, dropout=0.2, scale=0.1)
STAGES = (
    dict(block="mb", n=1, k=3, stride=1, widen=1, width=16),
    dict(block="mb", n=2, k=3, stride=2, widen=3, width=24),
    dict(block="mb", n=2, k=5, stride=2, widen=3, width=32),
    dict(block="modern", n=2, k=7, stride=1, widen=4, width=32),
)


class DigitClassifier(nn.Layer):
    def __init__(self, stem, head, classes, gate, depth_rate, dropout, scale):
        super().__init__()
        self.stem = ConvUnit(1, stem, 3, stride=2)
        rates = iter(np.linspace(0.0, depth_rate, sum(s["n"] for s in STAGES)).tolist())
        self.body = nn.LayerList()
        width = stem
        for s in STAGES:
            for k in range(s["n"]):
                if s["block"] == "mb":
                    block = InvertedBottleneck(width, s["width"], s["k"], s["stride"] if k == 0 else 1, s["widen"], gate, next(rates))
                else:
                    block = ModernBlock(s["width"], s["k"], next(rates), scale)
                self.body.append(block)
                width = s["width"]
        self.top = ConvUnit(width, head, 1)
        self.out = linear(head, classes)
        self.dropout = nn.Dropout(dropout)

    def features(self, x):
        x = self.stem(x)
        for block in self.body:
            x = block(x)
        return self.top(x).mean(axis=[2, 3])

    def forward(self, x):
        return self.out(self.dropout(self.features(x)))


def smoothed_cross_entropy(logits, labels, smoothing=0.1):
    target = F.label_smooth(F.one_hot(labels, logits.shape[-1]).astype(logits.dtype), epsilon=smoothing)
    return F.cross_entropy(logits, target, soft_label=True)
