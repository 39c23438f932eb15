import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .backbone import Backbone, WSConv2d


class Fuse(nn.Module):
    """Fast normalised fusion of a lateral map and the upsampled coarser one."""

    def __init__(self, c):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 0.5]))
        self.conv = WSConv2d(c, c, 3, padding=1)

    def forward(self, fine, coarse):
        coarse = F.interpolate(coarse, size=fine.shape[-2:], mode="bilinear", align_corners=False)
        w = F.relu(self.w)
        w = w / (w.sum() + 1e-4)
        return self.conv(F.silu(w[0] * fine + w[1] * coarse))


class GrainDetector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.fpn
        self.backbone = Backbone(cfg.channels, cfg.depths, cfg.block)
        self.lateral = nn.ModuleList(nn.Conv2d(k, c, 1) for k in cfg.channels)
        self.fuse = nn.ModuleList(Fuse(c) for _ in cfg.channels[:-1])
        self.mask_norm = nn.GroupNorm(8, c)
        self.mask_out = nn.Conv2d(c, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)
        self.around = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.centre_conv = nn.Conv2d(2 * c, c, 3, padding=1, bias=False)
        self.centre_norm = nn.GroupNorm(8, c)
        self.dropout = nn.Dropout2d(cfg.dropout)
        self.heat = nn.Conv2d(c, 1, 1)
        self.size = nn.Conv2d(c, 2, 1)
        self.reset(cfg.prior)

    def reset(self, prior):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m.kernel_size == (1, 1):
                    nn.init.trunc_normal_(m.weight, std=0.06, a=-0.12, b=0.12)
                else:
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.constant_(self.heat.bias, -math.log((1 - prior) / prior))
        nn.init.constant_(self.size.bias, 2.2)

    def forward(self, image):
        maps = [lat(f) for lat, f in zip(self.lateral, self.backbone(image))]
        p8 = maps[2]
        p4 = self.fuse[1](maps[1], p8)
        p2 = self.fuse[0](maps[0], p4)
        mask = self.shuffle(self.mask_out(F.silu(self.mask_norm(p2))))
        x = torch.cat([p4, p4 - self.around(p4)], 1)
        x = self.dropout(F.relu(self.centre_norm(self.centre_conv(x))))
        return {"mask": mask, "heat": self.heat(x), "size": self.size(x)}
