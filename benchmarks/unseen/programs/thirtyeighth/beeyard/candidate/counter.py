"""The whole network."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal

from .halve import Halve
from .standard import StandardConv
from .starts import conv_starts
from .surroundings import Surroundings


def leaky(x):
    return F.leaky_relu(x, negative_slope=0.125)


class Block(nn.Layer):
    def __init__(self, channels, dilation):
        super().__init__()
        self.share = self.create_parameter([1], default_initializer=Constant(0.2))
        self.norm_in = nn.GroupNorm(4, channels)
        self.conv_in = StandardConv(channels, channels, 3, dilation)
        self.norm_out = nn.GroupNorm(4, channels)
        self.conv_out = StandardConv(channels, channels, 3)

    def forward(self, x):
        inner = self.conv_in(leaky(self.norm_in(x)))
        return x + self.share * self.conv_out(leaky(self.norm_out(inner)))


class Counter(nn.Layer):
    def __init__(self, channels=16):
        super().__init__()
        half = channels // 2
        self.first = StandardConv(3, half, 5)
        self.first_half = Halve(half)
        self.second = StandardConv(half, channels, 3)
        self.second_half = Halve(channels)
        self.blocks = nn.Sequential(*[Block(channels, dilation) for dilation in (1, 2, 3)])
        self.surroundings = Surroundings(channels)
        self.drop = nn.Dropout2D(0.1)
        self.to_density = nn.Conv2D(
            channels, 4, 3, padding=1, weight_attr=Normal(0.0, 0.01), bias_attr=Constant(-3.0)
        )
        self.to_mask = nn.Conv2DTranspose(channels, 1, 4, stride=2, padding=1, **conv_starts(1, 4))

    def forward(self, image):
        x = self.first_half(leaky(self.first(image)))
        x = self.second_half(leaky(self.second(x)))
        x = self.drop(self.surroundings(self.blocks(x)))
        density = F.softplus(F.pixel_shuffle(self.to_density(x), 2))
        return paddle.concat([density, self.to_mask(x)], axis=1)
