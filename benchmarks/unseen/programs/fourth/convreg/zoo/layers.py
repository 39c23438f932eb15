import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class DropPath(nn.Layer):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        mask = paddle.bernoulli(paddle.full([x.shape[0]] + [1] * (x.ndim - 1), keep, dtype=x.dtype))
        return x / keep * mask


class ConvNormAct(nn.Layer):
    def __init__(self, cin, cout, kernel=1, stride=1, groups=1, act=True, bn=None):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, kernel, stride, (kernel - 1) // 2, groups=groups, bias_attr=False)
        self.bn = nn.BatchNorm2D(cout, **(bn or {}))
        self.act = act

    def forward(self, x):
        x = self.bn(self.conv(x))
        return F.silu(x) if self.act else x


class SqueezeExcite(nn.Layer):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1 = nn.Conv2D(channels, squeezed, 1)
        self.fc2 = nn.Conv2D(squeezed, channels, 1)

    def forward(self, x):
        gate = F.adaptive_avg_pool2d(x, 1)
        gate = F.sigmoid(self.fc2(F.silu(self.fc1(gate))))
        return gate * x


class ChannelNorm(nn.LayerNorm):
    """LayerNorm of channels-first maps"""

    def forward(self, x):
        return super().forward(x.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])
