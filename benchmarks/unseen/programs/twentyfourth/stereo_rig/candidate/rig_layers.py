"""Network of the stereo rig (Paddle)."""
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal, Uniform

from rig_settings import number


def conv2(n_in, n_out, k, bias=True, std=None, **kw):
    bound = math.sqrt(6.0 / (n_in * k * k))
    law = Uniform(-bound, bound) if std is None else Normal(0.0, std)
    return nn.Conv2D(n_in, n_out, k, weight_attr=law, bias_attr=Constant(0.0) if bias else False, **kw)


def conv3(n_in, n_out, k, bias=True, groups=1, **kw):
    volume = k ** 3
    law = Normal(0.0, math.sqrt(2.0 / ((n_in // groups + n_out) * volume)))
    return nn.Conv3D(n_in, n_out, k, groups=groups, weight_attr=law,
                     bias_attr=Constant(0.0) if bias else False, **kw)


class FeatureTower(nn.Layer):
    def __init__(self):
        super().__init__()
        ch, groups = number("model", "channels"), number("model", "gn_groups")
        self.stem = conv2(2, ch, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(groups, ch)
        self.res = conv2(ch, ch, 3, bias=False, padding=2, dilation=2)
        self.res_norm = nn.GroupNorm(groups, ch)
        self.head = conv2(ch, ch, 1, bias=False)
        self.elu = nn.ELU(alpha=0.8)

    def forward(self, x):
        x = self.elu(self.norm(self.stem(x)))
        return self.head(x + self.elu(self.res_norm(self.res(x))))


class Regulariser(nn.Layer):
    def __init__(self):
        super().__init__()
        groups, hidden = number("model", "corr_groups"), number("model", "hidden")
        self.inner = conv3(groups, hidden, 3, padding=1)
        self.act = nn.PReLU(hidden, init=0.2)
        self.depthwise = conv3(hidden, hidden, 3, bias=False, groups=hidden, padding=1)
        self.outer = conv3(hidden, 1, 1, bias=False)

    def forward(self, cost):
        h = self.act(self.inner(cost))
        return self.outer(h + self.depthwise(h)).squeeze(1)


def volume_of(left, right):
    groups, shifts = number("model", "corr_groups"), number("model", "shifts")
    b, c, h, w = left.shape
    wide = F.pad(right, [shifts - 1, 0, 0, 0])
    stack = paddle.stack([wide[:, :, :, shifts - 1 - d:shifts - 1 - d + w] for d in range(shifts)], axis=2)
    split = [b, groups, c // groups, shifts, h, w]
    lifted = left.unsqueeze(2).expand([b, c, shifts, h, w]).reshape(split)
    return paddle.einsum("bgcdyx,bgcdyx->bgdyx", lifted, stack.reshape(split)) / (c // groups)


class Rig(nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = FeatureTower()
        self.volume = Regulariser()
        self.refine = conv2(3, 8, 3, padding=1)
        self.refine_out = conv2(8, 1, 3, std=0.02, padding=1)
        self.sharpness = number("model", "sharpness")

    def forward(self, left, right):
        fl, fr = self.features(left), self.features(right)
        score = self.volume(volume_of(fl, fr))
        p = F.softmax(self.sharpness * score, axis=1)
        steps = paddle.arange(score.shape[1], dtype="float32").reshape([1, -1, 1, 1])
        coarse = 2.0 * (p * steps).sum(axis=1)
        h, w = left.shape[2:]
        up = F.interpolate(coarse.unsqueeze(1), size=[h, w], mode="bilinear", align_corners=False)
        hidden = F.relu6(self.refine(paddle.concat([up * 0.125, left], axis=1)))
        fine = F.relu(up + self.refine_out(hidden)).squeeze(1)
        return {"fine": fine, "coarse": coarse, "score": score}


def edge_aware(disp, image, sharpness):
    total = 0.0
    for axis in (1, 2):
        jump = paddle.diff(disp, axis=axis).abs()
        total = total + (jump * paddle.exp(-sharpness * paddle.diff(image, axis=axis).abs())).mean()
    return total


def look_up(values, disp):
    """Linear look-up at x - disp in each row; positions beyond the border are clamped."""
    w = disp.shape[2]
    x = paddle.clip(paddle.arange(w, dtype="float32") - disp, 0.0, float(w - 1))
    low = paddle.clip(paddle.floor(x), max=float(w - 2))
    part = x - low
    index = low.astype("int64")
    return (1.0 - part) * paddle.take_along_axis(values, index, axis=2) \
        + part * paddle.take_along_axis(values, index + 1, axis=2)
