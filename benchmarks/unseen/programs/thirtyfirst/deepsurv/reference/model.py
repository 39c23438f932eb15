"""DeepSurv (Katzman et al. 2018): a Cox model with a small net. NAdam and inverse time decay."""
import csv
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

DATA = Path(__file__).resolve().parent.parent / "data"
NUMERIC = ("age", "size", "nodes")
SITES = ("east", "north", "south", "west")


def table(path):
    rows = list(csv.DictReader(open(path)))
    num = torch.tensor([[float(r[c]) for c in NUMERIC] for r in rows])
    num[:, 2] = torch.log1p(num[:, 2])
    cat = torch.tensor([[int(r["grade"]) - 1, int(r["treat"]), SITES.index(r["site"])] for r in rows])
    y = torch.tensor([[float(r["months"]), float(r["died"])] for r in rows])
    return num, cat, y


MEAN, STD = (f(table(DATA / "train.csv")[0], 0) for f in (torch.mean, torch.std))


class DeepSurv(nn.Module):
    def __init__(self, width=24, depth=2, p=0.1):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(n, 3) for n in (3, 2, len(SITES)))
        self.register_buffer("mean", MEAN)
        self.register_buffer("std", STD)
        layers, size = [], len(NUMERIC) + 9
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.SELU(), nn.AlphaDropout(p)]
            size = width
        self.net = nn.Sequential(*layers)
        self.risk = nn.Linear(size, 1, bias=False)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.kaiming_normal_(m.weight, nonlinearity="linear")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Embedding):
                nn.init.normal_(m.weight, std=0.1)

    def forward(self, num, cat):
        x = [(num - self.mean) / self.std] + [e(cat[:, i]) for i, e in enumerate(self.embed)]
        return self.risk(self.net(torch.cat(x, 1))).squeeze(1)


def build_model():
    return DeepSurv()


def build_dataset(split):
    return TensorDataset(*table(DATA / f"{split}.csv"))


def build_dataloader(split):
    ds = build_dataset(split)
    if split != "train":
        return DataLoader(ds, batch_size=14)
    died = ds.tensors[2][:, 1]
    weights = torch.where(died > 0, 1.0 / died.mean(), 1.0 / (1 - died.mean()))
    return DataLoader(ds, batch_size=14, sampler=WeightedRandomSampler(weights, len(ds)))


def loss(outputs, labels):
    """Negative partial log-likelihood, Breslow ties."""
    months, died = labels[:, 0], labels[:, 1]
    at_risk = months.unsqueeze(0) >= months.unsqueeze(1)  # row i: who was still there at i's time
    log_sum = torch.logsumexp(outputs.unsqueeze(0).masked_fill(~at_risk, float("-inf")), dim=1)
    return -((outputs - log_sum) * died).sum() / died.sum().clamp(min=1)


@torch.no_grad()
def metric(outputs, labels):
    good = pairs = 0.0
    for i in range(len(outputs)):
        for j in range(len(outputs)):
            if labels[i, 1] > 0 and labels[i, 0] < labels[j, 0]:
                pairs += 1
                good += float(outputs[i] > outputs[j]) + 0.5 * float(outputs[i] == outputs[j])
    return {"c_index": good / max(pairs, 1.0), "risk_std": float(outputs.std())}


def build_optimizer(model):
    return torch.optim.NAdam(model.parameters(), lr=5e-3, weight_decay=1e-4)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1.0 + 0.02 * step))


def train_step(model, optimizer, batch):
    num, cat, y = batch
    model.train()
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(num, cat), y)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    return {"loss": value.item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    num, cat, _ = table(path)
    r = model(num, cat)
    return {"log_risk": r.numpy(), "rank": torch.argsort(r, descending=True).tolist()}
