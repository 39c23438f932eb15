import math

import torch
from torch.optim.lr_scheduler import LambdaLR


class OneCycle:
    def __init__(self, total, pct_start, div, final_div):
        self.peak = pct_start * total - 1
        self.last = total - 1
        self.low, self.end = 1.0 / div, 1.0 / (div * final_div)

    @staticmethod
    def anneal(start, end, pct):
        return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * pct))

    def __call__(self, step):
        if step <= self.peak:
            return self.anneal(self.low, 1.0, step / self.peak)
        pct = min((step - self.peak) / (self.last - self.peak), 1.0)
        return self.anneal(1.0, self.end, pct)


def build_adam(model, s):
    backbone = list(model.backbone.parameters())
    head = [p for n, p in model.named_parameters() if not n.startswith("backbone.")]
    return torch.optim.Adam(
        [{"params": backbone, "lr": s.lr * s.backbone_mult}, {"params": head}],
        lr=s.lr, betas=s.betas, weight_decay=s.weight_decay,
    )


def build_onecycle(optimizer, s):
    return LambdaLR(optimizer, OneCycle(s.total, s.pct_start, s.div, s.final_div))


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].lerp_(v, 1.0 - self.decay)


def step(model, optimizer, batch, criterion, s):
    if not hasattr(model, "average"):
        model.average = WeightAverage(model, s.ema)
    model.train()
    images, masks = batch
    loss = criterion(model(images), masks)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), s.clip_value)
    optimizer.step()
    model.average.update(model)
    return loss.item()
