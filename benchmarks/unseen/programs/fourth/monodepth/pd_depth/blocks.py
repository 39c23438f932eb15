import paddle
import paddle.nn as nn
import paddle.nn.functional as F


def resize(x, size, corners=True):
    return F.interpolate(x, size=size, mode="bilinear", align_corners=corners)


class ConvBN(nn.Sequential):
    """convolution without bias, batch norm and perhaps an activation"""

    def __init__(self, cin, cout, k, stride=1, act=True, momentum=0.9):
        layers = [
            nn.Conv2D(cin, cout, k, stride=stride, padding=k // 2, bias_attr=False),
            nn.BatchNorm2D(cout, momentum=momentum),
        ]
        if act:
            layers.append(nn.ReLU())
        super().__init__(*layers)


class Residual(nn.Layer):
    def __init__(self, cin, cout, stride=1, momentum=0.9):
        super().__init__()
        self.a = ConvBN(cin, cout, 3, stride, momentum=momentum)
        self.b = ConvBN(cout, cout, 3, act=False, momentum=momentum)
        self.shrink = nn.AvgPool2D(3, stride, 1, exclusive=False)
        self.project = ConvBN(cin, cout, 1, act=False, momentum=momentum)

    def forward(self, x):
        main = self.b(self.a(x))
        short = self.project(self.shrink(x))
        return F.relu(main + short)


class DilatedContext(nn.Layer):
    def __init__(self, channels, dilations, slope):
        super().__init__()
        half = channels // 2
        self.branches = nn.LayerList()
        for d in dilations:
            self.branches.append(nn.Conv2D(channels, half, 3, padding=d, dilation=d))
        self.pooled = nn.Conv2D(channels, half, 1)
        self.mix = nn.Conv2D(half * (1 + len(dilations)), channels, 1)
        self.slope = slope

    def forward(self, x):
        n, _, h, w = x.shape
        parts = [branch(x) for branch in self.branches]
        mean = F.adaptive_avg_pool2d(x, 1)
        parts.append(self.pooled(mean).expand([n, -1, h, w]))
        joined = F.leaky_relu(paddle.concat(parts, axis=1), self.slope)
        return self.mix(joined) + x


class Up(nn.Layer):
    def __init__(self, cin, skip, cout, slope):
        super().__init__()
        self.slope = slope
        self.conv_a = nn.Conv2D(cin + skip, cout, 3, padding=1)
        self.conv_b = nn.Conv2D(cout, cout, 3, padding=1)

    def forward(self, low, skip):
        low = resize(low, skip.shape[2:])
        x = paddle.concat([low, skip], axis=1)
        for conv in (self.conv_a, self.conv_b):
            x = F.leaky_relu(conv(x), self.slope)
        return x


class InverseDepth(nn.Layer):
    def __init__(self, channels, depth_range):
        super().__init__()
        near, far = depth_range
        self.conv = nn.Conv2D(channels, 1, 3, padding=1)
        self.offset, self.span = 1 / far, 1 / near - 1 / far

    def forward(self, x):
        disparity = F.sigmoid(self.conv(x)) * self.span + self.offset
        return paddle.reciprocal(disparity)
