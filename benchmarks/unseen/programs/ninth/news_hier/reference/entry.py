"""What the training program and the checks call."""
import torch

from .criterion import FocalLoss
from .data import News, loader, vocabulary
from .model import HierarchicalClassifier
from .schedule import CosineRestarts
from .scores import scores
from .settings import settings

criterion = FocalLoss(settings.loss.gamma, settings.loss.class_weights, settings.loss.concentration)


def build_model():
    return HierarchicalClassifier(len(vocabulary()), len(settings.loader.classes), settings.model)


def build_dataset(split):
    return News(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return scores(outputs["logits"], labels)


def groups(model):
    plain, decayed = [], []
    for name, parameter in model.named_parameters():
        (plain if parameter.ndim < 2 or name.startswith("embedding") else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": settings.optimizer.weight_decay}, {"params": plain, "weight_decay": 0.0}]


def build_optimizer(model):
    o = settings.optimizer
    return torch.optim.AdamW(groups(model), lr=o.rate, betas=(o.beta1, o.beta2), eps=o.eps)


def build_scheduler(optimizer):
    s = settings.schedule
    return CosineRestarts(optimizer, s.first_cycle, s.growth, s.floor, s.shrink)


def train_step(model, optimizer, batch):
    labels = batch["labels"]
    outputs = model(**{key: value for key, value in batch.items() if key != "labels"})
    terms = loss(outputs, labels)
    optimizer.zero_grad()
    terms["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.optimizer.clip)
    optimizer.step()
    return {"loss": terms["loss"].detach(), "focal": terms["focal"].detach(), "norm": norm}
