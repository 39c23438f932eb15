"""Entry points: python -m reference.main trains; the functions are used by the evaluation service."""
import math

import numpy as np
import torch

from . import concordance, objectives, tables
from .network import TenureNet
from .settings import CFG


def build_model():
    return TenureNet(CFG, tables.vocabulary().sizes, *tables.fit_statistics())


def transforms(split="train"):
    return tables.make_transforms()


def build_dataset(split):
    return tables.MemberTable(split)


def build_dataloader(split):
    return tables.make_loader(split)


def loss(outputs, labels):
    return objectives.tenure_loss(outputs, labels, CFG)


def metric(outputs, labels):
    labels = labels.detach().cpu().numpy()
    return concordance.evaluate(outputs["risk"].detach().cpu().numpy(), outputs["hazard"].detach().cpu().numpy(),
                                labels[:, 0], labels[:, 1], CFG)


def build_optimizer(model):
    tables_, plain, decayed = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("levels."):
            tables_.append(p)
        elif p.ndim == 1 or name.startswith("numbers.") and not name.endswith("weight"):
            plain.append(p)
        else:
            decayed.append(p)
    groups = [{"params": decayed, "weight_decay": CFG.weight_decay},
              {"params": plain, "weight_decay": 0.0},
              {"params": tables_, "weight_decay": 0.0, "lr": CFG.lr * 0.5}]
    return torch.optim.AdamW(groups, lr=CFG.lr, betas=(0.9, 0.98), eps=1e-7)


def build_scheduler(optimizer):
    total = CFG.epochs * len(tables.make_loader("train"))

    def factor(step):
        if step < CFG.warmup:
            return (step + 1) / CFG.warmup
        done = min(1.0, (step - CFG.warmup) / (total - CFG.warmup))
        return CFG.floor + (1 - CFG.floor) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    x, seen, codes, labels = batch
    optimizer.zero_grad(set_to_none=True)
    parts = loss(model(x, seen, codes), labels)
    parts["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CFG.clip)
    optimizer.step()
    return {"loss": parts["loss"].detach(), "norm": norm}


@torch.no_grad()
def predict(path, model):
    """Curves, restricted mean and median tenure, and a tier of care for every member of a table."""
    x, seen, codes = tables.to_tensors(path)
    dtype = next(model.parameters()).dtype
    out = model(x.to(dtype), seen.to(dtype), codes)
    curve = concordance.survival(out["hazard"].cpu().numpy())
    curve = np.concatenate([np.ones((len(curve), 1)), curve], 1)
    grid = np.array((0.0, *CFG.edges))
    rmst = ((curve[:, 1:] + curve[:, :-1]) / 2 * np.diff(grid)).sum(1)
    median, tier = [], []
    for c, s, r in zip(curve, seen.numpy(), rmst):
        below = np.flatnonzero(c <= 0.5)
        if below.size:
            k = below[0]
            median.append(grid[k - 1] + (c[k - 1] - 0.5) / (c[k - 1] - c[k]) * (grid[k] - grid[k - 1]))
        else:
            median.append(np.inf)
        if s.sum() < 2:
            tier.append(-1)                     # too little is known: a person decides
        elif median[-1] <= 8.0 or r < 0.4 * grid[-1]:
            tier.append(2)
        elif c[CFG.edges.index(CFG.horizon) + 1] < 0.4:
            tier.append(1)
        else:
            tier.append(0)
    return {"curve": curve, "rmst": rmst, "median": np.array(median), "tier": np.array(tier)}


def train():
    torch.manual_seed(0)
    model, loader = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    for epoch in range(CFG.epochs):
        loader.batch_sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            last = train_step(model, optimizer, batch)
            scheduler.step()
        model.eval()
        with torch.no_grad():
            seen = [(model(*b[:-1]), b[-1]) for b in build_dataloader("val")]
        merged = {k: torch.cat([o[k] for o, _ in seen]) for k in ("risk", "hazard")}
        print(epoch, float(last["loss"]), metric(merged, torch.cat([y for _, y in seen])))
    return model


if __name__ == "__main__":
    train()
