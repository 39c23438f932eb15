import paddle.nn.functional as F
from paddle import nn


def conv_bn(n_in, n_out, **kw):
    return nn.Sequential(nn.Conv2D(n_in, n_out, 3, padding=1, bias_attr=False, **kw), nn.BatchNorm2D(n_out), nn.ReLU())


class Squeeze(nn.Layer):
    def __init__(self, width, inner):
        super().__init__()
        self.reduce = nn.Conv2D(width, inner, 1)
        self.expand = nn.Conv2D(inner, width, 1)

    def forward(self, x):
        s = F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.expand(s))


class Unit(nn.Layer):
    def forward(self, x):
        return F.normalize(x, p=2, axis=-1)


def encoder(width, features):
    return nn.Sequential(
        conv_bn(3, width, stride=2),
        conv_bn(width, 2 * width, groups=2),
        nn.AvgPool2D(3, stride=2, padding=1, exclusive=False),
        Squeeze(2 * width, 4),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(2 * width, 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, features),
        Unit(),
    )
