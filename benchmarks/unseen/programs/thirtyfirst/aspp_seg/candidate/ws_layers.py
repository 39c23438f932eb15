import paddle
import paddle.nn.functional as F
from paddle import nn


class StdConv(nn.Layer):
    """Convolution whose filters are standardised before use; no bias."""

    def __init__(self, cin, cout, size, stride=1, rate=1):
        super().__init__()
        bound = (6.0 / (cin * size * size)) ** 0.5
        self.kernel = self.create_parameter([cout, cin, size, size], default_initializer=nn.initializer.Uniform(-bound, bound))
        self.opts = dict(stride=stride, padding=rate * (size - 1) // 2, dilation=rate)

    def forward(self, x):
        w = self.kernel.reshape([self.kernel.shape[0], -1])
        w = (w - w.mean(1, keepdim=True)) / (w.std(1, keepdim=True) + 1e-5)
        return F.conv2d(x, w.reshape(self.kernel.shape), **self.opts)


class ConvNormAct(nn.Layer):
    def __init__(self, cin, cout, size=3, stride=1, rate=1, act="relu", scale=1.0):
        super().__init__()
        self.norm = nn.GroupNorm(4, cout, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(scale)))
        self.conv = StdConv(cin, cout, size, stride, rate)
        self.act = getattr(F, act) if act else None

    def forward(self, x):
        y = self.norm(self.conv(x))
        return self.act(y) if self.act else y


class ResidualUnit(nn.Layer):
    def __init__(self, width, rate):
        super().__init__()
        self.body = nn.Sequential(
            ConvNormAct(width, width, rate=rate),
            ConvNormAct(width, width, rate=rate, act=None, scale=0.2),  # starts near identity
        )

    def forward(self, x):
        return F.relu(self.body(x) + x)


def plain_conv(cin, cout, bias=0.0):
    attr = nn.initializer.Assign(bias) if not isinstance(bias, float) else nn.initializer.Constant(bias)
    return nn.Conv2D(cin, cout, 1, weight_attr=nn.initializer.Normal(0.0, 0.05), bias_attr=attr)
