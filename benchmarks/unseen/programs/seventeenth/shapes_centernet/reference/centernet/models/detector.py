import math

from torch import nn
from torch.nn import functional as F

from .backbone import GROUPS, Backbone


class Neck(nn.Module):
    """Brings all levels to the finest, from the coarsest down."""

    def __init__(self, cins, width):
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(c, width, 1) for c in cins])
        self.smooth = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.GroupNorm(GROUPS, width)) for _ in cins[:-1]]
        )

    def forward(self, features):
        x = self.lateral[-1](features[-1])
        for i in reversed(range(len(features) - 1)):
            up = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = F.leaky_relu(self.smooth[i](up + self.lateral[i](features[i])), 0.1)
        return x


def make_head(cin, width, cout):
    return nn.Sequential(nn.Conv2d(cin, width, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(width, cout, 1))


class CenterNet(nn.Module):
    def __init__(self, num_classes, m):
        super().__init__()
        self.backbone = Backbone(m.widths)
        self.neck = Neck(m.widths[1:], m.neck)
        self.heatmap = make_head(m.neck, m.head, num_classes)
        self.size = make_head(m.neck, m.head, 2)
        self.offset = make_head(m.neck, m.head, 2)
        self.reset_parameters(m)

    def reset_parameters(self, m):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for head in (self.heatmap, self.size, self.offset):
            nn.init.normal_(head[-1].weight, std=m.head_std)
        nn.init.constant_(self.heatmap[-1].bias, -math.log((1 - m.prior) / m.prior))
        nn.init.constant_(self.size[-1].bias, m.size_prior)
        nn.init.constant_(self.offset[-1].bias, 0.5)

    def forward(self, images):
        x = self.neck(self.backbone(images))
        return {"heatmap": self.heatmap(x), "size": self.size(x), "offset": self.offset(x)}
