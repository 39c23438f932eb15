import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I
from settings import Inverted


def conv_bn(cin, cout, k, net, stride=1, groups=1, dilation=1, act=None):
    """Convolution, batch norm and, if wanted, an activation."""
    pad = dilation * (k // 2)
    std = math.sqrt(2.0 / (cout * k * k))
    conv = nn.Conv2D(
        cin, cout, k, stride=stride, padding=pad, dilation=dilation, groups=groups,
        weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)), bias_attr=False,
    )
    norm = nn.BatchNorm2D(cout, momentum=net.bn_momentum, epsilon=net.bn_epsilon)
    return nn.Sequential(conv, norm, *([act] if act is not None else []))


def biased_conv(cin, cout, k, initializer, groups=1, bias=0.0):
    return nn.Conv2D(
        cin, cout, k, padding=k // 2, groups=groups,
        weight_attr=paddle.ParamAttr(initializer=initializer),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(bias)),
    )


class Squeeze(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        small = channels // 4
        self.reduce = biased_conv(channels, small, 1, I.Normal(0.0, math.sqrt(2.0 / small)))
        self.expand = biased_conv(small, channels, 1, I.Normal(0.0, math.sqrt(2.0 / channels)))

    def forward(self, x):
        s = x.mean(axis=[2, 3], keepdim=True)
        s = self.expand(F.relu(self.reduce(s)))
        return x * (F.relu6(s + 3.0) / 6.0)


class InvertedBlock(nn.Layer):
    def __init__(self, cin, spec, net):
        super().__init__()
        mid = cin * spec.ratio
        self.expand = conv_bn(cin, mid, 1, net, act=nn.Hardswish())
        self.depthwise = conv_bn(
            mid, mid, 3, net, stride=spec.stride, groups=mid, dilation=spec.dilation, act=nn.Hardswish()
        )
        self.se = Squeeze(mid) if spec.squeeze else None
        self.project = conv_bn(mid, spec.out, 1, net)
        self.residual = spec.stride == 1 and cin == spec.out

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        if self.se is not None:
            y = self.se(y)
        y = self.project(y)
        if self.residual:
            y = y + x
        return y


class ShuffleBlock(nn.Layer):
    def __init__(self, cin, spec, net):
        super().__init__()
        g = spec.groups
        self.pw1 = conv_bn(cin, spec.out, 1, net, groups=g, act=nn.Hardswish())
        self.shuffle = nn.ChannelShuffle(g)
        self.dw = conv_bn(spec.out, spec.out, 3, net, groups=spec.out)
        self.pw2 = conv_bn(spec.out, spec.out, 1, net, groups=g)

    def forward(self, x):
        y = self.shuffle(self.pw1(x))
        return F.relu(x + self.pw2(self.dw(y)))


def make_stage(cin, specs, net):
    blocks = []
    for spec in specs:
        kind = InvertedBlock if isinstance(spec, Inverted) else ShuffleBlock
        blocks.append(kind(cin, spec, net))
        cin = spec.out
    return nn.Sequential(*blocks), cin


class Pyramid(nn.Layer):
    def __init__(self, c3, c4, width):
        super().__init__()
        xavier = I.XavierUniform
        self.lateral3 = biased_conv(c3, width, 1, xavier())
        self.lateral4 = biased_conv(c4, width, 1, xavier())
        self.smooth3 = self.separable(width)
        self.smooth4 = self.separable(width)

    @staticmethod
    def separable(width):
        return nn.Sequential(
            biased_conv(width, width, 3, I.XavierUniform(), groups=width),
            biased_conv(width, width, 1, I.XavierUniform()),
        )

    def forward(self, c3, c4):
        m4 = self.lateral4(c4)
        m3 = self.lateral3(c3)
        m3 = m3 + F.interpolate(m4, size=m3.shape[2:], mode="bilinear", align_corners=False)
        p3, p4 = self.smooth3(m3), self.smooth4(m4)
        p5 = F.avg_pool2d(p4, 3, stride=2, padding=1, exclusive=False)
        return p3, p4, p5


def tower(net):
    layers = []
    for _ in range(net.tower):
        layers.append(
            nn.Conv2D(
                net.width, net.width, 3, padding=1, groups=net.tower_groups,
                weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.03)), bias_attr=False,
            )
        )
        layers.append(nn.GroupNorm(8, net.width, epsilon=1e-3))
        layers.append(nn.GELU())
    return nn.Sequential(*layers)


def flatten_map(x, last):
    """[B, A * last, H, W] as [B, H * W * A, last]."""
    b, c, h, w = x.shape
    x = x.reshape([b, c // last, last, h, w])
    return x.transpose([0, 3, 4, 1, 2]).reshape([b, -1, last])


class SpotNet(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        net = cfg.net
        a, levels = len(cfg.ratios), len(cfg.strides)
        self.classes = net.classes
        self.stem = conv_bn(3, net.stem, 3, net, stride=2, act=nn.Hardswish())
        self.stage1, c3 = make_stage(net.stem, net.stages[0], net)
        self.stage2, c4 = make_stage(c3, net.stages[1], net)
        self.pyramid = Pyramid(c3, c4, net.width)
        self.cls_tower, self.box_tower = tower(net), tower(net)
        normal = I.Normal(0.0, 0.03)
        self.cls_out = biased_conv(net.width, a * net.classes, 3, normal, bias=-math.log((1 - net.prior) / net.prior))
        self.box_out = biased_conv(net.width, a * 4, 3, normal)
        self.scales = nn.ParameterList(
            [self.create_parameter([1], default_initializer=I.Constant(1.0)) for _ in range(levels)]
        )

    def backbone_parameters(self):
        return [p for part in (self.stem, self.stage1, self.stage2) for p in part.parameters()]

    def forward(self, images):
        c3 = self.stage1(self.stem(images))
        c4 = self.stage2(c3)
        logits, deltas = [], []
        for level, p in enumerate(self.pyramid(c3, c4)):
            logits.append(flatten_map(self.cls_out(self.cls_tower(p)), self.classes))
            deltas.append(flatten_map(self.box_out(self.box_tower(p)) * self.scales[level], 4))
        return {"logits": paddle.concat(logits, axis=1), "deltas": paddle.concat(deltas, axis=1)}
