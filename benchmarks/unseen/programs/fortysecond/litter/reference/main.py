"""Litter on nine beaches: what a survey will find."""
import json

import torch

from . import counts, survey_set, tables
from .net import LitterModel

TOTAL_STEPS = 60
PEAK = 0.08


def build_model():
    return LitterModel(tables.beaches())


def build_dataset(split):
    return survey_set.Surveys(split)


def build_dataloader(split):
    return survey_set.loader(split)


loss = counts.loss
metric = counts.metric


def build_optimizer(model):
    site = [p for n, p in model.named_parameters() if n.startswith(("coast.", "substrate."))]
    rest = [p for n, p in model.named_parameters() if not n.startswith(("coast.", "substrate."))]
    return torch.optim.Adagrad([{"params": rest, "weight_decay": 0.0}, {"params": site, "weight_decay": 0.01}],
                               lr=PEAK / 10, initial_accumulator_value=0.05, eps=1e-10)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=PEAK, total_steps=TOTAL_STEPS, pct_start=0.25,
                                               div_factor=10.0, final_div_factor=100.0, cycle_momentum=False)


def train_step(model, optimizer, batch):
    labels = batch["labels"]
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    optimizer.zero_grad()
    value = loss(model(**inputs), labels)
    value.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.25)
    optimizer.step()
    return value.detach()


@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        row = json.load(f)
    row["day"] = tables.day(row["date"])
    order = {b["beach"]: i for i, b in enumerate(tables.beaches())}
    sample = survey_set.sample(row, tables.surveys(), order, tables.weather_statistics())
    kind = model.level.weight.dtype
    batch = {k: torch.as_tensor(v).unsqueeze(0) for k, v in sample.items()}
    batch = {k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()}
    out = model(**batch)
    zero = torch.exp(counts.log_likelihood(torch.zeros_like(out["log_mu"]), out))
    return {"expected": counts.expected(out)[0].numpy(), "none": zero[0].numpy()}
