"""The network in Paddle."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingNormal, Normal

from .plugins import plugin


def conv_bn(cin, cout, kernel, bn, stride=1, act=True, gain=1.0):
    fan_out = cout * kernel * kernel
    conv = nn.Conv2D(
        cin, cout, kernel, stride=stride, padding=(kernel - 1) // 2, bias_attr=False,
        weight_attr=paddle.ParamAttr(initializer=KaimingNormal(fan_in=fan_out)),
    )
    norm = nn.BatchNorm2D(cout, weight_attr=paddle.ParamAttr(initializer=Constant(gain)), **bn)
    return nn.Sequential(conv, norm, nn.ReLU()) if act else nn.Sequential(conv, norm)


class BasicBlock(nn.Layer):
    def __init__(self, width, bn, gain):
        super().__init__()
        self.first = conv_bn(width, width, 3, bn)
        self.second = conv_bn(width, width, 3, bn, act=False, gain=gain)

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + x)


class FuseStage(nn.Layer):
    def __init__(self, high, low, bn, gain):
        super().__init__()
        self.high = BasicBlock(high, bn, gain)
        self.low = BasicBlock(low, bn, gain)
        self.up = conv_bn(low, high, 1, bn, act=False)
        self.down = conv_bn(high, low, 3, bn, stride=2, act=False)

    def forward(self, high, low):
        high = self.high(high)
        low = self.low(low)
        lifted = F.interpolate(self.up(low), size=high.shape[2:], mode="nearest")
        return F.relu(high + lifted), F.relu(low + self.down(high))


class SoftArgmax2D(nn.Layer):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, maps):
        h, w = maps.shape[2:]
        mass = F.softmax(self.beta * maps.flatten(2), axis=-1)
        rows, columns = paddle.meshgrid(paddle.arange(h), paddle.arange(w))
        grid = paddle.stack([columns.flatten(), rows.flatten()], axis=-1).astype(maps.dtype)
        return paddle.matmul(mass, grid)


@plugin("hr_two")
class HRTwo(nn.Layer):
    def __init__(self, stem, widths, num_stages, num_joints, bn, residual_gain, beta, stride):
        super().__init__()
        high, low = widths
        self.stride = stride
        self.stem = conv_bn(3, stem, 3, bn, stride=2)
        self.to_high = conv_bn(stem, high, 3, bn)
        self.to_low = conv_bn(stem, low, 3, bn, stride=2)
        self.stages = nn.LayerList([FuseStage(high, low, bn, residual_gain) for _ in range(num_stages)])
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.head = nn.Conv2D(
            high + low, num_joints, 1,
            weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 0.05)),
            bias_attr=paddle.ParamAttr(initializer=Constant(0.0)),
        )
        self.soft_argmax = SoftArgmax2D(beta)

    def forward(self, image):
        features = self.stem(image)
        high, low = self.to_high(features), self.to_low(features)
        for stage in self.stages:
            high, low = stage(high, low)
        maps = self.head(paddle.concat([high, self.upsample(low)], axis=1))
        joints = (self.soft_argmax(maps) + 0.5) * self.stride - 0.5
        return {"heatmaps": maps, "joints": joints}
