"""Flooded areas from two aerial pictures, with an exponential moving average of the weights (PyTorch)."""
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from parts.blocks import ChangeNet
from parts.data import Floods, normalise, picture

IGNORE = 255
DECAY, TOTAL, WARMUP = 0.97, 36, 4


class Averaged(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.shadow = copy.deepcopy(net).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def average(self):
        self.updates += 1
        n = self.updates.item()
        decay = min(DECAY, (1 + n) / (10 + n))
        for s, p in zip(self.shadow.parameters(), self.net.parameters()):
            s.lerp_(p, 1 - decay)
        for s, b in zip(self.shadow.buffers(), self.net.buffers()):
            s.copy_(b)

    def forward(self, before, after):
        return self.net(before, after)


def build_model():
    return Averaged(ChangeNet())


def loss(outputs, labels):
    valid = (labels != IGNORE).to(outputs.dtype)
    target = (labels == 1).to(outputs.dtype)
    bce = F.binary_cross_entropy_with_logits(outputs, target, weight=valid, reduction="sum",
                                             pos_weight=torch.tensor(2.5, dtype=outputs.dtype)) / valid.sum()
    p = torch.sigmoid(outputs) * valid
    overlap = (p * target).sum((1, 2))
    dice = 1 - (2 * overlap + 1) / (p.sum((1, 2)) + (target * valid).sum((1, 2)) + 1)
    return bce + 0.5 * dice.mean()


def metric(outputs, labels):
    y = labels.cpu().numpy()
    keep = y != IGNORE
    found, truth = outputs.detach().cpu().numpy()[keep] > 0, y[keep] == 1
    tp, fp, fn = (found & truth).sum(), (found & ~truth).sum(), (~found & truth).sum()
    return {"iou": float(tp / max(1, tp + fp + fn)), "f1": float(2 * tp / max(1, 2 * tp + fp + fn)),
            "area_error": float(abs(found.mean() - truth.mean()))}


def build_dataset(split):
    return Floods(split)


def build_dataloader(split):
    return DataLoader(Floods(split), batch_size=4)


def build_optimizer(model):
    head, bare, rest = [], [], []
    for name, p in model.net.named_parameters():
        (head if name.startswith("head.") else bare if p.ndim == 1 else rest).append(p)
    return torch.optim.SGD([{"params": rest, "weight_decay": 2 ** -9},
                            {"params": bare},
                            {"params": head, "lr": 0.2, "weight_decay": 2 ** -9}], lr=0.05, momentum=0.75)


def build_scheduler(optimizer):
    def poly(step):
        ramp = min(1.0, 0.25 + 0.75 * step / WARMUP)
        return ramp * max(0.0, 1 - step / TOTAL) ** 0.9
    return torch.optim.lr_scheduler.LambdaLR(optimizer, poly)


def train_step(model, optimizer, batch):
    before, after, mask = batch
    value = loss(model(before, after), mask)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    model.average()
    return value


def predict(path, model):
    p = next(model.parameters())
    pair = [torch.from_numpy(normalise(picture(path.replace("after", w))))[None].to(p.dtype) for w in ("before", "after")]
    with torch.no_grad():
        z = model.shadow(*pair)[0]
    return {"probability": torch.sigmoid(z).numpy(), "wet": float((z > 0).to(z.dtype).mean())}
