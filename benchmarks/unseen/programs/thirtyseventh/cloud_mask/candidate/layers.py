import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class SpectralConv(nn.Layer):
    def __init__(self, c_in, c_out, k, groups=1):
        super().__init__()
        self.weight = self.create_parameter([c_out, c_in // groups, k, k],
                                            default_initializer=nn.initializer.KaimingNormal())
        self.bias = self.create_parameter([c_out], is_bias=True)
        self.register_buffer("u", F.normalize(paddle.randn([c_out]), axis=0))
        self._conf = dict(padding=k // 2, groups=groups)

    def normalised(self):
        mat = self.weight.reshape([self.weight.shape[0], -1])
        with paddle.no_grad():
            u = self.u
            for _ in range(2):
                v = paddle.mv(mat.t(), u)
                v = v / paddle.clip(paddle.sqrt((v * v).sum()), min=1e-12)
                u = paddle.mv(mat, v)
                u = u / paddle.clip(paddle.sqrt((u * u).sum()), min=1e-12)
            if self.training:
                self.u.set_value(u)
        return self.weight / (u * paddle.mv(mat, v)).sum()

    def forward(self, x):
        return F.conv2d(x, self.normalised(), self.bias, **self._conf)


def unit(c_in, c_out, groups=1):
    return nn.Sequential(
        ("conv", SpectralConv(c_in, c_out, 3, groups)),
        ("norm", nn.InstanceNorm2D(c_out)),
        ("act", nn.PReLU(c_out)),
    )


class Squeeze(nn.Layer):
    """A gate from a 2 by 3 summary of every channel."""

    def __init__(self, c):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D((2, 3))
        self.fc = nn.Linear(6 * c, c)

    def forward(self, x):
        g = F.sigmoid(self.fc(self.pool(x).flatten(1)))
        return x * g.reshape([x.shape[0], -1, 1, 1])


def double(c_in, c_out, groups):
    return nn.Sequential(unit(c_in, c_out), unit(c_out, c_out, groups), Squeeze(c_out))


class Decoder(nn.Layer):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.up = nn.Conv2DTranspose(c_in, c_out, 3, stride=2, padding=1, output_padding=1)
        self.body = double(2 * c_out, c_out, 1)

    def forward(self, deep, skip):
        deep = self.up(deep)
        if list(deep.shape[2:]) != list(skip.shape[2:]):
            deep = F.interpolate(deep, size=skip.shape[2:], mode="bilinear", align_corners=False, align_mode=0)
        return self.body(paddle.concat([deep, skip], axis=1))
