"""The port to Paddle of the detector."""

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

CLASSES, BEST, SIDE, WIDTH = 5, 12, 64, 32
STRIDES, SIZES = (4, 8), (10.0, 24.0)
RATIOS = (0.5, 1.0, 2.0)


class Norm2D(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon=1e-6)

    def forward(self, x):
        return self.norm(x.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1.0 - rate
    mask = paddle.floor(keep + paddle.rand([x.shape[0], 1, 1, 1], dtype=x.dtype))
    return x.divide(paddle.to_tensor(keep, dtype=x.dtype)) * mask


class GlobalResponse(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.gamma = self.create_parameter([width], default_initializer=nn.initializer.Constant(0.0))
        self.beta = self.create_parameter([width], is_bias=True)

    def forward(self, x):
        force = paddle.sqrt(paddle.sum(x * x, axis=[1, 2], keepdim=True))
        share = force / (paddle.mean(force, axis=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * share) + self.beta + x


class ConvNeXtBlock(nn.Layer):
    def __init__(self, width, drop):
        super().__init__()
        self.drop = drop
        self.dwconv = nn.Conv2D(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, epsilon=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.grn = GlobalResponse(4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.layer_scale = self.create_parameter([width], default_initializer=nn.initializer.Constant(0.5))

    def forward(self, inputs):
        x = self.dwconv(inputs)
        x = x.transpose([0, 2, 3, 1])
        x = self.norm(x)
        x = self.act(self.pwconv1(x))
        x = self.grn(x)
        x = self.pwconv2(x)
        x = self.layer_scale * x
        x = x.transpose([0, 3, 1, 2])
        return inputs + drop_path(x, self.drop, self.training)


def conv_norm(inner, outer, groups=8):
    return nn.Sequential(nn.Conv2D(inner, outer, 3, padding=1, bias_attr=False), nn.GroupNorm(groups, outer), nn.Silu())


class AnchorHead(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cls_tower = conv_norm(WIDTH, WIDTH)
        self.reg_tower = conv_norm(WIDTH, WIDTH)
        self.cls_logits = nn.Conv2D(WIDTH, len(RATIOS) * CLASSES, 3, padding=1)
        self.bbox_pred = nn.Conv2D(WIDTH, len(RATIOS) * 4, 3, padding=1)
        self.level_scales = self.create_parameter([len(STRIDES)], default_initializer=nn.initializer.Constant(1.0))

    def flat(self, x, last):
        x = x.reshape([x.shape[0], len(RATIOS), last, x.shape[2], x.shape[3]])
        x = x.transpose([0, 3, 4, 1, 2])
        return x.reshape([x.shape[0], -1, last])

    def forward(self, features):
        logits, deltas = [], []
        for level, feature in enumerate(features):
            logits.append(self.flat(self.cls_logits(self.cls_tower(feature)), CLASSES))
            delta = self.bbox_pred(self.reg_tower(feature))
            delta = delta * self.level_scales[level]
            deltas.append(self.flat(delta, 4))
        return paddle.concat(logits, axis=1), paddle.concat(deltas, axis=1)


class Anchors:
    """The boxes that are started from, by centre and size."""

    def level(self, stride, size):
        side = SIDE // stride
        centre = (np.arange(side) + 0.5) * stride
        xs, ys = np.meshgrid(centre, centre)
        rows = []
        for ratio in RATIOS:
            width = np.full_like(xs, size / np.sqrt(ratio))
            height = np.full_like(ys, size * np.sqrt(ratio))
            rows.append(np.stack([xs, ys, width, height], axis=-1))
        return np.stack(rows, axis=2).reshape(-1, 4)

    def all(self):
        boxes = [self.level(stride, size) for stride, size in zip(STRIDES, SIZES, strict=True)]
        return np.concatenate(boxes).astype("float32")


class BoxCoder:
    def __init__(self, weights=(10.0, 10.0, 5.0, 5.0), limit=1000.0 / 16):
        self.weights = weights
        self.limit = float(np.log(limit))

    def decode(self, deltas, boxes):
        wx, wy, ww, wh = self.weights
        x = boxes[:, 0] + deltas[:, :, 0] / wx * boxes[:, 2]
        y = boxes[:, 1] + deltas[:, :, 1] / wy * boxes[:, 3]
        dw = paddle.clip(deltas[:, :, 2] / ww, max=self.limit)
        dh = paddle.clip(deltas[:, :, 3] / wh, max=self.limit)
        w = paddle.exp(dw) * boxes[:, 2]
        h = paddle.exp(dh) * boxes[:, 3]
        return paddle.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], axis=-1)


class Detector(nn.Layer):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2D(3, WIDTH, 4, stride=4)
        self.patch_norm = Norm2D(WIDTH)
        self.stage1 = ConvNeXtBlock(WIDTH, 0.1)
        self.merge = nn.Sequential(Norm2D(WIDTH), nn.Conv2D(WIDTH, 2 * WIDTH, 2, stride=2))
        self.stage2 = ConvNeXtBlock(2 * WIDTH, 0.2)
        self.inner = nn.LayerList([nn.Conv2D(WIDTH, WIDTH, 1), nn.Conv2D(2 * WIDTH, WIDTH, 1)])
        self.outer = nn.LayerList([nn.Conv2D(WIDTH, WIDTH, 3, padding=1), nn.Conv2D(WIDTH, WIDTH, 3, padding=1)])
        self.head = AnchorHead()
        self.coder = BoxCoder()
        self.register_buffer("anchors", paddle.to_tensor(Anchors().all()), persistable=False)

    def backbone(self, image):
        c1 = self.stage1(self.patch_norm(self.patch(image)))
        c2 = self.stage2(self.merge(c1))
        return c1, c2

    def neck(self, c1, c2):
        top = self.inner[1](c2)
        up = F.interpolate(top, scale_factor=2, mode="nearest")
        bottom = self.inner[0](c1) + up
        return [self.outer[0](bottom), self.outer[1](top)]

    def forward(self, image):
        features = self.neck(*self.backbone(image))
        logits, deltas = self.head(features)
        boxes = self.coder.decode(deltas, self.anchors)
        boxes = paddle.clip(boxes, min=0, max=SIDE)
        chances = F.sigmoid(logits)
        best = paddle.max(chances, axis=-1)
        labels = paddle.argmax(chances, axis=-1)
        best, index = paddle.topk(best, BEST, axis=-1)
        labels = paddle.take_along_axis(labels, index, axis=1)
        boxes = paddle.take_along_axis(boxes, index.unsqueeze(-1), axis=1)
        area = (boxes[:, :, 2] - boxes[:, :, 0]) * (boxes[:, :, 3] - boxes[:, :, 1])
        return {"scores": best, "labels": labels, "boxes": boxes, "areas": area}


def build_model():
    return Detector()
