import math

import torch
from torch import nn
from torch.nn import functional as F

from .blocks import BLOCKS, ConvBN


class Backbone(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = ConvBN(3, cfg.stem, 3, cfg, stride=2)
        self.stages = nn.ModuleList()
        self.channels = []
        cin = cfg.stem
        for spec in cfg.stages:
            blocks = []
            for block in spec:
                kwargs = {k: v for k, v in block.items() if k != "type"}
                blocks.append(BLOCKS[block["type"]](cin, cfg=cfg, **kwargs))
                cin = block["out"]
            self.stages.append(nn.Sequential(*blocks))
            self.channels.append(cin)

    def forward(self, x):
        x = self.stem(x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features


class Neck(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.smooth = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Conv2d(width, width, 1)) for _ in channels
        )
        self.down = nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, features):
        maps = [layer(f) for layer, f in zip(self.lateral, features)]
        for i in range(len(maps) - 2, -1, -1):
            up = F.interpolate(maps[i + 1], size=maps[i].shape[-2:], mode="bilinear", align_corners=False)
            maps[i] = maps[i] + up
        out = [layer(m) for layer, m in zip(self.smooth, maps)]
        out.append(self.down(out[-1]))
        return out


class Scale(nn.Module):
    def __init__(self, value=1.0):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([float(value)]))

    def forward(self, x):
        return x * self.value


class Head(nn.Module):
    def __init__(self, cfg, anchors, levels):
        super().__init__()
        self.classes = cfg.classes
        self.cls_tower = self._tower(cfg)
        self.box_tower = self._tower(cfg)
        self.cls_out = nn.Conv2d(cfg.neck, anchors * cfg.classes, 3, padding=1)
        self.box_out = nn.Conv2d(cfg.neck, anchors * 4, 3, padding=1)
        self.scales = nn.ModuleList(Scale() for _ in range(levels))

    @staticmethod
    def _tower(cfg):
        layers = []
        for _ in range(cfg.tower):
            layers += [
                nn.Conv2d(cfg.neck, cfg.neck, 3, padding=1, groups=cfg.tower_groups, bias=False),
                nn.GroupNorm(8, cfg.neck, eps=1e-3),
                nn.GELU(),
            ]
        return nn.Sequential(*layers)

    def forward(self, maps):
        logits, deltas = [], []
        for scale, x in zip(self.scales, maps):
            c = self.cls_out(self.cls_tower(x))
            b = scale(self.box_out(self.box_tower(x)))
            logits.append(c.permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes))
            deltas.append(b.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
        return torch.cat(logits, 1), torch.cat(deltas, 1)


class SpotDet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = Backbone(cfg.model)
        self.neck = Neck(self.backbone.channels, cfg.model.neck)
        self.head = Head(cfg.model, len(cfg.anchors.ratios), len(cfg.anchors.strides))
        self.init_weights(cfg.model.prior)

    def init_weights(self, prior):
        for m in self.backbone.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        for m in self.neck.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)
        for m in self.head.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, std=0.03)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.constant_(self.head.cls_out.bias, -math.log((1 - prior) / prior))

    def forward(self, images):
        logits, deltas = self.head(self.neck(self.backbone(images)))
        return {"logits": logits, "deltas": deltas}
