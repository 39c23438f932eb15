import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .plugin import part
from .starts import conv, dense


@part("body", "gated")
class Gated(nn.Layer):
    """Gated dilated convolution; the channels are weighted before the residual sum."""

    def __init__(self, planes, dilation, ratio):
        super().__init__()
        self.planes = planes
        self.reach = dilation
        self.norm = nn.GroupNorm(4, planes, epsilon=1e-5)
        self.conv = conv(planes, 2 * planes, 3, dilation=dilation)
        self.mix = conv(planes, planes, 1)
        self.squeeze = nn.Sequential(
            dense(2 * planes, planes // ratio), nn.ReLU(), dense(planes // ratio, planes), nn.Sigmoid())
        self.scale = self.create_parameter([planes], default_initializer=I.Constant(0.3))

    def forward(self, x):
        y = F.pad(self.norm(x), [self.reach, self.reach], mode="replicate", data_format="NCL")
        signal, gate = paddle.split(self.conv(y), 2, axis=1)
        y = self.mix(F.tanh(signal) * F.sigmoid(gate))
        weights = self.squeeze(paddle.concat([y.mean(axis=-1), y.max(axis=-1)], axis=-1))
        return x + y * (self.scale * weights).unsqueeze(-1)


def neighbours(x):
    """Mean over windows of three with stride two; the pad before the first place is not counted."""
    length = x.shape[-1]
    wide = F.pad(x, [1, 1], data_format="NCL")
    total = wide[:, :, 0:length:2] + wide[:, :, 1:length + 1:2] + wide[:, :, 2:length + 2:2]
    share = paddle.full([length // 2], 1.0 / 3.0, dtype=x.dtype)
    share[0] = 0.5
    return total * share


@part("body", "halve")
class Halve(nn.Layer):
    def __init__(self, cin, planes, groups):
        super().__init__()
        self.planes = planes
        self.conv = conv(cin, planes, 4, stride=2, padding=1)
        self.skip = conv(cin, planes, 1, bias=False)
        self.norm = nn.GroupNorm(groups, planes, epsilon=1e-5)

    def forward(self, x):
        short = neighbours(x)
        return F.gelu(self.norm(self.conv(x)) + self.skip(short), approximate=True)


@part("pool", "knee_pool")
class KneePool(nn.Layer):
    def __init__(self, planes, heads, sharpness):
        super().__init__()
        self.split = [heads, planes // heads]
        self.sharpness = sharpness
        self.key = conv(planes, planes, 1)
        self.query = self.create_parameter(self.split, default_initializer=I.Normal(0.0, 0.2))
        self.slope = self.create_parameter(
            [heads], default_initializer=I.Assign(paddle.linspace(0.5, 2.0, heads)))

    def forward(self, x, power):
        length = x.shape[-1]
        place = paddle.linspace(0.0, 1.0, length, dtype=x.dtype)
        knee = paddle.matmul(F.softmax(power * self.sharpness, axis=-1), place)
        keys = self.key(x).reshape([-1, *self.split, length])
        score = (keys * self.query.unsqueeze(-1)).sum(axis=2) * self.split[1] ** -0.5
        away = paddle.abs(place - knee.unsqueeze(-1))
        score = score - self.slope.reshape([1, -1, 1]) * away.unsqueeze(1)
        weight = F.softmax(score, axis=-1).unsqueeze(2)
        value = x.reshape([-1, *self.split, length])
        mean = (weight * value).sum(axis=-1, keepdim=True)
        var = (weight * (value - mean).square()).sum(axis=-1)
        spread = var.clip(min=1e-4).sqrt()
        return paddle.concat([mean.flatten(1), spread.flatten(1)], axis=1), knee
