import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNorm(nn.Sequential):
    def __init__(self, cin, cout, kernel, stride=1, dilation=1, groups=1):
        pad = dilation * (kernel - 1) // 2
        super().__init__(
            nn.Conv1d(cin, cout, kernel, stride, pad, dilation, groups, bias=False),
            nn.BatchNorm1d(cout),
        )


class SqueezeExcite(nn.Module):
    def __init__(self, channels, ratio):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // ratio)
        self.fc2 = nn.Linear(channels // ratio, channels)

    def forward(self, x):
        s = x.mean(dim=2)
        s = F.hardsigmoid(self.fc2(F.relu(self.fc1(s))))
        return x * s.unsqueeze(-1)


class StatsPool(nn.Module):
    def forward(self, x):
        mean = x.mean(dim=2)
        var = x.var(dim=2, unbiased=False)
        return torch.cat([mean, torch.sqrt(var + 1e-5)], dim=1)


class Residual(nn.Module):
    def __init__(self, cin, cout, stride, dilation, se_ratio):
        super().__init__()
        self.depthwise = ConvNorm(cin, cin, 5, stride, dilation, groups=cin)
        self.pointwise = ConvNorm(cin, cout, 1)
        self.mix = ConvNorm(cout, cout, 3)
        self.se = SqueezeExcite(cout, se_ratio)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(
                nn.AvgPool1d(3, stride, padding=1) if stride != 1 else nn.Identity(),
                ConvNorm(cin, cout, 1),
            )

    def forward(self, x):
        y = F.silu(self.pointwise(self.depthwise(x)))
        y = self.se(self.mix(y))
        return F.relu(y + self.shortcut(x))
