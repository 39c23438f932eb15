import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import BLOCKS, register


class WSConv2d(nn.Conv2d):
    """Convolution with scaled weight standardisation (as in NFNets)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        fan_in = self.weight[0].numel()
        weight = (self.weight - mean) * torch.rsqrt((var * fan_in).clamp(min=1e-4)) * self.gain
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class BlurPool(nn.Module):
    """Anti-aliased halving with the binomial kernel."""

    def __init__(self, channels):
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0])
        kernel = torch.outer(row, row) / 16
        self.register_buffer("kernel", kernel.expand(channels, 1, 3, 3).clone(), persistent=False)

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.kernel, stride=2, groups=x.shape[1])


class ChannelNorm(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        x = x * torch.rsqrt(x.square().mean(1, keepdim=True) + self.eps)
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class GRN(nn.Module):
    """Global response normalisation: channels compete by their norms over the picture."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((1, channels, 1, 1), 0.2))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        g = torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True)
        n = g / (g.mean(1, keepdim=True) + 1e-6)
        return x + self.gamma * (x * n) + self.beta


@register("grn")
class GRNBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 5, padding=2, groups=c)
        self.norm = ChannelNorm(c)
        self.up = nn.Conv2d(c, 2 * c, 1)
        self.grn = GRN(2 * c)
        self.down = nn.Conv2d(2 * c, c, 1)

    def forward(self, x):
        return x + self.down(self.grn(F.gelu(self.up(self.norm(self.dw(x))))))


class SqueezeGate(nn.Module):
    def __init__(self, c, ratio=4):
        super().__init__()
        self.fc = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // ratio, 1), nn.ReLU(),
                                nn.Conv2d(c // ratio, c, 1), nn.Hardsigmoid())

    def forward(self, x):
        return x * self.fc(x)


class Backbone(nn.Module):
    def __init__(self, channels, depths, block):
        super().__init__()
        self.stem = WSConv2d(3, channels[0], 3, stride=2, padding=1)
        self.stem_norm = nn.GroupNorm(4, channels[0])
        self.stages, self.shrink = nn.ModuleList(), nn.ModuleList()
        for i, (c, n) in enumerate(zip(channels, depths)):
            layers = [BLOCKS[block](c) for _ in range(n)]
            if i:
                layers.append(SqueezeGate(c))
                self.shrink.append(nn.Sequential(BlurPool(channels[i - 1]), nn.Conv2d(channels[i - 1], c, 1)))
            self.stages.append(nn.Sequential(*layers))

    def forward(self, x):
        x = F.silu(self.stem_norm(self.stem(x)))
        features = []
        for i, stage in enumerate(self.stages):
            if i:
                x = self.shrink[i - 1](x)
            x = stage(x)
            features.append(x)
        return features
