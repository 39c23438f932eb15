import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr
from paddle.nn.initializer import Constant, Normal


def fan_out_attr(out_channels, kernel):
    std = (2.0 / (out_channels * kernel * kernel)) ** 0.5
    return ParamAttr(initializer=Normal(0.0, std))


def conv(in_channels, out_channels, kernel, bias=True, bias_value=0.0):
    return nn.Conv2D(
        in_channels,
        out_channels,
        kernel,
        padding=kernel // 2,
        weight_attr=fan_out_attr(out_channels, kernel),
        bias_attr=ParamAttr(initializer=Constant(bias_value)) if bias else False,
    )


class ConvBN(nn.Layer):
    def __init__(self, in_channels, out_channels, kernel=3, bias=False):
        super().__init__()
        self.conv = conv(in_channels, out_channels, kernel, bias)
        self.norm = nn.BatchNorm2D(out_channels, momentum=0.9, epsilon=1e-5)

    def forward(self, x):
        return self.norm(self.conv(x))


class ConvUnit(nn.Layer):
    """Two ConvBN with ReLU, dropout of whole channels in between."""

    def __init__(self, in_channels, out_channels, drop_rate=0.0):
        super().__init__()
        self.a = ConvBN(in_channels, out_channels)
        self.b = ConvBN(out_channels, out_channels)
        self.drop = nn.Dropout2D(drop_rate)

    def forward(self, x):
        x = self.drop(F.relu(self.a(x)))
        return F.relu(self.b(x))


class GatedSkip(nn.Layer):
    def __init__(self, gate_channels, skip_channels):
        super().__init__()
        hidden = gate_channels // 2
        self.from_gate = ConvBN(gate_channels, hidden, 1, bias=True)
        self.from_skip = ConvBN(skip_channels, hidden, 1, bias=True)
        self.score = conv(hidden, 1, 1)

    def forward(self, gate, skip):
        hidden = F.leaky_relu(self.from_gate(gate) + self.from_skip(skip), negative_slope=0.1)
        alpha = F.sigmoid(self.score(hidden))
        return alpha * skip


def center_pad(x, like):
    """Zeros around x so that it is as large as `like`."""
    rows = like.shape[2] - x.shape[2]
    cols = like.shape[3] - x.shape[3]
    left, top = cols // 2, rows // 2
    if rows == 0 and cols == 0:
        return x
    return F.pad(x, [left, cols - left, top, rows - top])


def resize(x, size, corners=False):
    return F.interpolate(x, size=size, mode="bilinear", align_corners=corners)
