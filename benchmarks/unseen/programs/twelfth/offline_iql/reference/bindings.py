from pathlib import Path

import numpy as np
import torch

from iql import settings
from iql.losses import total
from iql.metrics import report
from iql.networks import Agent
from iql.optim import Pair, actor_schedule
from iql.rollouts import Normaliser, Transitions, episodes, loader
from iql.train import train_step  # noqa: F401


def build_model():
    return Agent(**settings.model)


def inputs():
    data = Transitions("val")
    return tuple(torch.stack([data[i][k] for i in range(24)]) for k in range(3))


def labels():
    data = Transitions("val")
    return torch.stack([data[i][3] for i in range(24)])


def build_dataset(split):
    return Transitions(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    return total(outputs, labels)


def metric(outputs, labels):
    return report(outputs, labels, settings.algorithm["gamma"])


def build_optimizer(model):
    return Pair(model)


def build_scheduler(optimizer):
    return actor_schedule(optimizer)


@torch.no_grad()
def predict(path, model):
    """The action of the policy and its value in every first state."""
    norm = Normaliser()
    starts = norm(np.stack([t["obs"][0] for t in episodes(Path(path)).values()]))
    starts = torch.from_numpy(starts).to(next(model.parameters()).dtype)
    mean, _ = model.actor(starts)
    return {"action": mean.clamp(-0.95, 0.95).numpy(), "value": model.value(starts).numpy()}
