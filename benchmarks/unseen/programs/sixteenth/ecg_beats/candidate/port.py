"""Paddle port of the ECG beat classifier."""
import json

import numpy as np
import paddle
import paddle.nn.functional as F

from heartport import recipe
from heartport.beats import Beats, Recording, loader_for
from heartport.nets import HeartNet
from heartport.settings import read_settings

cfg = read_settings()
_weights = recipe.class_weights(Beats(cfg, "train").labels, cfg.num_classes, cfg.loss["beta"])


def build_model():
    return HeartNet(leads=2, classes=cfg.num_classes, **cfg.model)


def build_dataset(split):
    return Beats(cfg, split)


def build_dataloader(split):
    return loader_for(cfg, split)


def loss(outputs, labels):
    return recipe.focal_loss(outputs, labels, _weights, cfg.loss["gamma"])


def metric(outputs, labels):
    return recipe.scores(outputs, labels)


def build_optimizer(model):
    return recipe.momentum_optimizer(model, cfg.optim, cfg.schedule, len(build_dataloader("train")))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return recipe.step(model, optimizer, batch, loss, cfg.optim["clip"])


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        strip = json.load(f)
    recording = Recording(strip["record"], cfg.window)
    chosen = [k for k, p in enumerate(recording.positions) if int(p) in set(strip["beats"])]
    dtype = model.parameters()[0].dtype
    wave = paddle.to_tensor(np.stack([recording.beat(recording.positions[k]) for k in chosen])).astype(dtype)
    rhythm = paddle.to_tensor(recording.rr[chosen]).astype(dtype)
    probability = F.softmax(model(wave, rhythm), axis=-1).numpy()
    names = list(cfg.classes)
    winners = probability.argmax(1)
    labels = [names[w] if row[w] >= 0.28 else "?" for w, row in zip(winners, probability)]
    return {
        "probabilities": probability,
        "labels": labels,
        "pvc_burden": float(np.mean(winners == names.index("V"))),
    }


if __name__ == "__main__":
    paddle.seed(0)
    net = build_model()
    opt = build_optimizer(net)
    train_loader = build_dataloader("train")
    for epoch in range(cfg.schedule["epochs"]):
        train_loader.batch_sampler.epoch = epoch
        net.train()
        for batch in train_loader:
            log = train_step(net, opt, batch)
            build_scheduler(opt).step()
        print(epoch, float(log["loss"]))
