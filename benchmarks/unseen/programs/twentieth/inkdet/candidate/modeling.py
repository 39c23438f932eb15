import math

import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn import initializer as I

LEVELS = [dict(stride=8, low=-1.0, high=18.0), dict(stride=16, low=18.0, high=32.0),
          dict(stride=32, low=32.0, high=1e8)]
N_DIGITS = 10


def conv(cin, cout, k, weight=None, bias=None, stride=1):
    """Convolution that starts as PyTorch's does unless an initializer is given."""
    bound = (cin * k * k) ** -0.5
    weight, bias = weight or I.Uniform(-bound, bound), bias or I.Uniform(-bound, bound)
    return nn.Conv2D(cin, cout, k, stride=stride, padding=k // 2, weight_attr=ParamAttr(initializer=weight),
                     bias_attr=ParamAttr(initializer=bias))


class ConvNormAct(nn.Layer):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        he = I.Normal(0.0, math.sqrt(2.0 / (9 * cout)))                # fan out
        self.conv = nn.Conv2D(cin, cout, 3, stride=stride, padding=1, weight_attr=ParamAttr(initializer=he),
                              bias_attr=False)
        self.norm = nn.GroupNorm(4, cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Stage(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.down = ConvNormAct(cin, cout, stride=2)
        self.keep = ConvNormAct(cout, cout)
        self.skip = conv(cin, cout, 1)

    def forward(self, x):
        pooled = F.avg_pool2d(x, kernel_size=3, stride=2, padding=1, exclusive=False)
        return self.keep(self.down(x)) + self.skip(pooled)


class Pyramid(nn.Layer):
    def __init__(self, widths, out):
        super().__init__()
        self.inner, self.outer = nn.LayerList(), nn.LayerList()
        zero = I.Constant(0.0)
        for w in widths:
            a, b = math.sqrt(3.0 / w), math.sqrt(3.0 / (9 * out))      # kaiming uniform of gain 1
            self.inner.append(conv(w, out, 1, I.Uniform(-a, a), zero))
            self.outer.append(conv(out, out, 3, I.Uniform(-b, b), zero))

    def forward(self, maps):
        merged = [layer(m) for layer, m in zip(self.inner, maps)]
        for i in range(len(merged) - 2, -1, -1):
            merged[i] = merged[i] + F.interpolate(merged[i + 1], size=merged[i].shape[2:], mode="nearest")
        return [layer(m) for layer, m in zip(self.outer, merged)]


class SharedHead(nn.Layer):
    def __init__(self, c, prior=0.05):
        super().__init__()
        self.what, self.where = ConvNormAct(c, c), ConvNormAct(c, c)
        small, zero = I.Normal(0.0, 0.03), I.Constant(0.0)
        self.digit = conv(c, N_DIGITS, 3, small, I.Constant(math.log(prior / (1 - prior))))
        self.sides = conv(c, 4, 3, small, zero)
        self.centre = conv(c, 1, 3, small, zero)
        self.level_gain = self.create_parameter([len(LEVELS)], default_initializer=I.Constant(1.0))

    @staticmethod
    def rows(x):
        return x.transpose([0, 2, 3, 1]).reshape([x.shape[0], -1, x.shape[1]])

    def forward(self, maps):
        out = {"cls": [], "reg": [], "ctr": []}
        for k, (level, m) in enumerate(zip(LEVELS, maps)):
            box = self.where(m)
            out["cls"].append(self.rows(self.digit(self.what(m))))
            out["reg"].append(self.rows(paddle.exp(self.sides(box) * self.level_gain[k])) * level["stride"])
            out["ctr"].append(self.rows(self.centre(box)).squeeze(-1))
        return {name: paddle.concat(parts, axis=1) for name, parts in out.items()}


class InkDetector(nn.Layer):
    def __init__(self, w=16):
        super().__init__()
        self.entry = ConvNormAct(1, w, stride=2)
        self.pool = nn.MaxPool2D(3, stride=2, padding=1)
        widths = [w, 2 * w, 3 * w, 4 * w]
        self.stages = nn.LayerList([Stage(a, b) for a, b in zip(widths, widths[1:])])
        self.neck = Pyramid(widths[1:], 2 * w)
        self.head = SharedHead(2 * w)

    def forward(self, image):
        x = self.pool(self.entry(image))
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return self.head(self.neck(maps))
