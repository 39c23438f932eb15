"""Optimiser, schedule, averaged weights, training."""
import copy

import torch

from .config import CFG
from .objective import nll, report


def param_groups(model):
    o = CFG.optim
    time, decay, plain = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("encoding."):
            time.append(p)
        elif p.ndim >= 2 and "null" not in name and "sensor" not in name:
            decay.append(p)
        else:
            plain.append(p)
    return [{"params": decay, "weight_decay": o.weight_decay},
            {"params": plain, "weight_decay": 0.0},
            {"params": time, "weight_decay": 0.0, "lr": o.lr * o.time_lr_scale}]


def make_optimizer(model):
    o = CFG.optim
    opt = torch.optim.AdamW(param_groups(model), lr=o.lr, betas=o.betas, eps=o.eps)
    opt.average = WeightAverage(model, o.ema_decay)
    return opt


def rate(step):
    w = CFG.optim.warmup
    step += 1
    return min(step / w, (w / step) ** 0.5)


def make_scheduler(opt):
    return torch.optim.lr_scheduler.LambdaLR(opt, rate)


class WeightAverage:
    """Exponential average of the parameters; the decay itself warms up."""

    def __init__(self, model, decay):
        self.decay, self.count = decay, 0
        self.shadow = {k: p.detach().clone() for k, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        d = min(self.decay, (1 + self.count) / (10 + self.count))
        for k, p in model.named_parameters():
            self.shadow[k].mul_(d).add_(p, alpha=1 - d)

    @torch.no_grad()
    def gap(self, model):
        return sum((p - self.shadow[k]).pow(2).sum() for k, p in model.named_parameters()).sqrt()

    def averaged(self, model):
        twin = copy.deepcopy(model).eval()
        twin.load_state_dict(self.shadow, strict=False)
        return twin


def step_once(model, opt, batch):
    batch = dict(batch)
    target = batch.pop("target")
    opt.zero_grad(set_to_none=True)
    loss = nll(model(**batch), target)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CFG.optim.clip)
    opt.step()
    opt.average.update(model)
    return {"loss": loss.detach(), "grad_norm": norm, "ema_gap": opt.average.gap(model)}


@torch.no_grad()
def evaluate(model, loader):
    outs, targets = [], []
    for batch in loader:
        targets.append(batch.pop("target"))
        outs.append(model(**batch))
    return report(torch.cat(outs), torch.cat(targets))


def fit(model, train_loader, val_loader):
    opt = make_optimizer(model)
    sched = make_scheduler(opt)
    for epoch in range(CFG.optim.epochs):
        train_loader.batch_sampler.epoch = epoch
        model.train()
        for batch in train_loader:
            out = step_once(model, opt, batch)
            sched.step()
        scores = evaluate(opt.average.averaged(model), val_loader)
        print(epoch, float(out["loss"]), {k: round(float(v), 4) for k, v in scores.items()})
    return opt.average.averaged(model)
