import torch.nn as nn
import torch.nn.functional as F

from ..registry import BACKBONES, HEADS
from .ops import ConvBN


class Segmentor(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = BACKBONES.build(cfg.backbone)
        b, k = self.backbone, cfg.data.classes
        self.head = HEADS.build(cfg.head, cin=b.out_channels, low_cin=b.low_channels, n_classes=k)
        self.aux = nn.Sequential(ConvBN(b.mid_channels, 16, 3), nn.Conv2d(16, k, 1))

    def forward(self, x):
        low, mid, high = self.backbone(x)
        size = x.shape[2:]
        out = F.interpolate(self.head(low, high), size=size, mode="bilinear", align_corners=True)
        aux = F.interpolate(self.aux(mid), size=size, mode="bilinear", align_corners=False)
        return {"out": out, "aux": aux}
