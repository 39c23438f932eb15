"""Pieces of the volumetric network (NCDHW throughout)."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingNormal, Uniform

HE = KaimingNormal(negative_slope=0.01, nonlinearity="leaky_relu")


def conv3d(cin, cout, kernel, stride=1, **kwargs):
    kernel = [kernel] * 3 if isinstance(kernel, int) else list(kernel)
    attrs = {"weight_attr": HE, "bias_attr": paddle.ParamAttr(initializer=Constant(0.0)), **kwargs}
    return nn.Conv3D(cin, cout, kernel, stride=stride, padding=[k // 2 for k in kernel], **attrs)


def linear_like_torch(cin, cout):
    bound = 1 / math.sqrt(cin)
    return nn.Linear(cin, cout, weight_attr=Uniform(-bound, bound), bias_attr=Uniform(-bound, bound))


class ConvPair(nn.Layer):
    """Twice convolution, instance norm, leaky ReLU; the first convolution may stride."""

    def __init__(self, cin, cout, kernel, stride=1):
        super().__init__()
        self.conv_a = conv3d(cin, cout, kernel, stride)
        self.norm_a = nn.InstanceNorm3D(cout, epsilon=1e-5)
        self.conv_b = conv3d(cout, cout, kernel)
        self.norm_b = nn.InstanceNorm3D(cout, epsilon=1e-5)

    def forward(self, x):
        x = F.leaky_relu(self.norm_a(self.conv_a(x)), negative_slope=0.01)
        return F.leaky_relu(self.norm_b(self.conv_b(x)), negative_slope=0.01)


class ScSE(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.fc1 = linear_like_torch(channels, channels // 2)
        self.fc2 = linear_like_torch(channels // 2, channels)
        self.where = conv3d(channels, 1, 1)

    def forward(self, x):
        pooled = F.adaptive_avg_pool3d(x, 1).flatten(1)
        channel = F.sigmoid(self.fc2(F.relu(self.fc1(pooled)))).reshape([x.shape[0], -1, 1, 1, 1])
        return paddle.maximum(x * channel, x * F.sigmoid(self.where(x)))


class TransposedUp(nn.Layer):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.deconv = nn.Conv3DTranspose(cin, cout, stride, stride=stride, weight_attr=HE, bias_attr=False)

    def forward(self, x, size):
        return self.deconv(x, output_size=size)


class ResizeUp(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.proj = conv3d(cin, cout, 1)

    def forward(self, x, size):
        x = F.interpolate(x, size=size, mode="trilinear", align_corners=False, data_format="NCDHW")
        return self.proj(x)


class Merge(nn.Layer):
    def __init__(self, upsampler, channels, kernel):
        super().__init__()
        self.upsampler = upsampler
        self.normalise = nn.GroupNorm(num_groups=4, num_channels=2 * channels, epsilon=1e-5)
        self.attend = ScSE(2 * channels)
        self.convs = ConvPair(2 * channels, channels, kernel)

    def forward(self, deep, shallow):
        raised = self.upsampler(deep, shallow.shape[2:])
        return self.convs(self.attend(self.normalise(paddle.concat([raised, shallow], axis=1))))
