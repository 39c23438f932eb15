import math

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional as F
from paddle.nn import initializer as init

from .norm import ChannelNorm
from .options import NET, PHOTOS


def fan_out_law(cin, cout, k):
    return init.Normal(std=math.sqrt(2.0 / (cout * k * k)))


def glorot_law(cin, cout, k):
    bound = math.sqrt(6.0 / ((cin + cout) * k * k))
    return init.Uniform(low=-bound, high=bound)


def torch_law(cin, cout, k):
    bound = 1.0 / math.sqrt(cin * k * k)
    return init.Uniform(low=-bound, high=bound)


def plain_conv(cin, cout, k, law, stride=1, dilation=1, bias=False):
    return nn.Conv2D(cin, cout, k, stride=stride, padding=dilation * (k // 2), dilation=dilation,
                     weight_attr=ParamAttr(initializer=law), bias_attr=bias)


class Step(nn.Layer):
    def __init__(self, cin, cout, k, law, stride=1, dilation=1):
        super().__init__()
        self.filter = plain_conv(cin, cout, k, law(cin, cout, k), stride, dilation)
        self.norm = ChannelNorm(cout)

    def forward(self, x):
        return self.norm(self.filter(x))


class Stage(nn.Layer):
    def __init__(self, cin, cout, stride, dilation):
        super().__init__()
        self.a = Step(cin, cout, 3, fan_out_law, stride, dilation)
        self.b = Step(cout, cout, 3, fan_out_law, 1, dilation)
        if stride > 1 or cin != cout:
            self.match = Step(cin, cout, 1, fan_out_law, stride)

    def forward(self, x):
        y = self.b(F.relu(self.a(x)))
        if hasattr(self, "match"):
            x = self.match(x)
        return F.relu(x + y)


class Trunk(nn.Layer):
    def __init__(self):
        super().__init__()
        self.entry = Step(3, NET.stem, 3, fan_out_law, stride=2)
        widths = [NET.stem] + [s[0] for s in NET.stages]
        self.s1 = Stage(widths[0], *NET.stages[0])
        self.s2 = Stage(widths[1], *NET.stages[1])
        self.s3 = Stage(widths[2], *NET.stages[2])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.entry(x)), kernel_size=3, stride=2, padding=1)
        low = self.s1(x)
        mid = self.s2(low)
        return low, mid, self.s3(mid)


class Decoder(nn.Layer):
    def __init__(self, low, high, labels):
        super().__init__()
        w = NET.width
        self.point = Step(high, w, 1, glorot_law)
        self.holes = nn.LayerList([Step(high, w, 3, glorot_law, dilation=r) for r in NET.atrous])
        self.scene = plain_conv(high, w, 1, glorot_law(high, w, 1), bias=None)
        self.merge = Step(w * (2 + len(NET.atrous)), w, 1, glorot_law)
        self.detail = Step(low, NET.detail, 1, glorot_law)
        self.mix = Step(w + NET.detail, w, 3, glorot_law)
        self.score = plain_conv(w, labels, 1, init.Normal(0.0, 0.1), bias=None)

    def pyramid(self, x):
        views = [F.hardswish(self.point(x))]
        views.extend(F.hardswish(hole(x)) for hole in self.holes)
        whole = F.hardswish(self.scene(x.mean(axis=[2, 3], keepdim=True)))
        views.append(paddle.expand(whole, [-1, -1, x.shape[2], x.shape[3]]))
        return F.hardswish(self.merge(paddle.concat(views, axis=1)))

    def forward(self, low, high):
        x = F.dropout2d(self.pyramid(high), p=NET.drop, training=self.training)
        x = enlarge(x, low.shape[2:])
        x = paddle.concat([x, F.relu(self.detail(low))], axis=1)
        return self.score(F.hardswish(self.mix(x)))


def enlarge(x, size, corners=False):
    return F.interpolate(x, size=[int(s) for s in size], mode="bilinear", align_corners=corners)


class SceneNet(nn.Layer):
    def __init__(self):
        super().__init__()
        widths = [s[0] for s in NET.stages]
        self.trunk = Trunk()
        self.decoder = Decoder(widths[0], widths[-1], PHOTOS.labels)
        self.side_step = Step(widths[1], NET.aux_width, 3, torch_law)
        law = torch_law(NET.aux_width, 0, 1)
        self.side_score = plain_conv(NET.aux_width, PHOTOS.labels, 1, law, bias=ParamAttr(initializer=law))

    def forward(self, x):
        low, mid, high = self.trunk(x)
        side = self.side_score(F.relu(self.side_step(mid)))
        return {
            "out": enlarge(self.decoder(low, high), x.shape[2:], corners=True),
            "aux": enlarge(side, x.shape[2:]),
        }
