"""The beach watch in Paddle."""
import json

import numpy as np
import paddle
from paddle.optimizer.lr import OneCycleLR

from .feed import BeachWatch, batches, features
from .frames import Coast, Log, READINGS
from .likelihood import chance_of_none, criterion, mean_count, report
from .network import BeachLitter

HIGHEST = 0.08
STEPS = 60


def build_model():
    return BeachLitter(Coast())


def build_dataset(split):
    return BeachWatch(split)


def build_dataloader(split):
    return batches(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return report(outputs, labels)


def build_optimizer(model):
    lookups = model.shore.parameters() + model.soil.parameters()
    ids = {id(p) for p in lookups}
    others = [p for p in model.parameters() if id(p) not in ids]
    rate = OneCycleLR(max_learning_rate=HIGHEST, total_steps=STEPS, divide_factor=10.0,
                      end_learning_rate=HIGHEST / 1000.0, phase_pct=0.25)
    return paddle.optimizer.Adagrad(
        learning_rate=rate, epsilon=1e-10, initial_accumulator_value=0.05,
        parameters=[{"params": others, "weight_decay": 0.0}, {"params": lookups, "weight_decay": 0.01}],
        grad_clip=paddle.nn.ClipGradByValue(max=0.25))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    batch = dict(batch)
    labels = batch.pop("labels")
    value = criterion(model(**batch), labels)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()


def predict(path, model):
    with open(path) as f:
        plan = json.load(f)
    coast = Coast()
    one = features(
        Log(coast), coast.names.index(plan["beach"]), np.datetime64(plan["date"]),
        np.array([float(plan[k]) for k in READINGS]), np.radians(float(plan["wind_from"])),
        float(plan["length_m"]), plan["minutes"] * plan["volunteers"] / 60.0)
    dtype = model.base.weight.dtype
    with paddle.no_grad():
        pred = model(**{k: paddle.to_tensor(v[None]) if k == "beach" else paddle.to_tensor(v[None]).astype(dtype) for k, v in one.items()})
        return {"expected": mean_count(pred)[0].numpy(), "none": chance_of_none(pred)[0].numpy()}
