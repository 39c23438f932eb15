"""Traffic light plans in Paddle: the functions that a check calls."""
import json
import math

import paddle

from . import junctions, nets, training
from .kit import make, read_settings

SETTINGS = read_settings()
TABLES = SETTINGS["tables"]


def build_model():
    return nets.SignalPlan(SETTINGS, junctions.N_FEATURES)


def build_dataset(split):
    return junctions.JunctionTable(split, TABLES)


def build_dataloader(split):
    return junctions.batches(split, TABLES)


def loss(outputs, labels):
    return training.objective(outputs, labels, **SETTINGS["objective"])


def metric(outputs, labels):
    greens = labels[:, :-3]
    real = (greens > 0).astype(greens.dtype)
    stages = real.sum()
    away = paddle.abs(outputs["greens"] - greens)
    near = (away <= 3).astype(greens.dtype) * real
    cos, sin = labels[:, -2], labels[:, -1]
    x, y = outputs["way"].unbind(-1)
    # the angle between both points, without a detour over 2 pi
    between = paddle.atan2(y * cos - x * sin, x * cos + y * sin)
    return {
        "seconds_off": (away * real).sum() / stages,
        "within_3s": near.sum() / stages,
        "offset_s": paddle.mean(paddle.abs(between) * labels[:, -3]) / (2 * math.pi),
        "delay": outputs["delay"].mean(),
    }


def build_optimizer(model):
    how = dict(SETTINGS["rate"])
    rate = make(how.pop("kind"), SETTINGS["adam"]["rate"], **how)
    return training.adam(model, rate, SETTINGS["adam"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    plan = batch["target"]
    terms = loss(model(**{k: v for k, v in batch.items() if k != "target"}), plan)
    terms["loss"].backward()
    length = training.shorten(model.parameters(), SETTINGS["adam"]["longest_gradient"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": terms["loss"], "norm": length}


@paddle.no_grad()
def predict(path, model):
    crossing = json.load(open(path))
    scaler = build_dataset("train").scaler
    arrays = junctions.to_arrays(crossing, scaler, TABLES["slots"], TABLES["stages"])
    kind = model.parameters()[0].dtype
    found = model(**{k: paddle.to_tensor(v[None]).astype(kind) for k, v in arrays.items()})
    count = len(crossing["phases"])
    raw = found["greens"].numpy()[0, :count]
    cycle = round(found["cycle"].item())
    seconds = [math.floor(g) for g in raw]
    left = cycle - SETTINGS["clock"]["intergreen"] * count - sum(seconds)
    seconds[int(raw.argmax())] += left
    x, y = found["way"].numpy()[0].tolist()
    turn = math.atan2(y, x) / (2 * math.pi) % 1.0
    return dict(id=crossing["id"], greens=seconds, raw=raw, cycle=cycle, offset=turn * cycle, delay=found["delay"].item())
