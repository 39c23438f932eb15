import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.gn1 = nn.GroupNorm(4, planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.gn2 = nn.GroupNorm(4, planes)
        self.downsample = None
        if stride != 1 or in_planes != planes:
            self.downsample = nn.Sequential(
                nn.AvgPool2d(3, stride, 1), nn.Conv2d(in_planes, planes, 1, bias=False), nn.GroupNorm(4, planes)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.gn1(self.conv1(x)))
        out = self.gn2(self.conv2(out))
        return F.relu(out + identity)


class GeM(nn.Module):
    """Generalised mean pooling with a learnt exponent."""

    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.ones(1) * p)
        self.eps = eps

    def forward(self, x):
        x = x.clamp(min=self.eps).pow(self.p)
        return F.avg_pool2d(x, (x.size(-2), x.size(-1))).pow(1.0 / self.p).flatten(1)


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, 1, 1, bias=False)
        self.norm = nn.GroupNorm(4, 8)
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 16, stride=2)
        self.layer3 = BasicBlock(16, 32, stride=2)
        self.pool = GeM()
        self.mlp = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ELU(), nn.Linear(32, dim))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.Linear):
                nn.init.trunc_normal_(m.weight, std=0.1)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return F.normalize(self.mlp(self.pool(x)), dim=1)
