"""Timing plans of traffic lights: from counts and phases to greens, cycle and offset."""
import json
import pathlib
import tomllib

import torch
from torch import nn

from . import crossings, learn, parts  # noqa: F401 (parts registers)
from .registry import COMBINERS, ENCODERS, EXCHANGES, SCHEDULES, TIMERS

PLAN = tomllib.loads((pathlib.Path(__file__).parent / "plan.toml").read_text())


class Planner(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg["encoder_args"]["width"]
        self.encoder = ENCODERS.build(cfg["encoder"], crossings.FEATURES, **cfg["encoder_args"])
        self.exchange = EXCHANGES.build(cfg["exchange"], width, **cfg["exchange_args"])
        self.combiner = COMBINERS.build(cfg["combiner"], width, **cfg["combiner_args"])
        self.timer = TIMERS.build(cfg["timer"], width, **cfg["timer_args"])

    def forward(self, features, flow, saturation, served, conflict, min_green, present):
        x = self.encoder(features, present)
        x = self.exchange(x, conflict, present)
        logits = self.combiner(x, served, flow / saturation)
        # the crossing as a whole: approaches weighted by their flow
        pooled = (x * flow.unsqueeze(-1)).sum(dim=1) / flow.sum(dim=-1, keepdim=True)
        return self.timer(logits, pooled, min_green, served, flow, saturation)


def build_model():
    return Planner(PLAN["model"])


def build_dataset(split):
    return crossings.Crossings(split, PLAN["data"])


def build_dataloader(split):
    return crossings.loader(split, PLAN["data"])


def loss(outputs, labels):
    return learn.plan_loss(outputs, labels, PLAN["loss"])


def metric(outputs, labels):
    greens = labels[:, :-3]
    phase = greens > 0
    off = (outputs["greens"] - greens).abs() * phase
    turn = torch.atan2(outputs["way"][:, 1], outputs["way"][:, 0]) - torch.atan2(labels[:, -1], labels[:, -2])
    turn = torch.remainder(turn + torch.pi, 2 * torch.pi) - torch.pi
    return {
        "seconds_off": off.sum() / phase.sum(),
        "within_3s": ((off <= 3.0) & phase).to(off.dtype).sum() / phase.sum(),
        "offset_s": (turn.abs() / (2 * torch.pi) * labels[:, -3]).mean(),
        "delay": outputs["delay"].mean(),
    }


def build_optimizer(model):
    return learn.optimizer(model, PLAN["optim"])


def build_scheduler(opt):
    cfg = dict(PLAN["schedule"])
    return SCHEDULES.build(cfg.pop("name"), opt, **cfg)


def train_step(model, opt, batch):
    batch = dict(batch)
    target = batch.pop("target")
    opt.zero_grad()
    parts_ = loss(model(**batch), target)
    parts_["loss"].backward()
    norm = learn.clip(list(model.parameters()), PLAN["optim"]["clip"])
    opt.step()
    return {"loss": parts_["loss"], "norm": norm}


def predict(path, model):
    """The plan in whole seconds; what rounding leaves goes to the phase with the longest green."""
    with open(path) as f:
        row = json.load(f)
    data = crossings.Crossings("train", PLAN["data"])
    sample = crossings.pack(row, data.mean, data.std, PLAN["data"])
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        out = model(**{k: torch.from_numpy(v).to(dtype).unsqueeze(0) for k, v in sample.items()})
    n = len(row["phases"])
    greens = out["greens"][0, :n]
    cycle = int(out["cycle"][0].round())
    whole = greens.floor().long()
    whole[greens.argmax()] += cycle - int(PLAN["model"]["timer_args"]["lost_per_phase"]) * n - int(whole.sum())
    offset = torch.atan2(out["way"][0, 1], out["way"][0, 0]) / (2 * torch.pi) % 1.0 * cycle
    return {"id": row["id"], "greens": whole.tolist(), "raw": greens.numpy(), "cycle": cycle,
            "offset": float(offset), "delay": float(out["delay"][0])}
