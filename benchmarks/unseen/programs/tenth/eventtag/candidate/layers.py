import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I


def conv2d(cin, cout, **kw):
    return nn.Conv2D(cin, cout, 3, padding=1, weight_attr=paddle.ParamAttr(initializer=I.KaimingNormal()), **kw)


def conv1d(cin, cout, k, **kw):
    he = paddle.ParamAttr(initializer=I.KaimingNormal())
    return nn.Conv1D(cin, cout, k, weight_attr=he, bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)), **kw)


def dense(cin, cout):
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=I.XavierUniform()))


class GatedConv(nn.Layer):
    def __init__(self, cin, cout, pool_t, epsilon, momentum):
        super().__init__()
        self.conv = conv2d(cin, cout * 2, bias_attr=False)
        self.norm = nn.BatchNorm2D(cout * 2, momentum=momentum, epsilon=epsilon)
        size = 3 if pool_t == 2 else 1
        self.pool = nn.AvgPool2D([size, 2], stride=[pool_t, 2], padding=[pool_t // 2, 0], exclusive=False)

    def forward(self, x):
        value, gate = paddle.chunk(self.norm(self.conv(x)), 2, axis=1)
        return self.pool(value * F.sigmoid(gate))


class TemporalBlock(nn.Layer):
    """Dilated causal convolution, channels in front of time."""

    def __init__(self, dim, kernel, dilation, dropout):
        super().__init__()
        self.pad = nn.Pad1D([dilation * (kernel - 1), 0])
        self.conv = conv1d(dim, dim, kernel, dilation=dilation, groups=2)
        self.act = nn.PReLU(dim)
        self.mix = conv1d(dim, dim, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.conv(self.pad(x))
        h = self.mix(self.act(h))
        return self.dropout(h) + x
