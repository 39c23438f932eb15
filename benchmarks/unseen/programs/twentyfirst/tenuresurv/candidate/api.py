"""What the service calls; `python -m candidate.api` trains."""
import math

import numpy as np
import paddle
from paddle.optimizer.lr import LRScheduler

from . import members, scores
from .criterion import TenureCriterion
from .layers import TenureModel

PEAK, EPOCHS, HORIZON, CLIP = 2e-3, 12, 12.0, 2.0
criterion = TenureCriterion(members.EDGES)


class WarmCosine(LRScheduler):
    def __init__(self, peak, warmup, total, floor):
        self.warmup, self.total, self.floor = warmup, total, floor
        super().__init__(peak)

    def get_lr(self):
        step = self.last_epoch
        if step < self.warmup:
            return self.base_lr * (step + 1) / self.warmup
        phase = min((step - self.warmup) / (self.total - self.warmup), 1.0)
        return self.base_lr * (self.floor + (1 - self.floor) * (1 + math.cos(math.pi * phase)) / 2)


def build_model():
    return TenureModel(members.codebook(), members.moments(), members.base_hazard())


def transforms(split="train"):
    return members.PIPELINE


def build_dataset(split):
    return members.Members(split)


def build_dataloader(split):
    return members.loader(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    risk, hazard = outputs["risk"].numpy(), outputs["hazard"].numpy()
    time, event = labels.numpy().T
    alive = scores.curves(hazard)[:, np.flatnonzero(members.EDGES == HORIZON)[0]]
    return {"c_index": scores.c_index(risk, time, event), "brier": scores.brier_score(alive, time, event, HORIZON)}


def build_optimizer(model):
    def kind(name, p):
        if name.startswith("level."):
            return "level"
        if p.ndim == 1 or name in ("wave.freq", "wave.shift", "wave.absent"):
            return "free"
        return "decayed"

    sorted_ = {"decayed": [], "free": [], "level": []}
    for name, p in model.named_parameters():
        sorted_[kind(name, p)].append(p)
    steps = len(members.loader("train"))
    return paddle.optimizer.AdamW(
        learning_rate=WarmCosine(PEAK, warmup=6, total=EPOCHS * steps, floor=0.05),
        beta1=0.9, beta2=0.98, epsilon=1e-7, weight_decay=0.0,
        parameters=[{"params": sorted_["decayed"], "weight_decay": 0.03},
                    {"params": sorted_["free"], "weight_decay": 0.0},
                    {"params": sorted_["level"], "weight_decay": 0.0, "learning_rate": 0.5}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    parts = criterion(model(*inputs), labels)
    parts["loss"].backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": parts["loss"].detach(), "norm": norm}


def tier_of(known, median, rmst, at_horizon):
    if known < 2:
        return -1
    if median <= 8.0 or rmst < 0.4 * members.EDGES[-1]:
        return 2
    return 1 if at_horizon < 0.4 else 0


@paddle.no_grad()
def predict(path, model):
    x, seen, codes = members.arrays(members.table(path))
    dtype = model.risk_head.weight.dtype
    out = model(paddle.to_tensor(x).astype(dtype), paddle.to_tensor(seen).astype(dtype), paddle.to_tensor(codes))
    curve = scores.curves(out["hazard"].numpy())
    curve = np.pad(curve, [(0, 0), (1, 0)], constant_values=1.0)
    grid = np.concatenate([[0.0], members.EDGES])
    rmst = np.trapezoid(curve, grid, axis=1)
    reached = curve <= 0.5
    k = np.maximum(reached.argmax(1), 1)
    row = np.arange(len(curve))
    high, low = curve[row, k - 1], curve[row, k]
    with np.errstate(divide="ignore", invalid="ignore"):
        median = grid[k - 1] + (high - 0.5) / (high - low) * (grid[k] - grid[k - 1])
    median = np.where(reached.any(1), median, np.inf)
    at_horizon = curve[:, list(grid).index(HORIZON)]
    tier = [tier_of(*facts) for facts in zip(seen.sum(1), median, rmst, at_horizon)]
    return {"curve": curve, "rmst": rmst, "median": median, "tier": np.array(tier)}


def main():
    paddle.seed(0)
    model, loader = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    for epoch in range(EPOCHS):
        loader.batch_sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            report = train_step(model, optimizer, batch)
            optimizer._learning_rate.step()
        model.eval()
        with paddle.no_grad():
            pairs = [(model(*b[:-1]), b[-1]) for b in build_dataloader("val")]
        merged = {k: paddle.concat([o[k] for o, _ in pairs]) for k in ("risk", "hazard")}
        print(epoch, float(report["loss"]), metric(merged, paddle.concat([y for _, y in pairs])))


if __name__ == "__main__":
    main()
