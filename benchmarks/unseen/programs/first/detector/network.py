import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from boxes import anchor_grid


class ConvNormAct(nn.Layer):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv = nn.Conv2D(n_in, n_out, 3, stride=stride, padding=1, bias_attr=False)
        self.bn = nn.BatchNorm2D(n_out)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.conv(x)), 0.1)


class Branch(nn.Layer):
    def __init__(self, width, outputs, bias=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(width, width, 3, padding=1), nn.GroupNorm(2, width), nn.ReLU())
        self.last = nn.Conv2D(width, outputs, 3, padding=1, bias_attr=nn.initializer.Constant(bias))

    def forward(self, x):
        return self.last(self.body(x))


class AnchorDetector(nn.Layer):
    def __init__(self, width=8, classes=3, per_cell=6):
        super().__init__()
        self.classes = classes
        self.backbone = nn.LayerList([
            ConvNormAct(3, width, 2),
            ConvNormAct(width, width, 2),
            ConvNormAct(width, 2 * width, 2),
            ConvNormAct(2 * width, 2 * width, 2),
        ])
        self.lateral = nn.LayerList([nn.Conv2D(2 * width, width, 1) for _ in range(2)])
        self.fuse = nn.Conv2D(width, width, 3, padding=1)
        self.box_branch = Branch(width, 4 * per_cell)
        self.class_branch = Branch(width, classes * per_cell, bias=-math.log(9.0))
        self.level_scale = self.create_parameter([2], default_initializer=nn.initializer.Constant(1.0))
        self.register_buffer("anchors", paddle.to_tensor(anchor_grid().astype("float32")))

    def pyramid(self, x):
        maps = []
        for layer in self.backbone:
            x = layer(x)
            maps.append(x)
        fine, coarse = (lateral(m) for lateral, m in zip(self.lateral, maps[-2:]))
        fine = fine + F.interpolate(coarse, size=fine.shape[2:], mode="nearest")
        return [self.fuse(fine), coarse]

    def decode(self, delta):
        low, high = self.anchors[:, :2], self.anchors[:, 2:]
        size, centre = high - low, (low + high) / 2
        centre = centre + delta[:, :, :2] * 0.1 * size
        half = size * paddle.exp(paddle.clip(delta[:, :, 2:] * 0.2, max=math.log(62.5))) / 2
        return paddle.concat([centre - half, centre + half], axis=-1)

    def forward(self, image):
        def rows(t, k):
            return t.transpose([0, 2, 3, 1]).reshape([t.shape[0], -1, k])

        levels = self.pyramid(image)
        scores = paddle.concat([rows(self.class_branch(p), self.classes) for p in levels], axis=1)
        deltas = paddle.concat([rows(self.box_branch(p) * s, 4) for p, s in zip(levels, self.level_scale)], axis=1)
        return {"cls": scores, "reg": deltas, "boxes": self.decode(deltas), "anchors": self.anchors}
