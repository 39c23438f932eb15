import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from .layers import ConvUnit, GatedSkip, center_pad, conv, resize


class Decoder(nn.Layer):
    def __init__(self, deep, skip):
        super().__init__()
        self.squeeze = conv(deep, skip, 1)
        self.gate = GatedSkip(skip, skip)
        self.unit = ConvUnit(2 * skip, skip)

    def forward(self, x, skip):
        height, width = x.shape[2], x.shape[3]
        x = resize(x, [2 * height, 2 * width], corners=True)
        x = center_pad(self.squeeze(x), skip)
        return self.unit(paddle.concat([self.gate(x, skip), x], axis=1))


class AttentionUNet(nn.Layer):
    def __init__(self, width=8, levels=3, classes=1, drop_rate=0.1):
        super().__init__()
        channels = [width << level for level in range(levels + 1)]
        units = [ConvUnit(3, channels[0])]
        for level in range(levels):
            rate = drop_rate if level + 1 == levels else 0.0
            units.append(ConvUnit(channels[level], channels[level + 1], rate))
        self.encoder = nn.LayerList(units)
        self.decoder = nn.LayerList([Decoder(channels[i + 1], channels[i]) for i in range(levels)])
        self.classify = conv(channels[0], classes, 1, bias_value=-2.1972246)
        self.classify_half = conv(channels[1], classes, 1)

    def encode(self, image):
        features = [self.encoder[0](image)]
        for unit in self.encoder[1:]:
            features.append(unit(F.max_pool2d(features[-1], kernel_size=2, stride=2)))
        return features

    def forward(self, image):
        features = self.encode(image)
        x, half = features[-1], None
        for level in reversed(range(len(self.decoder))):
            x = self.decoder[level](x, features[level])
            if level == 1:
                half = x
        aux = resize(self.classify_half(half), image.shape[2:])
        return {"out": self.classify(x), "aux": aux}
