"""Which lift answers a call: a policy for Harbour House, trained by PPO on recorded days.

Every layer is a pair of functions: init() gives its parameters, apply(p, x) uses them. The way of a lift is a ring:
going up its places are the floors 0 .. F-1, going down F .. 2F-1 (the top floor first).
"""
import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

FLOORS, CARS = 10, 4
RING = 2 * FLOORS
CAPACITY = 12.0
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
DAYS = {"train": ("monday", "tuesday"), "val": ("friday",)}
GAMMA, LAMBDA, UNIT = 0.985, 0.92, 10.0          # discount for each 10 seconds
CLIP, VALUE_CLIP, VALUE_WEIGHT, ENTROPY = 0.2, 0.4, 0.5, 0.01
FORBIDDEN = -1e9


# ---------------------------------------------------------------- layers

def orthogonal(n_in, n_out, gain):
    return nn.init.orthogonal_(torch.empty(n_in, n_out), gain)


def dense(name, n_in, n_out, gain=math.sqrt(2.0), bias=True):
    def init():
        p = {name + "_w": orthogonal(n_in, n_out, gain)}
        if bias:
            p[name + "_b"] = torch.zeros(n_out)
        return p

    def apply(p, x):
        x = x @ p[name + "_w"]
        return x + p[name + "_b"] if bias else x

    return init, apply


def ring_conv(name, width_in, width_out, reach):
    def init():
        bound = 1.0 / math.sqrt(width_in * (2 * reach + 1))
        return {name + "_k": torch.empty(width_out, width_in, 2 * reach + 1).uniform_(-bound, bound),
                name + "_c": torch.zeros(width_out)}

    def apply(p, x):
        x = F.pad(x, (reach, reach), mode="circular")
        return F.conv1d(x, p[name + "_k"], p[name + "_c"])

    return init, apply


def scalar(name, value):
    return (lambda: {name: torch.full((1,), float(value))}), (lambda p: F.softplus(p[name]))


def bumps(name, centres, width):
    """Traffic by the hour: bells around the rush hours, with learned heights."""
    def init():
        return {name + "_h": torch.randn(len(centres)) * 0.1}

    def apply(p, hour):
        at = torch.tensor(centres, dtype=hour.dtype, device=hour.device)
        return torch.exp(-((hour.unsqueeze(-1) - at) / width) ** 2) @ p[name + "_h"]

    return init, apply


# ---------------------------------------------------------------- the network

def ring_place(floor, direction):
    return torch.where(direction < 0, RING - 1 - floor, floor)


def way(cars, call):
    """Places to go to the call, and which places of the ring lie strictly between."""
    floor, direction = cars[..., 0].long(), cars[..., 1].long()
    here = ring_place(floor, direction)
    there = ring_place(call[:, 0], call[:, 1]).unsqueeze(1)
    ahead = torch.remainder(there - here, RING)
    straight = (floor - call[:, :1]).abs()
    distance = torch.where(direction == 0, straight, ahead)
    offset = torch.remainder(torch.arange(RING, device=here.device) - here.unsqueeze(-1), RING)
    between = (offset > 0) & (offset < ahead.unsqueeze(-1))
    return distance, between, here, there.squeeze(1)


def controller(width=12, hidden=24):
    first, second = ring_conv("ring1", 3, width, 2), ring_conv("ring2", width, width, 2)
    pace, dwell = scalar("pace", -1.0), scalar("dwell", 0.0)
    own, others = dense("own", 5 + 2 * width, hidden), dense("others", hidden, hidden, 1.0, bias=False)
    score = dense("score", hidden, 1, 0.3, bias=False)
    rush, hush = bumps("rush", (8.5, 12.5, 17.5), 1.2), bumps("hush", (10.5, 15.0, 21.0), 2.0)
    judge, verdict = dense("judge", hidden + width + 1, 16), dense("verdict", 16, 1, 1.0)
    parts = (first, second, pace, dwell, own, others, score, rush, hush, judge, verdict)

    def init():
        return {k: v for start, _ in parts for k, v in start().items()}

    def picture(p, cars, stops, hall, here, alive):
        room = (1.0 - cars[..., 2]) * alive
        density = torch.zeros_like(hall).scatter_add(1, here, room)
        planned = (stops * alive.unsqueeze(-1)).sum(dim=1)
        x = torch.stack([hall, density, planned], dim=1)
        x = F.silu(first[1](p, x))
        return x + F.silu(second[1](p, x))

    def apply(p, cars, stops, hall, call, hour, alive):
        distance, between, here, there = way(cars, call)
        ring = picture(p, cars, stops, hall, here, alive).transpose(1, 2)
        rows = torch.arange(len(ring), device=ring.device)
        at_car = ring[rows.unsqueeze(1), here]
        at_call = ring[rows, there].unsqueeze(1).expand_as(at_car)
        halts = (stops * between).sum(dim=-1)
        eta = pace[1](p) * distance + dwell[1](p) * halts
        plain = torch.cat([cars[..., 2:], torch.log1p(eta).unsqueeze(-1), torch.cos(math.pi * cars[..., :1] / FLOORS)], dim=-1)
        h = torch.tanh(own[1](p, torch.cat([plain, at_car, at_call], dim=-1)))
        present = h * alive.unsqueeze(-1)
        number = alive.sum(dim=1, keepdim=True) - alive
        rest = (present.sum(dim=1, keepdim=True) - present) / number.clamp(min=1).unsqueeze(-1)
        h = torch.tanh(h + others[1](p, rest))
        haste = rush[1](p, hour)
        logits = score[1](p, h).squeeze(-1) * torch.exp(haste).unsqueeze(-1) - 0.1 * eta
        logits = logits.masked_fill(alive == 0, FORBIDDEN)
        share = F.softmax(logits, dim=-1).detach()
        seen = (share.unsqueeze(-1) * h).sum(dim=1)
        calm = hush[1](p, hour).unsqueeze(-1)
        value = verdict[1](p, torch.tanh(judge[1](p, torch.cat([seen, ring.mean(dim=1), calm], dim=-1)))).squeeze(-1)
        return {"logits": logits, "value": value, "eta": eta}

    return init, apply


class Functional(nn.Module):
    def __init__(self, init, apply):
        super().__init__()
        self.p = nn.ParameterDict({k: nn.Parameter(v) for k, v in init().items()})
        self.apply_ = apply

    def forward(self, **inputs):
        return self.apply_(self.p, **inputs)


def build_model():
    return Functional(*controller())


# ---------------------------------------------------------------- recorded days

def place(floor, direction):
    return RING - 1 - floor if direction < 0 else floor


def observe(event):
    cars, stops, hall = np.zeros((CARS, 5), "float32"), np.zeros((CARS, RING), "float32"), np.zeros(RING, "float32")
    for i, c in enumerate(event["cars"]):
        cars[i] = c["floor"], c["dir"], c["load"] / CAPACITY, c["door"], c["speed"] / 2.5
        for floor, direction in c["stops"]:
            stops[i, place(floor, direction)] = 1.0
    for floor, direction, seconds in event["waiting"]:
        at = place(floor, direction)
        hall[at] = max(hall[at], np.log1p(seconds / 10.0))
    alive = np.array([c["in_service"] for c in event["cars"]], "float32")
    return {"cars": cars, "stops": stops, "hall": hall, "call": np.array(event["call"], "int64"),
            "hour": np.float32(event["t"] / 3600.0), "alive": alive}


def advantages(day):
    """Generalised advantage estimates where the time between decisions varies."""
    events = day["events"]
    times = [e["t"] for e in events] + [day["closed_at"]]
    values = [e["value"] for e in events] + [day["last_value"] if day["cut_off"] else 0.0]
    out, running = np.zeros(len(events)), 0.0
    for i in reversed(range(len(events))):
        discount = GAMMA ** ((times[i + 1] - times[i]) / UNIT)
        delta = events[i]["reward"] + discount * values[i + 1] - values[i]
        running = delta + discount * LAMBDA * running
        out[i] = running
    return out, out + np.array(values[:-1])


def read_days(split):
    samples = []
    for name in DAYS[split]:
        with open(os.path.join(DATA, name + ".json")) as f:
            day = json.load(f)
        adv, returns = advantages(day)
        for e, a, g in zip(day["events"], adv, returns):
            labels = np.array([e["choice"], e["logp"], a, g, e["value"]], "float32")
            samples.append({**observe(e), "labels": labels})
    return samples


def build_dataset(split):
    return read_days(split)


def build_dataloader(split):
    return DataLoader(read_days(split), batch_size=12, shuffle=False, drop_last=False)


# ---------------------------------------------------------------- PPO

def log_chance(outputs, choice):
    logp = F.log_softmax(outputs["logits"], dim=-1)
    return logp, logp.gather(1, choice.long().unsqueeze(1)).squeeze(1)


def loss(outputs, labels):
    choice, old_logp, adv, returns, old_value = labels.unbind(dim=1)
    logp, chosen = log_chance(outputs, choice)
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    ratio = torch.exp(chosen - old_logp)
    policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
    near = old_value + (outputs["value"] - old_value).clamp(-VALUE_CLIP, VALUE_CLIP)
    value = 0.5 * torch.max((outputs["value"] - returns) ** 2, (near - returns) ** 2).mean()
    entropy = -(logp.exp() * logp).sum(dim=-1).mean()
    return policy + VALUE_WEIGHT * value - ENTROPY * entropy


def metric(outputs, labels):
    choice, old_logp, _, returns, _ = labels.unbind(dim=1)
    logp, chosen = log_chance(outputs, choice)
    gap = chosen - old_logp
    explained = 1 - (returns - outputs["value"]).var() / returns.var()
    return {"kl": (torch.exp(gap) - 1 - gap).mean(), "explained": explained,
            "same": (outputs["logits"].argmax(dim=-1) == choice.long()).float().mean(),
            "seconds": 4.0 * (logp.exp() * outputs["eta"]).sum(dim=-1).mean()}


def build_optimizer(model):
    critic = ("p.judge_", "p.verdict_", "p.hush_")
    named = list(model.named_parameters())
    return torch.optim.Adam([{"params": [p for n, p in named if not n.startswith(critic)], "lr": 3e-3},
                             {"params": [p for n, p in named if n.startswith(critic)], "lr": 6e-3}],
                            betas=(0.9, 0.98), eps=1e-5)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=32)


def train_step(model, optimizer, batch):
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    optimizer.zero_grad()
    value = loss(model(**inputs), batch["labels"])
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return {"loss": value.detach(), "norm": norm}


@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        event = json.load(f)
    kind = next(model.parameters()).dtype
    batch = {k: torch.as_tensor(v).unsqueeze(0) for k, v in observe(event).items()}
    out = model(**{k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()})
    chances = F.softmax(out["logits"], dim=-1)[0]
    return {"chances": chances.numpy(), "car": int(chances.argmax()), "value": out["value"][0].numpy()}
