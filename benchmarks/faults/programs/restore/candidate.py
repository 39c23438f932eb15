"""The port to Paddle of the network that restores pictures."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH = 16


class ChannelAttention(nn.Layer):
    """Channels weighted by a one-dimensional convolution over their means."""

    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([1, 1, 3])
        self.bias = self.create_parameter([1], is_bias=True)

    def forward(self, x):
        y = F.adaptive_avg_pool2d(x, 1).flatten(1)
        y = F.conv1d(y.unsqueeze(1), self.weight, self.bias, padding=1)
        y = F.sigmoid(y).transpose([0, 2, 1])
        return x * y.unsqueeze(-1)


class Dense(nn.Layer):
    """Dilated convolutions, each of all that came before it."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.attention = ChannelAttention()
        self.fuse = nn.Conv2D(width + 3 * half, width, 1)
        self.norm = nn.GroupNorm(2, half)
        self.conv1 = nn.Conv2D(width, half, 3, padding=1)
        self.conv2 = nn.Conv2D(width + half, half, 3, padding=2, dilation=2)
        self.conv3 = nn.Conv2D(width + 2 * half, half, 3, padding=4, dilation=4)

    def forward(self, x):
        one = F.elu(self.norm(self.conv1(x)))
        two = F.elu(self.norm(self.conv2(paddle.concat([x, one], axis=1))))
        three = F.elu(self.norm(self.conv3(paddle.concat([x, one, two], axis=1))))
        y = self.fuse(paddle.concat([x, one, two, three], axis=1))
        y = self.attention(y)
        return paddle.add(x, paddle.scale(y, 0.2))


def down(inner, outer, stride=2, epsilon=1e-3):
    return nn.Sequential(
        nn.Pad2D(1, mode="reflect"),
        nn.Conv2D(inner, outer, 3, stride=stride),
        nn.InstanceNorm2D(outer, epsilon=epsilon),
        nn.PReLU(outer),
    )


class Restorer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LayerList([down(WIDTH, 2 * WIDTH), down(2 * WIDTH, 4 * WIDTH)])
        self.enter = nn.Conv2D(3, WIDTH, 5, padding=2, padding_mode="circular")
        self.leave = nn.Conv2D(WIDTH, 3, 3, padding=1)
        self.up1 = nn.Conv2D(4 * WIDTH, 8 * WIDTH, 3, padding=1)
        self.up2 = nn.Conv2DTranspose(2 * WIDTH, WIDTH, 3, stride=2, padding=1, output_padding=1)
        self.join = nn.Conv2D(4 * WIDTH, 2 * WIDTH, 3, padding=1, groups=4)
        self.dense = Dense(4 * WIDTH)

    def blurred(self, x):
        height, width = x.shape[2:]
        x = F.interpolate(x, size=[height // 2, width // 2], mode="bilinear", align_corners=False)
        return F.interpolate(x, size=[height, width], mode="bicubic", align_corners=True)

    def enlarged(self, x):
        x = F.pixel_shuffle(self.up1(x), 2)
        return F.leaky_relu(x, negative_slope=0.1)

    def smoothed(self, x):
        x = F.pad(x, [0, 1, 0, 1], mode="replicate")
        return F.avg_pool2d(x, kernel_size=2, stride=1)

    def forward(self, x):
        first = F.softplus(self.enter(x), beta=2)
        second = self.encoder[0](first)
        y = self.encoder[1](second)
        y = self.enlarged(self.dense(y))
        y = paddle.concat([y, second], axis=1)
        y = self.join(y)
        y = F.mish(y)
        strength = first.max(axis=1, keepdim=True)
        y = self.smoothed(self.up2(y) * strength)
        y = F.normalize(y, axis=1)
        detail = F.tanh(self.leave(y))
        return paddle.clip(self.blurred(x) + detail, -2.0, 2.0)


def build_model():
    return Restorer()


def loss(outputs, labels):
    near = paddle.sqrt(paddle.square(outputs - labels) + 1e-6)
    flat = paddle.abs(outputs[:, :, :, 1:] - outputs[:, :, :, :-1]).mean()
    flat = flat + paddle.abs(outputs[:, :, 1:] - outputs[:, :, :-1]).mean()
    return near.mean() + 0.05 * flat
