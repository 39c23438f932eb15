from paddle.nn.utils import clip_grad_norm_

from . import curves, features, optim, scores, survival
from .network import HazardNet

MAX_NORM = 0.5


def build_model():
    return HazardNet()


def build_dataset(split):
    return features.Survey.of(split)


def build_dataloader(split):
    return features.make_loader(split)


def transforms(split):
    return features.fitted()[1].steps


def loss(outputs, labels):
    return survival.total_loss(outputs, labels)


def metric(outputs, labels):
    return scores.report(outputs, labels)


def build_optimizer(model):
    return optim.create(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    losses = survival.total_loss(model(batch["numeric"], batch["codes"]), batch["target"])
    losses["loss"].backward()
    # clipped here: with groups, the optimizer's own clipping takes each group's norm
    norm = clip_grad_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.clear_grad()
    return {"grad_norm": norm, **{key: value.detach() for key, value in losses.items()}}


def predict(path, model):
    return curves.survival_curves(path, model)
