import math

import torch
import torch.nn as nn

BN = dict(momentum=0.01, eps=1e-3)


def make_divisible(v, divisor=4):
    new = max(divisor, int(v + divisor / 2) // divisor * divisor)
    return new + divisor if new < 0.9 * v else new


class DropPath(nn.Module):
    """Stochastic depth, sample by sample."""

    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = (keep + torch.rand(x.shape[0], *[1] * (x.ndim - 1), dtype=x.dtype, device=x.device)).floor()
        return x.div(keep) * mask


class ConvBnAct(nn.Sequential):
    def __init__(self, inp, out, kernel=3, stride=1, groups=1, act=True):
        super().__init__(
            nn.Conv2d(inp, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out, **BN), nn.SiLU() if act else nn.Identity())


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.conv_reduce, self.conv_expand = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)
        self.act, self.gate = nn.SiLU(), nn.Sigmoid()

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * self.gate(self.conv_expand(self.act(self.conv_reduce(s))))


class MBConv(nn.Module):
    def __init__(self, inp, out, kernel, stride, expand, se_ratio, drop_path):
        super().__init__()
        mid = make_divisible(inp * expand)
        self.has_residual = stride == 1 and inp == out
        self.conv_pw = ConvBnAct(inp, mid, 1) if expand != 1 else nn.Identity()
        self.conv_dw = ConvBnAct(mid, mid, kernel, stride, groups=mid)
        self.se = SqueezeExcite(mid, max(1, int(inp * se_ratio)))
        self.conv_pwl = ConvBnAct(mid, out, 1, act=False)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.conv_pwl(self.se(self.conv_dw(self.conv_pw(x))))
        return x + self.drop_path(y) if self.has_residual else y


class NeXtBlock(nn.Module):
    def __init__(self, dim, kernel, drop_path, layer_scale):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.act = nn.GELU()
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(self.act(self.pwconv1(self.norm(y))))
        return x + self.drop_path(y.permute(0, 3, 1, 2))


def init_weights(model):
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            fan_out = m.kernel_size[0] * m.kernel_size[1] * m.out_channels // m.groups
            nn.init.normal_(m.weight, 0.0, math.sqrt(2.0 / fan_out))
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            r = 1.0 / math.sqrt(m.out_features)
            nn.init.uniform_(m.weight, -r, r)
            nn.init.zeros_(m.bias)
