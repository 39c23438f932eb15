import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, TruncatedNormal


def conv_norm(inner, outer, kernel, stride=1):
    he = Normal(0.0, (2.0 / (outer * kernel * kernel)) ** 0.5)
    return nn.Sequential(
        nn.Conv2D(inner, outer, kernel, stride, kernel // 2, weight_attr=paddle.ParamAttr(initializer=he), bias_attr=False),
        nn.GroupNorm(num_groups=4, num_channels=outer, epsilon=1e-5),
    )


class Residual(nn.Layer):
    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.body = nn.Sequential(conv_norm(inner, outer, 3, stride), nn.ReLU(), conv_norm(outer, outer, 3))
        self.stride = stride
        self.project = conv_norm(inner, outer, 1) if inner != outer else None

    def shortcut(self, x):
        if self.stride > 1:
            x = F.avg_pool2d(x, 3, stride=self.stride, padding=1, exclusive=False)
        return x if self.project is None else self.project(x)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class PowerMean(nn.Layer):
    def __init__(self, power=3.0):
        super().__init__()
        self.power = self.create_parameter([1], default_initializer=Constant(power))

    def forward(self, x, least=1e-6):
        x = paddle.clip(x, min=least)
        return paddle.pow(paddle.pow(x, self.power).mean(axis=[2, 3]), 1.0 / self.power)


class Embedder(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.trunk = nn.Sequential(
            conv_norm(1, 8, 3), nn.ReLU(), Residual(8, 8), Residual(8, 16, stride=2), Residual(16, 32, stride=2)
        )
        self.pool = PowerMean()
        narrow = paddle.ParamAttr(initializer=TruncatedNormal(std=0.1, a=-2.0, b=2.0))
        self.hidden = nn.Linear(32, 32, weight_attr=narrow)
        self.hidden_norm = nn.LayerNorm(32, epsilon=1e-5)
        self.out = nn.Linear(32, size, weight_attr=narrow)

    def forward(self, picture):
        x = self.pool(self.trunk(picture))
        x = self.out(F.elu(self.hidden_norm(self.hidden(x))))
        return unit(x)


def unit(x, axis=-1):
    """Vectors of length one."""
    return x / paddle.clip(paddle.linalg.norm(x, axis=axis, keepdim=True), min=1e-12)
