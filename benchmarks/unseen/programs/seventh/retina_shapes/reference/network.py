import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import BACKBONES, DETECTORS, HEADS, NECKS


def conv_gn_relu(inp, out, stride, groups):
    return nn.Sequential(nn.Conv2d(inp, out, 3, stride, 1, bias=False), nn.GroupNorm(groups, out), nn.ReLU(inplace=True))


@BACKBONES.register
class SmallNet(nn.Module):
    def __init__(self, channels, out_levels, groups):
        super().__init__()
        self.out_levels = out_levels
        self.stages = nn.ModuleList()
        prev = 3
        for c in channels:
            self.stages.append(conv_gn_relu(prev, c, 2, groups))
            prev = c

    def forward(self, x):
        outs = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i in self.out_levels:
                outs.append(x)
        return outs


@NECKS.register
class FPN(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lateral_convs = nn.ModuleList(nn.Conv2d(c, out_channels, 1) for c in in_channels)
        self.fpn_convs = nn.ModuleList(nn.Conv2d(out_channels, out_channels, 3, padding=1) for _ in in_channels)

    def forward(self, feats):
        laterals = [conv(f) for conv, f in zip(self.lateral_convs, feats)]
        for i in range(len(laterals) - 1, 0, -1):
            laterals[i - 1] = laterals[i - 1] + F.interpolate(laterals[i], size=laterals[i - 1].shape[2:], mode="bilinear", align_corners=False)
        return [conv(f) for conv, f in zip(self.fpn_convs, laterals)]


class Scale(nn.Module):
    def __init__(self, value=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([float(value)]))

    def forward(self, x):
        return x * self.scale


@HEADS.register
class RetinaHead(nn.Module):
    def __init__(self, num_classes, in_channels, feat_channels, stacked_convs, num_levels, anchors_per_cell, groups, prior):
        super().__init__()
        self.num_classes = num_classes
        self.cls_convs, self.reg_convs = nn.ModuleList(), nn.ModuleList()
        for i in range(stacked_convs):
            c = in_channels if i == 0 else feat_channels
            self.cls_convs.append(conv_gn_relu(c, feat_channels, 1, groups))
            self.reg_convs.append(conv_gn_relu(c, feat_channels, 1, groups))
        self.retina_cls = nn.Conv2d(feat_channels, anchors_per_cell * num_classes, 3, padding=1)
        self.retina_reg = nn.Conv2d(feat_channels, anchors_per_cell * 4, 3, padding=1)
        self.scales = nn.ModuleList(Scale() for _ in range(num_levels))
        self.prior = prior

    def init_weights(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, std=0.01)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.constant_(self.retina_cls.bias, -math.log((1 - self.prior) / self.prior))

    def forward_single(self, x, scale):
        cls_feat = reg_feat = x
        for conv in self.cls_convs:
            cls_feat = conv(cls_feat)
        for conv in self.reg_convs:
            reg_feat = conv(reg_feat)
        return self.retina_cls(cls_feat), scale(self.retina_reg(reg_feat))

    def forward(self, feats):
        scores, deltas = [], []
        for x, scale in zip(feats, self.scales):
            c, r = self.forward_single(x, scale)
            scores.append(c.permute(0, 2, 3, 1).reshape(c.size(0), -1, self.num_classes))
            deltas.append(r.permute(0, 2, 3, 1).reshape(r.size(0), -1, 4))
        return torch.cat(scores, 1), torch.cat(deltas, 1)


@DETECTORS.register
class RetinaNet(nn.Module):
    def __init__(self, backbone, neck, head):
        super().__init__()
        self.backbone, self.neck, self.bbox_head = BACKBONES.build(backbone), NECKS.build(neck), HEADS.build(head)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        self.bbox_head.init_weights()

    def forward(self, img):
        return self.bbox_head(self.neck(self.backbone(img)))
