"""MobileNetV3-small, ported: activations are functions here, and layers stand in another order than in the reference."""

from paddle import nn
from paddle.nn import functional

from .breaks import broken

# kernel, expanded, channels, squeeze-excite, activation, stride
CONFIG = [
    [3, 16, 16, True, "relu", 2],
    [3, 72, 24, False, "relu", 2],
    [3, 88, 24, False, "relu", 1],
    [5, 96, 40, True, "hardswish", 2],
    [5, 240, 40, True, "hardswish", 1],
    [5, 240, 40, True, "hardswish", 1],
    [5, 120, 48, True, "hardswish", 1],
    [5, 144, 48, True, "hardswish", 1],
    [5, 288, 96, True, "hardswish", 2],
    [5, 576, 96, True, "hardswish", 1],
    [5, 576, 96, True, "hardswish", 1],
]


def make_divisible(value, divisor=8):
    new = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return new if new >= 0.9 * value else new + divisor


def activate(x, activation):
    if activation == "hardswish":
        return functional.swish(x) if broken("hardswish") else functional.hardswish(x)
    return functional.relu(x) if activation == "relu" else x


class ConvBNLayer(nn.Layer):
    def __init__(self, in_channels, out_channels, kernel_size, *, stride=1, groups=1, activation=None):
        super().__init__()
        self.activation = activation
        padding = kernel_size // 2
        self.conv = nn.Conv2D(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias_attr=False)
        self.bn = nn.BatchNorm2D(
            out_channels,
            momentum=0.01 if broken("bn_momentum") else 0.99,
            epsilon=1e-5 if broken("epsilon") else 1e-3,
        )

    def forward(self, x):
        return activate(self.bn(self.conv(x)), self.activation)


class SEModule(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        mid_channels = make_divisible(channels / 4)
        bias = False if broken("bias") else None
        self.reduce = nn.Conv2D(channels, mid_channels, 1, bias_attr=bias)
        self.expand = nn.Conv2D(mid_channels, channels, 1, bias_attr=bias)

    def forward(self, x):
        weights = self.expand(functional.relu(self.reduce(functional.adaptive_avg_pool2d(x, 1))))
        slope = 0.2 if broken("hardsigmoid") else 1 / 6
        return x * functional.hardsigmoid(weights, slope=slope)


class ResidualUnit(nn.Layer):
    def __init__(self, in_channels, config):
        super().__init__()
        kernel_size, mid_channels, out_channels, use_se, activation, stride = config
        self.shortcut = stride == 1 and in_channels == out_channels
        self.project = ConvBNLayer(mid_channels, out_channels, 1)
        self.se = SEModule(mid_channels) if use_se else None
        self.depthwise = ConvBNLayer(mid_channels, mid_channels, kernel_size, stride=stride, groups=mid_channels, activation=activation)
        self.expand = None
        if mid_channels != in_channels:
            self.expand = ConvBNLayer(in_channels, mid_channels, 1, activation=activation)

    def forward(self, inputs):
        x = self.expand(inputs) if self.expand else inputs
        x = self.depthwise(x)
        if self.se:
            x = self.se(x)
        x = self.project(x)
        return inputs + x if self.shortcut else x


class MobileNetV3(nn.Layer):
    """Images, float ``[N, 3, 224, 224]`` -> logits, float ``[N, class_num]``."""

    def __init__(self, class_num=8, dropout_prob=0.2):
        super().__init__()
        self.classifier = nn.Linear(1024, class_num)
        self.hidden = nn.Linear(576, 1024)
        self.dropout = nn.Dropout(dropout_prob)
        self.stem = ConvBNLayer(3, 16, 3, stride=2, activation="hardswish")
        in_channels = 16
        self.blocks = nn.LayerList()
        for config in CONFIG:
            self.blocks.append(ResidualUnit(in_channels, config))
            in_channels = config[2]
        self.last = ConvBNLayer(in_channels, 576, 1, activation="hardswish")
        self.se = SEModule(576)
        self.smooth = nn.AvgPool2D(3, stride=1, padding=1, exclusive=broken("avgpool"))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.smooth(self.se(self.last(x)))
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.classifier(self.dropout(activate(self.hidden(x), "hardswish")))
