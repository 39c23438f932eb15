import numpy as np
import torch

import engine
from mae import MaskedAutoencoderViT
from mae.shapes import Shapes


def build_model():
    return MaskedAutoencoderViT()


def build_loss():
    return engine.NormPixLoss()


def build_optimizer(model):
    return torch.optim.AdamW(engine.param_groups(model, 0.05), lr=1.5e-3, betas=(0.9, 0.95))


def build_scheduler(optimizer):
    return engine.WarmupCosine(optimizer)


def build_dataset():
    return Shapes()


def inputs():
    return {"imgs": np.random.RandomState(41).randn(4, 3, 16, 16).astype(np.float32)}


def labels():
    return {"imgs": inputs()["imgs"]}


def metric(outputs, labels):
    return engine.reconstruction_metrics(outputs, labels["imgs"])


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
