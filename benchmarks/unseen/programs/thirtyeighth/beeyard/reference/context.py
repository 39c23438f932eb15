"""Context of several sizes, weighted at every place by how much it differs from the place itself."""
import torch
from torch import nn
from torch.nn import functional as F


class ContrastContext(nn.Module):
    def __init__(self, channels, sizes=(1, 2, 4)):
        super().__init__()
        self.sizes = sizes
        self.views = nn.ModuleList(nn.Conv2d(channels, channels, 1, bias=False) for _ in sizes)
        self.contrast = nn.Conv2d(channels, channels, 1)
        self.fuse = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        total, weights = 0.0, 1e-6
        for size, view in zip(self.sizes, self.views):
            wide = view(F.adaptive_avg_pool2d(x, size))
            wide = F.interpolate(wide, size=x.shape[2:], mode="bilinear", align_corners=False)
            weight = torch.sigmoid(self.contrast(wide - x))
            total = total + weight * wide
            weights = weights + weight
        return F.relu(self.fuse(torch.cat([x, total / weights], dim=1)))
