"""The port to Paddle of the segmentation network."""

import paddle
from paddle import nn
from paddle.nn import functional as F

CLASSES = 5


class Stage(nn.Layer):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv1 = nn.Conv2D(inner, outer, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, outer)
        self.conv2 = nn.Conv2D(outer, outer, 3, padding=2, dilation=2)
        self.norm2 = nn.GroupNorm(4, outer)

    def forward(self, x):
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.1)
        return F.leaky_relu(self.norm2(self.conv2(x)), 0.1)


def warp(x, flow):
    height, width = x.shape[2:]
    rows = paddle.linspace(-1, 1, height, dtype=x.dtype)
    columns = paddle.linspace(-1, 1, width, dtype=x.dtype)
    grid = paddle.stack([columns.unsqueeze(0).expand([height, width]), rows.unsqueeze(1).expand([height, width])], -1)
    grid = grid.unsqueeze(0) + flow.transpose([0, 2, 3, 1])
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


class UNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down1 = Stage(3, 8)
        self.down2 = Stage(8, 16)
        self.bottom = Stage(16, 24)
        self.up2 = nn.Conv2DTranspose(24, 16, 3, stride=2, padding=1, output_padding=1)
        self.merge2 = Stage(32, 16)
        self.merge1 = Stage(24, 8)
        self.flow = nn.Conv2D(8, 2, 3, padding=1)
        self.head = nn.Conv2D(8, CLASSES, 1)
        self.coarse = nn.Conv2D(24, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.avg_pool2d(b, 2))
        coarse = F.interpolate(self.coarse(c), size=x.shape[2:], mode="bilinear", align_corners=False)
        c = self.up2(c)
        b = self.merge2(paddle.concat([c, b], 1))
        b = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=True)
        a = self.merge1(paddle.concat([b, a], 1))
        a = a / (a.square().sum([2, 3], keepdim=True).sqrt() + 1e-6) * 30
        edges = F.pad(a, [1, 1, 1, 1], mode="reflect")
        a = a + (edges[:, :, 2:, 1:-1] - edges[:, :, :-2, 1:-1]).abs()
        flow = 0.2 * paddle.tanh(self.flow(a))
        a = warp(a, flow)
        return self.head(a) + 0.4 * coarse, flow


def build_model():
    return UNet()


def loss(outputs, labels):
    logits, flow = outputs
    chances = F.softmax(logits, 1)
    wanted = F.one_hot(labels, CLASSES).transpose([0, 3, 1, 2]).astype(chances.dtype)
    overlap = (chances * wanted).sum([0, 2, 3])
    total = (chances + wanted).sum([0, 2, 3])
    dice = 1 - ((2 * overlap + 1) / (total + 1)).mean()
    weights = paddle.to_tensor([1.0, 1.5, 0.5, 1.0, 2.0], dtype=logits.dtype)
    entropy = F.cross_entropy(logits, labels, weight=weights, axis=1)
    change = flow[:, :, 1:] - flow[:, :, :-1]
    near = 0.5 * change * change / 0.01
    smooth = paddle.where(change.abs() < 0.01, near, change.abs() - 0.005).mean()
    return entropy + dice + smooth


def build_optimizer(model):
    schedule = paddle.optimizer.lr.PolynomialDecay(0.02, decay_steps=8, end_lr=0.0, power=0.9)
    return paddle.optimizer.Momentum(schedule, momentum=0.9, parameters=model.parameters())
