import torch
import torch.nn as nn
import torch.nn.functional as F


class SNConv2d(nn.Conv2d):
    """A convolution divided by its largest singular value: one power iteration a call in train mode."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.register_buffer("u", F.normalize(torch.randn(self.out_channels), dim=0))

    def normalised(self):
        w = self.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(w.t() @ self.u, dim=0)
            u = F.normalize(w @ v, dim=0)
            if self.training:
                self.u.copy_(u)
        return self.weight / torch.dot(u, w @ v)

    def forward(self, x):
        return self._conv_forward(x, self.normalised(), self.bias)


class Unit(nn.Module):
    def __init__(self, cin, cout, k=3, stride=1, groups=1):
        super().__init__()
        self.conv = SNConv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False)
        self.norm = nn.InstanceNorm2d(cout, affine=True)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


class Residual(nn.Module):
    def __init__(self, cin, cout, stride, groups):
        super().__init__()
        self.squeeze = Unit(cin, cout, 1)
        self.spread = Unit(cout, cout, 3, stride, groups)
        self.expand = nn.Sequential(SNConv2d(cout, cout, 1, bias=False), nn.InstanceNorm2d(cout))
        self.short = nn.Sequential(nn.AvgPool2d(stride, ceil_mode=True), nn.Conv2d(cin, cout, 1))

    def forward(self, x):
        return F.leaky_relu(self.expand(self.spread(self.squeeze(x))) + self.short(x), 0.1)


class Pyramid(nn.Module):
    def __init__(self, width, bins=(1, 2)):
        super().__init__()
        self.bins = bins
        self.convs = nn.ModuleList([nn.Conv2d(width, width // 4, 1) for _ in bins])

    def forward(self, x):
        out = [x]
        for size, conv in zip(self.bins, self.convs):
            y = F.relu(conv(F.adaptive_avg_pool2d(x, size)))
            out.append(F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False))
        return torch.cat(out, 1)


class ChangeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Unit(3, 12, 3, 2)
        self.deep = Residual(12, 16, 2, 4)
        self.pyramid = Pyramid(32)
        self.lift = nn.Sequential(nn.Conv2d(48, 32, 1), nn.PixelShuffle(2))
        self.fuse = Unit(20, 12)
        self.head = nn.Conv2d(12, 1, 3, padding=1)
        nn.init.constant_(self.head.bias, -1.0)

    def encode(self, x):
        fine = self.stem(x)
        return fine, self.deep(fine)

    def forward(self, before, after):
        fine_a, deep_a = self.encode(before)
        fine_b, deep_b = self.encode(after)
        deep = self.pyramid(torch.cat([(deep_a - deep_b).abs(), deep_a * deep_b], 1))
        fine = self.fuse(torch.cat([self.lift(deep), (fine_a - fine_b).abs()], 1))
        fine = F.interpolate(fine, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(fine).squeeze(1)
