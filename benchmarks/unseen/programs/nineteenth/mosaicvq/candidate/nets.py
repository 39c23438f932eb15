import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal

from .codebooks import SplitCodebooks


def he(fan, std=None):
    return {"weight_attr": paddle.ParamAttr(initializer=Normal(0.0, std or math.sqrt(2.0 / fan))), "bias_attr": paddle.ParamAttr(initializer=Constant(0.01))}


def conv(a, b, k, std=None, **kw):
    return nn.Conv2D(a, b, k, **kw, **he(b * k * k, std))


class ResUnit(nn.Layer):
    def __init__(self, ch):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = conv(ch, ch, 3, padding=1)
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = conv(ch, ch, 1, std=0.02)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return self.conv2(F.silu(self.norm2(h))) + x


class Compress(nn.Layer):
    def __init__(self, latent=16):
        super().__init__()
        self.stage1 = conv(3, 24, 4, stride=2, padding=1, padding_mode="reflect")
        self.unit1 = ResUnit(24)
        self.stage2 = conv(24, 32, 4, stride=2, padding=1, padding_mode="reflect")
        self.unit2 = ResUnit(32)
        self.project = conv(32, latent, 1)

    def forward(self, x):
        x = self.unit1(self.stage1(x))
        return self.project(self.unit2(self.stage2(x)))


class Expand(nn.Layer):
    def __init__(self, latent=16):
        super().__init__()
        self.project = conv(latent, 32, 1)
        self.unit1 = ResUnit(32)
        # fan out of the reference's transposed convolution: its first axis, the inputs
        self.widen = nn.Conv2DTranspose(32, 24, 4, stride=2, padding=1, **he(32 * 16))
        self.unit2 = ResUnit(24)
        self.refine = conv(24, 16, 3, padding=1)
        self.rgb = conv(16, 3, 3, padding=1)

    def forward(self, q):
        x = self.unit2(self.widen(self.unit1(self.project(q))))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False, align_mode=0)
        return F.tanh(self.rgb(F.silu(self.refine(x))))


class VQNet(nn.Layer):
    def __init__(self, parts=2, size=24):
        super().__init__()
        self.compress = Compress()
        self.books = SplitCodebooks(16, parts, size)
        self.expand = Expand()

    def forward(self, image):
        z = self.compress(image)
        q, codes = self.books(z)
        q = q.detach()
        passed = z + (q - z).detach()
        return {"recon": self.expand(passed), "latent": z, "quant": q, "codes": codes}
