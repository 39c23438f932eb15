import paddle
import paddle.nn.functional as F
from paddle import nn


def conv_reflect(i, o, k=3):
    return nn.Conv2D(i, o, k, padding=k // 2, padding_mode="reflect")


def moments(f):
    """mean and deviation of every channel"""
    return f.mean(axis=[2, 3], keepdim=True), paddle.sqrt(paddle.var(f, axis=[2, 3], unbiased=True, keepdim=True) + 1e-5)


class Perceptual(nn.Layer):
    def __init__(self):
        super().__init__()
        self.colour = nn.Conv2D(3, 3, 1)
        self.c1 = conv_reflect(3, 8)
        self.c2 = conv_reflect(8, 8)
        self.c3 = conv_reflect(8, 12)
        for p in self.parameters():
            p.stop_gradient = True

    def forward(self, x):
        a = F.relu(self.c1(self.colour(x)))
        b = F.relu(self.c2(a))
        c = F.relu(self.c3(F.max_pool2d(b, kernel_size=2, stride=2, ceil_mode=True)))
        return a, b, c


class Painter(nn.Layer):
    def __init__(self, c=12):
        super().__init__()
        self.last = conv_reflect(8, 3, 5)
        self.norm = nn.GroupNorm(num_groups=2, num_channels=8)
        self.grow = conv_reflect(c, 32)
        self.r1, self.r2 = conv_reflect(c, c), conv_reflect(c, c)
        self.i1, self.i2 = nn.InstanceNorm2D(c), nn.InstanceNorm2D(c)

    def forward(self, t):
        t = t + self.i2(self.r2(F.relu(self.i1(self.r1(t)))))
        t = F.pixel_shuffle(self.grow(t), upscale_factor=2)
        return self.last(F.leaky_relu(self.norm(t), negative_slope=0.1))


class Transfer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.painter = Painter()
        self.eye = Perceptual()

    def forward(self, content, style, alpha=0.8):
        look = self.eye(style)
        seen = self.eye(content)[2]
        (m0, d0), (m1, d1) = moments(seen), moments(look[2])
        goal = paddle.lerp(seen, (seen - m0) / d0 * d1 + m1, alpha)
        h, w = content.shape[2:]
        blurred = F.interpolate(content, size=[h // 2, w // 2], mode="bilinear")
        blurred = F.interpolate(blurred, size=[h, w], mode="bicubic")
        image = F.sigmoid(blurred + self.painter(goal))
        return {"image": image, "target": goal.detach(), "features": list(self.eye(image)), "style": list(look)}
