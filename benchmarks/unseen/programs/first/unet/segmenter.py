import paddle
import paddle.nn.functional as F
from paddle import nn


class ConvBlock(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        options = dict(kernel_size=3, padding=1, padding_mode="reflect", bias_attr=False)
        self.conv_a = nn.Conv2D(n_in, n_out, **options)
        self.norm_a = nn.BatchNorm2D(n_out, epsilon=1e-3, momentum=0.97)
        self.conv_b = nn.Conv2D(n_out, n_out, **options)
        self.norm_b = nn.BatchNorm2D(n_out, epsilon=1e-3, momentum=0.97)

    def forward(self, x):
        x = F.silu(self.norm_a(self.conv_a(x)))
        return F.silu(self.norm_b(self.conv_b(x)))


class AttentionGate(nn.Layer):
    def __init__(self, signal, skip, inner):
        super().__init__()
        self.signal = nn.Conv2D(signal, inner, 1)
        self.skip = nn.Conv2D(skip, inner, 1)
        self.weigh = nn.Conv2D(inner, 1, 1)
        self.norm = nn.InstanceNorm2D(inner, weight_attr=False, bias_attr=False)

    def forward(self, signal, skip):
        both = self.norm(self.signal(signal)) + self.norm(self.skip(skip))
        return skip * F.sigmoid(self.weigh(F.relu(both)))


class Merge(nn.Layer):
    """enlarges the coarse map to the size of the fine one, gates the fine one and joins both"""

    def __init__(self, coarse, fine, inner, out):
        super().__init__()
        self.gate = AttentionGate(coarse, fine, inner)
        self.block = ConvBlock(coarse + fine, out)

    def forward(self, coarse, fine):
        coarse = F.interpolate(coarse, size=fine.shape[2:], mode="bilinear", align_corners=False)
        return self.block(paddle.concat([self.gate(coarse, fine), coarse], axis=1))


class Segmenter(nn.Layer):
    def __init__(self, base, classes):
        super().__init__()
        self.level0 = ConvBlock(3, base)
        self.level1 = ConvBlock(base, 2 * base)
        self.level2 = ConvBlock(2 * base, 2 * base)
        self.auxiliary = nn.Conv2D(2 * base, classes, 1)
        self.merge1 = Merge(2 * base, 2 * base, base, base)
        self.merge0 = Merge(base, base, 4, base)
        self.dropout = nn.Dropout2D(0.1)
        self.classify = nn.Conv2D(base, classes, 1)

    def forward(self, image):
        fine = self.level0(image)
        middle = self.level1(F.max_pool2d(fine, 2, ceil_mode=True))
        coarse = self.level2(F.max_pool2d(middle, 2))
        y = self.merge0(self.merge1(coarse, middle), fine)
        aux = self.auxiliary(coarse)
        return {
            "out": self.classify(self.dropout(y)),
            "aux": F.interpolate(aux, size=image.shape[2:], mode="bilinear", align_corners=True),
        }
