"""Pictures and captions in one space, with a box head: contrastive, focal and overlap losses, a quantiser with a gradient of its own; PyTorch."""

import numpy as np
import torch
from given import images, tokens
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH = 120, 24


class Round(torch.autograd.Function):
    """Rounds to eighths; the gradient passes where the value was inside [-0.5, 0.5]."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 0.5).to(gradient.dtype)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.lateral = nn.Conv2d(12, 24, 1)
        self.proj = nn.Linear(24, WIDTH)

    def forward(self, x):
        low = F.relu(self.conv1(x))
        high = F.relu(self.conv2(low))
        high = F.interpolate(high, scale_factor=2, mode="nearest")
        strongest = high.amax((2, 3))
        merged = self.lateral(low) + high
        return merged, self.proj(strongest)


class Captions(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.word(ids).detach()
        x = F.softplus(self.mix(x))
        x = x.mean(1)
        return self.proj(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pictures = Pictures()
        self.captions = Captions()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.boxes = nn.Conv2d(24, 4, 1)
        self.objects = nn.Conv2d(24, 1, 1)

    def forward(self, image, ids):
        features, seen = self.pictures(image)
        read = self.captions(ids)
        seen = Round.apply(seen)
        seen = F.normalize(seen, dim=-1)
        read = F.normalize(read, dim=-1)
        scale = self.scale.clamp(max=4.6).exp()
        boxes = self.boxes(features).flatten(2).transpose(1, 2)
        objects = self.objects(features).flatten(1)
        return {"seen": seen, "read": read, "scale": scale, "boxes": boxes, "objects": objects}


def build_model():
    torch.manual_seed(9)
    model = Model()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data *= 1.5
    return model


def inputs():
    return {"image": images(4, 32, seed=5), "ids": tokens(4, 9, WORDS, seed=4)}


def labels():
    """Which of the 256 places hold an object, and the true box (left, top, right, bottom) of each place."""
    random = np.random.default_rng(0)
    corner = random.uniform(-1, 1, (4, 256, 2))
    size = random.uniform(0.2, 1.5, (4, 256, 2))
    held = (random.random((4, 256)) < 0.1).astype("float32")
    return {"held": held, "boxes": np.concatenate([corner, corner + size], -1).astype("float32")}


def contrast(outputs):
    """Every side against the joined batch of two workers; what came from the other worker has its gradient too."""
    logits = outputs["scale"] * outputs["seen"] @ outputs["read"].T
    wanted = torch.arange(len(logits))
    rows = F.cross_entropy(logits, wanted)
    columns = F.cross_entropy(logits.T, wanted)
    return (rows + columns) / 2


def focal(outputs, held):
    chance = torch.sigmoid(outputs["objects"])
    entropy = F.binary_cross_entropy_with_logits(outputs["objects"], held, reduction="none")
    right = chance * held + (1 - chance) * (1 - held)
    alpha = 0.25 * held + 0.75 * (1 - held)
    return (alpha * (1 - right) ** 2 * entropy).sum() / held.sum().clamp(min=1)


def overlap(outputs, held, wanted):
    centre, size = outputs["boxes"][..., :2], outputs["boxes"][..., 2:].exp()
    low, high = centre - size / 2, centre + size / 2
    inner = torch.minimum(high, wanted[..., 2:]) - torch.maximum(low, wanted[..., :2])
    inner = inner.clamp(min=0).prod(-1)
    union = size.prod(-1) + (wanted[..., 2:] - wanted[..., :2]).prod(-1) - inner
    outer = (torch.maximum(high, wanted[..., 2:]) - torch.minimum(low, wanted[..., :2])).prod(-1)
    giou = inner / union - (outer - union) / outer
    return ((1 - giou) * held).sum() / held.sum()


def loss(outputs, labels):
    micro = [slice(0, 1), slice(1, 4)]
    total = sum(focal({"objects": outputs["objects"][part]}, labels["held"][part]) for part in micro) / len(micro)
    return contrast(outputs) + total + overlap(outputs, labels["held"], labels["boxes"])


def build_optimizer(model):
    towers = [*model.pictures.parameters(), *model.captions.parameters()]
    heads = [model.scale, *model.boxes.parameters(), *model.objects.parameters()]
    return torch.optim.SGD([{"params": towers, "lr": 0.01}, {"params": heads, "lr": 0.1}], lr=0.1, momentum=0.9, weight_decay=1e-2)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
