import json

import numpy as np
import paddle

from . import criteria, model, pipeline, training
from .settings import PIPE, VAR_FLOOR, Z90

build_model = model.create
build_optimizer = training.configure
train_step = training.update
metric = criteria.scores


def loss(outputs, labels):
    return training.criterion(outputs, labels)


def transforms(split="val"):
    return list(pipeline.STEPS)


def build_dataset(split):
    return pipeline.Tracks(split)


def build_dataloader(split):
    return pipeline.loader(split)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, net):
    with open(path, encoding="utf-8") as f:
        item = pipeline.parse(json.load(f))
    for step in pipeline.STEPS:
        item = step(item)
    dtype = net.readout.weight.dtype
    feed = {k: paddle.to_tensor(v) for k, v in pipeline.batchify([item]).items()}
    feed = {k: v.astype(dtype) if v.is_floating_point() else v for k, v in feed.items()}
    with paddle.no_grad():
        y = net(**feed)[0]
    mu, sigma = (float(s) for s in pipeline.sensor_scale("a"))
    track = y[:, 0] * sigma + mu
    half = Z90 * sigma * paddle.clip(y[:, 1], min=VAR_FLOOR).sqrt()
    days = feed["query"][0] * PIPE["unit"]
    slope = (track[1:] - track[:-1]) / (days[1:] - days[:-1])
    return {"mean": np.asarray(track), "band": np.stack([np.asarray(track - half), np.asarray(track + half)], -1),
            "slope": np.asarray(slope)}


if __name__ == "__main__":
    paddle.seed(0)
    training.train(build_model(), build_dataloader("train"), build_dataloader("val"))
