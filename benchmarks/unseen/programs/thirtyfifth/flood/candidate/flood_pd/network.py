import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant

from .layers import ConvINAct, GroupedResidual, plain_conv


class PyramidPool(nn.Layer):
    def __init__(self, ch, sizes):
        super().__init__()
        self.stages = nn.LayerList([nn.Sequential(nn.AdaptiveAvgPool2D(s), plain_conv(ch, ch // 4), nn.ReLU())
                                    for s in sizes])

    def forward(self, x):
        hw = x.shape[2:]
        return paddle.concat([x] + [F.interpolate(s(x), hw, mode="bilinear") for s in self.stages], axis=1)


class FloodNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = ConvINAct(3, 12, 3, stride=2)
        self.deep = GroupedResidual(12, 16, stride=2, groups=4)
        self.pyramid = PyramidPool(32, (1, 2))
        self.lift = plain_conv(48, 32)
        self.fuse = ConvINAct(20, 12)
        self.head = plain_conv(12, 1, 3, bias=Constant(-1.0), padding=1)

    def forward(self, before, after):
        f0, f1 = self.stem(before), self.stem(after)
        d0, d1 = self.deep(f0), self.deep(f1)
        context = self.pyramid(paddle.concat([paddle.abs(d0 - d1), paddle.multiply(d0, d1)], axis=1))
        up = F.pixel_shuffle(self.lift(context), 2)
        y = self.fuse(paddle.concat([up, paddle.abs(f0 - f1)], axis=1))
        y = F.interpolate(y, scale_factor=[2, 2], mode="bilinear", align_corners=False)
        return self.head(y)[:, 0]


class WithEMA(nn.Layer):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay
        self.net = FloodNet()
        self.shadow = FloodNet()
        self.shadow.set_state_dict(self.net.state_dict())
        for p in self.shadow.parameters():
            p.trainable = False
        self.register_buffer("updates", paddle.zeros([], dtype="int64"))

    def forward(self, before, after):
        return self.net(before, after)

    @paddle.no_grad()
    def update_shadow(self):
        self.updates.set_value(self.updates + 1)
        n = int(self.updates)
        d = min(self.decay, (n + 1) / (n + 10))
        live = self.net.state_dict()
        trained = {name for name, _ in self.net.named_parameters()}
        for name, value in self.shadow.state_dict().items():
            value.set_value(d * value + (1 - d) * live[name] if name in trained else live[name])
