"""A small detector: ConvNeXt blocks with layer scale, two levels, anchors, decoded boxes, the best of them by score; PyTorch."""

import math

import torch
from given import images
from torch import nn
from torch.nn import functional as F

CLASSES, BEST, SIDE, WIDTH = 5, 12, 64, 32
STRIDES, SIZES, RATIOS = (4, 8), (10.0, 24.0), (0.5, 1.0, 2.0)
LIMIT = math.log(1000.0 / 16)


class ChannelNorm(nn.Module):
    """Layer norm over the channels of pictures."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        spread = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(spread + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class DropPath(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype) >= self.rate
        return x / (1 - self.rate) * kept


class Block(nn.Module):
    """As of ConvNeXt V2: responses normalised over the picture, and a factor for each channel of the branch."""

    def __init__(self, width, rate):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen = nn.Linear(width, 4 * width)
        self.gain, self.shift = nn.Parameter(torch.zeros(4 * width)), nn.Parameter(torch.zeros(4 * width))
        self.narrow = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))
        self.drop = DropPath(rate)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = F.gelu(self.widen(y))
        force = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
        force = force / (force.mean(-1, keepdim=True) + 1e-6)
        y = self.gain * (y * force) + self.shift + y
        y = self.narrow(y) * self.scale
        return x + self.drop(y.permute(0, 3, 1, 2))


class Head(nn.Module):
    """Two branches, shared by the levels."""

    def __init__(self):
        super().__init__()
        count = len(RATIOS)
        self.towers = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.GroupNorm(8, WIDTH), nn.SiLU()) for _ in range(2)]
        )
        self.scores = nn.Conv2d(WIDTH, count * CLASSES, 3, padding=1)
        self.boxes = nn.Conv2d(WIDTH, count * 4, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(len(STRIDES)))

    def forward(self, level, x):
        scores = self.scores(self.towers[0](x))
        shifts = self.boxes(self.towers[1](x)) * self.scales[level]
        scores, shifts = (t.unflatten(1, (len(RATIOS), -1)).permute(0, 3, 4, 1, 2).flatten(1, 3) for t in (scores, shifts))
        return scores, shifts


def anchors(stride, size):
    """Centres and sizes of the boxes of one level; x and y, width and height."""
    places = (torch.arange(SIDE // stride, dtype=torch.float32) + 0.5) * stride
    y, x = torch.meshgrid(places, places, indexing="ij")
    centres = torch.stack([x, y], -1)[:, :, None].expand(-1, -1, len(RATIOS), -1)
    roots = torch.tensor(RATIOS).sqrt()
    shapes = torch.stack([size / roots, size * roots], -1).expand_as(centres)
    return torch.cat([centres, shapes], -1).flatten(0, 2)


def decode(anchors, shifts):
    """Boxes by their corners, inside the picture."""
    variances = shifts.new_tensor([0.1, 0.1, 0.2, 0.2])
    shifts = shifts * variances
    centres = anchors[:, :2] + shifts[..., :2] * anchors[:, 2:]
    sizes = anchors[:, 2:] * shifts[..., 2:].clamp(max=LIMIT).exp()
    return torch.cat([centres - sizes / 2, centres + sizes / 2], -1).clamp(0, SIDE)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.enter = ChannelNorm(WIDTH)
        self.first, self.second = Block(WIDTH, 0.1), Block(2 * WIDTH, 0.2)
        self.norm = ChannelNorm(WIDTH)
        self.down = nn.Conv2d(WIDTH, 2 * WIDTH, 2, stride=2)
        self.lateral = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(2 * WIDTH, WIDTH, 1)])
        self.smooth = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2)])
        self.head = Head()
        for number, (stride, size) in enumerate(zip(STRIDES, SIZES, strict=True)):
            self.register_buffer(f"anchors{number}", anchors(stride, size), persistent=False)

    def levels(self, x):
        fine = self.first(self.enter(self.stem(x)))
        coarse = self.second(self.down(self.norm(fine)))
        coarse = self.lateral[1](coarse)
        fine = self.lateral[0](fine) + F.interpolate(coarse, scale_factor=2, mode="nearest")
        return [smooth(level) for smooth, level in zip(self.smooth, (fine, coarse), strict=True)]

    def forward(self, x):
        found = [self.head(number, level) for number, level in enumerate(self.levels(x))]
        scores = torch.cat([s for s, _ in found], 1).sigmoid()
        shifts = torch.cat([b for _, b in found], 1)
        boxes = decode(torch.cat([self.anchors0, self.anchors1]), shifts)
        score, label = scores.max(-1)
        score, which = score.topk(BEST, -1)
        boxes = boxes.gather(1, which[..., None].expand(-1, -1, 4))
        sizes = boxes[..., 2:] - boxes[..., :2]
        return {"scores": score, "labels": label.gather(1, which), "boxes": boxes, "areas": sizes.prod(-1)}


def build_model():
    torch.manual_seed(11)
    model = Detector()
    for name, parameter in model.named_parameters():
        if parameter.ndim <= 2 and (any(part in name for part in ("norm", "gain", "shift", "scale", "towers", "enter"))):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif name.endswith("bias"):
            parameter.data += 0.1 * torch.randn_like(parameter)
        else:
            parameter.data *= 1.7
    return model


def inputs():
    return images(2, SIDE, seed=21)
