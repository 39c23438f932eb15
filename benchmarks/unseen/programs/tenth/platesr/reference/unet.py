import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from .options import OPT


class ChannelGate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, c, r):
        super().__init__()
        self.fc1 = nn.Conv2d(c, c // r, 1)
        self.fc2 = nn.Conv2d(c // r, c, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(s))))


class ResBlock(nn.Module):
    def __init__(self, c, o, dilation=1, gate=False):
        super().__init__()
        self.norm1 = nn.GroupNorm(o.groups, c, eps=o.eps)
        self.conv1 = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation, padding_mode="replicate")
        self.norm2 = nn.GroupNorm(o.groups, c, eps=o.eps)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, padding_mode="replicate")
        self.gate = ChannelGate(c, o.reduction) if gate else nn.Identity()
        self.gain = nn.Parameter(torch.full((1, c, 1, 1), 0.5))

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return x + self.gain * self.gate(h)


class AttentionGate(nn.Module):
    def __init__(self, skip, coarse, hidden, o):
        super().__init__()
        self.theta = nn.Conv2d(skip, hidden, 1, bias=False)
        self.phi = nn.Conv2d(coarse, hidden, 1)
        self.norm = nn.GroupNorm(2, hidden, eps=o.eps)
        self.psi = nn.Conv2d(hidden, 1, 1)

    def forward(self, x, g):
        g = F.interpolate(self.phi(g), size=x.shape[-2:], mode="bilinear", align_corners=False)
        a = torch.sigmoid(self.psi(F.leaky_relu(self.norm(self.theta(x) + g), 0.1)))
        return x * a


class Up(nn.Module):
    def __init__(self, cin, cout, o):
        super().__init__()
        self.grow = nn.Conv2d(cin, 4 * cout, 1)
        self.shuffle = nn.PixelShuffle(2)
        self.gate = AttentionGate(cout, cin, cout // 2, o)
        self.fuse = nn.Conv2d(2 * cout, cout, 1)
        self.block = ResBlock(cout, o)

    def forward(self, x, skip):
        up = self.shuffle(self.grow(x))
        return self.block(self.fuse(torch.cat([up, self.gate(skip, x)], 1)))


class Net(nn.Module):
    def __init__(self, o=OPT.net):
        super().__init__()
        a, b, c = o.levels
        self.scale = o.scale
        self.register_buffer("mean", torch.tensor(o.mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(o.std).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, a, 3, padding=1, padding_mode="replicate")
        self.enc1 = ResBlock(a, o)
        self.down1 = nn.Conv2d(4 * a, b, 1)
        self.enc2 = ResBlock(b, o)
        self.down2 = nn.Conv2d(4 * b, c, 1)
        self.mid = ResBlock(c, o, dilation=2, gate=True)
        self.up2 = Up(c, b, o)
        self.up1 = Up(b, a, o)
        self.tail = nn.Conv2d(a, 3 * o.scale ** 2, 3, padding=1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_uniform_(m.weight, a=0.1)
                if m.bias is not None:
                    nn.init.uniform_(m.bias, -0.05, 0.05)
        nn.init.normal_(self.tail.weight, std=0.02)

    def forward(self, lr):
        x = (lr - self.mean) / self.std
        s1 = self.enc1(self.head(x))
        s2 = self.enc2(self.down1(F.pixel_unshuffle(s1, 2)))
        m = self.mid(self.down2(F.pixel_unshuffle(s2, 2)))
        y = self.up1(self.up2(m, s2), s1)
        y = F.pixel_shuffle(self.tail(y), self.scale) * self.std
        return y + F.interpolate(lr, scale_factor=self.scale, mode="bicubic", align_corners=False)


class Restorer(nn.Module):
    """The network that is trained, and its running average."""

    def __init__(self, o=OPT.net):
        super().__init__()
        self.net = Net(o)
        self.average = copy.deepcopy(self.net).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def forward(self, lr):
        return self.net(lr)

    @torch.no_grad()
    def track(self, limit):
        self.updates += 1
        n = self.updates.item()
        decay = min(limit, (1 + n) / (10 + n))
        for slow, fast in zip(self.average.parameters(), self.net.parameters()):
            slow.mul_(decay).add_(fast, alpha=1 - decay)
        return decay
