import torch
import torch.nn.functional as F
from sr_config import CFG
from torch import nn


def conv3(cin, cout):
    return nn.Conv2d(cin, cout, 3, padding=1, padding_mode="reflect")


class Attention(nn.Sequential):
    def __init__(self, c, hidden):
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, hidden, 1), nn.LeakyReLU(0.1), nn.Conv2d(hidden, c, 1), nn.Sigmoid())

    def forward(self, x):
        return x * super().forward(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.first = conv3(c, c)
        self.norm = nn.GroupNorm(CFG.net.groups, c)
        self.film = nn.Linear(1, 2 * c)
        self.second = conv3(c, c)
        self.attend = Attention(c, CFG.net.squeeze)

    def forward(self, x, level):
        scale, shift = self.film(level)[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.norm(self.first(x)) * (1 + scale) + shift)
        return x + CFG.net.residual * self.attend(self.second(h))


class Sharpener(nn.Module):
    def __init__(self):
        super().__init__()
        c = CFG.net.width
        self.head = conv3(3, c)
        self.blocks = nn.ModuleList(Block(c) for _ in range(CFG.net.blocks))
        self.tail = conv3(c, 12)
        self.register_buffer("mean", torch.tensor(CFG.data.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(CFG.data.std).view(1, 3, 1, 1), persistent=False)
        self.apply(self._init)
        nn.init.normal_(self.tail.weight, std=0.02)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_uniform_(m.weight, a=0.1, nonlinearity="leaky_relu")
            nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.05)
            nn.init.zeros_(m.bias)

    def forward(self, low, level):
        x = self.head(low)
        skip = x
        for block in self.blocks:
            x = block(x, level)
        detail = F.pixel_shuffle(self.tail(x + skip), 2)
        base = F.interpolate(low, scale_factor=2, mode="bicubic", align_corners=False)
        return (base + detail) * self.std + self.mean
