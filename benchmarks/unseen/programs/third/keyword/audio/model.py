import torch
import torch.nn.functional as F
from torch import nn

from .features import LogMel


class DSBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False)
        self.bn1 = nn.BatchNorm2d(cin)
        self.pw = nn.Conv2d(cin, cout, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        y = F.relu6(self.bn1(self.dw(x)))
        y = self.bn2(self.pw(y))
        if self.skip:
            y = y + x
        return F.hardswish(y)


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.fc1 = nn.Conv2d(c, c // r, 1)
        self.fc2 = nn.Conv2d(c // r, c, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(s))))


class AttentivePool(nn.Module):
    """weighted mean and standard deviation over time"""

    def __init__(self, c, h=12):
        super().__init__()
        self.a = nn.Linear(c, h)
        self.b = nn.Linear(h, 1)

    def forward(self, x):
        w = torch.softmax(self.b(torch.tanh(self.a(x))), dim=1)
        mu = (w * x).sum(1)
        var = (w * x ** 2).sum(1) - mu ** 2
        return torch.cat([mu, var.clamp(min=1e-5).sqrt()], 1)


class KeywordEncoder(nn.Module):
    def __init__(self, widths=(12, 16, 24), dim=16, **mel):
        super().__init__()
        a, b, c = widths
        self.mel = LogMel(**mel)
        self.stem = nn.Sequential(nn.Conv2d(1, a, (5, 3), stride=(2, 1), padding=(2, 1), bias=False), nn.BatchNorm2d(a), nn.ReLU())
        self.blocks = nn.Sequential(DSBlock(a, b, 1), DSBlock(b, b, 1), nn.AvgPool2d(3, 2, 1), DSBlock(b, c, 1))
        self.se = SqueezeExcite(c)
        self.pool = AttentivePool(c)
        self.proj = nn.Linear(2 * c, dim)

    def forward(self, wave):
        x = self.mel(wave).unsqueeze(1)
        x = self.se(self.blocks(self.stem(x)))
        x = x.mean(2).transpose(1, 2)
        return F.normalize(self.proj(self.pool(x)), dim=-1)


class Siamese(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        return {"za": za, "zb": zb, "distance": F.pairwise_distance(za, zb, eps=1e-6)}
