"""When, and how, does a lent book come back? Discrete hazards of three ends, built from a configuration."""
import json
import math

import torch
import torch.nn as nn

from . import objective, parts, records
from .registry import HEADS, SCHEDULES, TOKENS, WEEKS
from .settings import CONFIG

M, O = CONFIG["model"], CONFIG["optimizer"]


class LoanHazards(nn.Module):
    def __init__(self):
        super().__init__()
        w = M["width"]
        self.first = nn.Parameter(torch.empty(1, 1, w).uniform_(-0.25, 0.25))
        self.tokens = nn.ModuleList(TOKENS.build(s, width=w) for s in M["tokens"])
        self.blocks = nn.ModuleList(parts.Block(w, M["heads"]) for _ in range(M["blocks"]))
        self.norm = nn.LayerNorm(w)
        self.weekly = WEEKS.build(M["weekly"], width=w)
        self.head = HEADS.build(M["head"], width=w, weeks=CONFIG["data"]["weeks"], cap=M["cap"])

    def forward(self, numbers, codes, words, weekly):
        facts = {"numbers": numbers, "codes": codes, "words": words}
        x = torch.cat([self.first.expand(len(numbers), -1, -1)] + [t(facts) for t in self.tokens], dim=1)
        for block in self.blocks:
            x = block(x)
        static = self.norm(x[:, 0])
        return self.head(static, self.weekly(weekly, static))


@SCHEDULES.register("warm_cosine")
def warm_cosine(warm, total, floor):
    def factor(step):
        if step < warm:
            return (step + 1) / warm
        share = min(1.0, (step - warm) / (total - warm))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * share))

    return factor


def build_model():
    return LoanHazards()


def build_dataset(split):
    return records.Loans(split)


def build_dataloader(split):
    return records.loader(split)


def loss(outputs, labels):
    return objective.total(outputs, labels)


def metric(outputs, labels):
    return objective.judge(outputs, labels)


def build_optimizer(model):
    head, decayed, plain = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head."):
            head.append(p)
        elif p.ndim < 2 or name.endswith("bias") or "table" in name or "bag" in name or name == "first":
            plain.append(p)
        else:
            decayed.append(p)
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}, {"params": head, "lr": O["head_lr"]}]
    return torch.optim.AdamW(groups, lr=O["lr"], betas=tuple(O["betas"]), eps=O["eps"], weight_decay=O["weight_decay"])


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, SCHEDULES.build(CONFIG["schedule"]))


def train_step(model, optimizer, batch):
    batch = dict(batch)
    labels = batch.pop("labels")
    optimizer.zero_grad()
    value = loss(model(**batch), labels)["loss"]
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), O["clip"])
    optimizer.step()
    return value


@torch.no_grad()
def predict(path, model):
    """The chance of each end by each week, and the week by which the book is more likely back than not."""
    with open(path) as f:
        loan = json.load(f)
    facts = records.library().facts(loan)
    like = next(model.parameters()).dtype
    batch = {k: torch.from_numpy(v)[None] for k, v in facts.items()}
    batch = {k: v.to(like) if v.is_floating_point() else v for k, v in batch.items()}
    by = objective.incidence(model(**batch))[0]
    half = (by.sum(1) >= 0.5).nonzero()[:, 0]
    return {"by_week": by.numpy(), "half": int(half[0]) + 1 if len(half) else 0}
