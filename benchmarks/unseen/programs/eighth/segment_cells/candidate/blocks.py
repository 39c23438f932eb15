import math

import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn import initializer as I


def conv(cin, cout, kernel, stride=1, padding=0, dilation=1, bias=True, slope=0.0):
    """A convolution that starts as Kaiming's normal law with the fan of the outputs says."""
    gain = math.sqrt(2.0 / (1 + slope**2))
    std = gain / math.sqrt(cout * kernel * kernel)
    return nn.Conv2D(
        cin,
        cout,
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        weight_attr=ParamAttr(initializer=I.Normal(0.0, std)),
        bias_attr=ParamAttr(initializer=I.Constant(0.0)) if bias else False,
    )


class ConvNormAct(nn.Layer):
    def __init__(self, cin, cout, norm, act, kernel=3, stride=1, dilation=1):
        super().__init__()
        padding = dilation * (kernel - 1) // 2
        self.conv = conv(cin, cout, kernel, stride, padding, dilation, bias=False, slope=act["slope"])
        self.norm = nn.GroupNorm(norm["groups"], cout, epsilon=norm["eps"])
        self.act = nn.LeakyReLU(act["slope"])

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Residual(nn.Layer):
    def __init__(self, cin, cout, norm, act, dilation=1):
        super().__init__()
        self.first = ConvNormAct(cin, cout, norm, act)
        self.second = ConvNormAct(cout, cout, norm, act, dilation=dilation)
        self.short = conv(cin, cout, 1, slope=1.0) if cin != cout else nn.Identity()

    def forward(self, x):
        return (self.second(self.first(x)) + self.short(x)) / math.sqrt(2.0)


def resize(x, like):
    """To the height and width of another map, corners on corners."""
    size = like.shape[-2:]
    if list(x.shape[-2:]) == list(size):
        return x
    return F.interpolate(x, size=size, mode="bilinear", align_corners=True)


class AttentionGate(nn.Layer):
    """Oktay et al. 2018: the coarser map says which places of the finer one are let through."""

    def __init__(self, skip, gate, inner):
        super().__init__()
        self.theta = conv(skip, inner, 2, stride=2, bias=False)
        self.phi = conv(gate, inner, 1)
        self.psi = nn.Conv2D(
            inner,
            1,
            1,
            weight_attr=ParamAttr(initializer=I.XavierUniform()),
            bias_attr=ParamAttr(initializer=I.Constant(1.0)),
        )
        self.out = nn.Sequential(conv(skip, skip, 1, bias=False, slope=1.0), nn.BatchNorm2D(skip, momentum=0.95))

    def forward(self, skip, gate):
        theta = self.theta(skip)
        mixed = F.relu(theta + resize(self.phi(gate), theta))
        alpha = F.sigmoid(self.psi(mixed))
        return self.out(skip * resize(alpha, skip)), alpha


class Up(nn.Layer):
    def __init__(self, deep, skip, out, ratio, norm, act):
        super().__init__()
        self.gate = AttentionGate(skip, deep, max(1, int(skip * ratio)))
        self.merge = Residual(deep + skip, out, norm, act)

    def forward(self, x, skip):
        kept, alpha = self.gate(skip, x)
        return self.merge(paddle.concat([kept, resize(x, skip)], axis=1)), alpha
