"""An anchor-free detection head over a small pyramid: group norm, grids, boxes decoded from distances, per-level scales."""

import math
from typing import List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Scale(nn.Module):
    def __init__(self, init_value: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([init_value]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Tower(nn.Sequential):
    def __init__(self, channels: int, depth: int) -> None:
        layers: List[nn.Module] = []
        for _ in range(depth):
            layers.append(nn.Conv2d(channels, channels, 3, stride=1, padding=1, bias=False))
            layers.append(nn.GroupNorm(4, channels))
            layers.append(nn.ReLU())
        super().__init__(*layers)


def make_grid(height: int, width: int, stride: int, device) -> Tensor:
    ys, xs = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    points = torch.stack((xs, ys), dim=-1).reshape(-1, 2)
    return points * stride + stride // 2


def distance2box(points: Tensor, distance: Tensor) -> Tensor:
    x1 = points[..., 0] - distance[..., 0]
    y1 = points[..., 1] - distance[..., 1]
    x2 = points[..., 0] + distance[..., 2]
    y2 = points[..., 1] + distance[..., 3]
    return torch.stack([x1, y1, x2, y2], dim=-1)


def box_area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    lt = torch.max(a[..., :, None, :2], b[..., None, :, :2])
    rb = torch.min(a[..., :, None, 2:], b[..., None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (box_area(a)[..., :, None] + box_area(b)[..., None, :] - inter + 1e-6)


class Head(nn.Module):
    strides = (4, 8)

    def __init__(self, num_classes: int = 3, channels: int = 16, depth: int = 2, prior: float = 0.01) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.cls_tower = Tower(channels, depth)
        self.reg_tower = Tower(channels, depth)
        self.cls_logits = nn.Conv2d(channels, num_classes, kernel_size=3, padding=1)
        self.bbox_pred = nn.Conv2d(channels, 4, kernel_size=3, padding=1)
        self.centerness = nn.Conv2d(channels, 1, 3, padding=1)
        self.scales = nn.ModuleList([Scale() for _ in self.strides])
        for modules in [self.cls_tower, self.reg_tower, self.cls_logits, self.bbox_pred, self.centerness]:
            for layer in modules.modules():
                if isinstance(layer, nn.Conv2d):
                    nn.init.normal_(layer.weight, std=0.01)
                    if layer.bias is not None:
                        nn.init.constant_(layer.bias, 0)
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - prior) / prior))

    def forward(self, features: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        scores, boxes, centers = [], [], []
        for level, (x, stride) in enumerate(zip(features, self.strides)):
            n, _, h, w = x.shape
            tower = self.cls_tower(x)
            logits = self.cls_logits(tower).permute(0, 2, 3, 1).reshape(n, -1, self.num_classes)
            reg = self.reg_tower(x)
            distance = F.relu(self.scales[level](self.bbox_pred(reg))).permute(0, 2, 3, 1).flatten(1, 2) * stride
            points = make_grid(h, w, stride, x.device).to(distance.dtype)
            scores.append(logits.sigmoid())
            boxes.append(distance2box(points[None], distance))
            centers.append(self.centerness(reg).flatten(2).transpose(1, 2).sigmoid())
        return torch.cat(scores, dim=1), torch.cat(boxes, dim=1), torch.cat(centers, dim=1)


class Detector(nn.Module):
    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 7, stride=4, padding=3), nn.BatchNorm2d(channels), nn.LeakyReLU(0.1))
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.lateral = nn.ModuleList([nn.Conv2d(channels, channels, 1) for _ in range(2)])
        self.head = Head(channels=channels)

    def forward(self, images: Tensor):
        c1 = self.stem(images)
        c2 = self.down(c1)
        p2 = self.lateral[1](c2)
        p1 = self.lateral[0](c1) + F.interpolate(p2, size=c1.shape[-2:], mode="nearest")
        return self.head([p1, p2])

    @torch.no_grad()
    def postprocess(self, scores: Tensor, boxes: Tensor, threshold: float = 0.3, top: int = 5):
        best, labels = scores.max(dim=-1)
        keep = best > threshold
        found = boxes[keep]
        order = best[keep].argsort(descending=True)[:top]
        ious = box_iou(found[order], found[order])
        return found[order], labels[keep][order], ious.triu(diagonal=1).max(dim=0).values
