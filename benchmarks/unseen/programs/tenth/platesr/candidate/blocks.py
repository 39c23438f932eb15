import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingUniform, Uniform


def conv(cin, cout, k=1, dilation=1, replicate=True, bias=True, weight_init=None):
    weight_init = weight_init or KaimingUniform(negative_slope=0.1, nonlinearity="leaky_relu")
    return nn.Conv2D(
        cin, cout, k,
        padding=dilation * (k // 2),
        dilation=dilation,
        padding_mode="replicate" if replicate and k > 1 else "zeros",
        weight_attr=paddle.ParamAttr(initializer=weight_init),
        bias_attr=paddle.ParamAttr(initializer=Uniform(-0.05, 0.05)) if bias else False,
    )


def group_norm(channels, groups=4):
    return nn.GroupNorm(groups, channels, epsilon=1e-6)


class SELayer(nn.Layer):
    def __init__(self, channels, reduction=4):
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2D(1)
        self.fc1 = conv(channels, channels // reduction)
        self.fc2 = conv(channels // reduction, channels)

    def forward(self, x):
        w = F.silu(self.fc1(self.squeeze(x)))
        return F.sigmoid(self.fc2(w)) * x


class Residual(nn.Layer):
    def __init__(self, channels, dilation=1, attention=False):
        super().__init__()
        body = [
            group_norm(channels), nn.Silu(), conv(channels, channels, 3, dilation=dilation),
            group_norm(channels), nn.Silu(), conv(channels, channels, 3),
        ]
        if attention:
            body.append(SELayer(channels))
        self.body = nn.Sequential(*body)
        self.gain = self.create_parameter([1, channels, 1, 1], default_initializer=Constant(0.5))

    def forward(self, x):
        return paddle.add(x, self.gain * self.body(x))


class SkipAttention(nn.Layer):
    def __init__(self, skip_channels, gate_channels):
        super().__init__()
        inner = skip_channels // 2
        self.theta = conv(skip_channels, inner, bias=False)
        self.phi = conv(gate_channels, inner)
        self.norm = group_norm(inner, groups=2)
        self.psi = conv(inner, 1)

    def forward(self, skip, gate):
        gate = F.interpolate(self.phi(gate), size=skip.shape[2:], mode="bilinear", align_corners=False)
        q = F.leaky_relu(self.norm(self.theta(skip) + gate), negative_slope=0.1)
        return skip * F.sigmoid(self.psi(q))


class Decoder(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.expand = nn.Sequential(conv(cin, cout * 4), nn.PixelShuffle(2))
        self.attention = SkipAttention(cout, cin)
        self.reduce = conv(cout * 2, cout)
        self.res = Residual(cout)

    def forward(self, low, skip):
        x = paddle.concat([self.expand(low), self.attention(skip, low)], axis=1)
        return self.res(self.reduce(x))
