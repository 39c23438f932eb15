import json
import os

import dataset
from losses import forecast_loss, scores
from network import Forecaster
from training import Yogi, warm_then_steps

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings.json"), encoding="utf-8") as stream:
    S = json.load(stream)


def build_model():
    return Forecaster(S["window"], S["net"], len(S["quantiles"]))


def build_dataset(split):
    return dataset.ForecastWindows(split, **S["window"])


def build_dataloader(split):
    return dataset.batches(split, S["window"])


def loss(outputs, labels):
    return forecast_loss(outputs, labels, S["quantiles"], **S["criterion"])


def metric(outputs, labels):
    return scores(outputs, labels, S["quantiles"])


def build_optimizer(model):
    free = [p.name for p in model.parameters() if p.ndim == 1] + [model.patches.pos.name, model.patches.series.name]
    return Yogi(warm_then_steps(**S["rate"]), model.parameters(), free, **S["yogi"])


def build_scheduler(optimizer):
    return optimizer._learning_rate
