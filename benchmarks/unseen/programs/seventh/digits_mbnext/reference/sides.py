import torch
import torch.nn as nn

from . import data
from .model import DigitNet
from .optim import RMSpropTF, param_groups

criterion = nn.CrossEntropyLoss(label_smoothing=0.1)


def build_model():
    return DigitNet()


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    ranks = outputs.topk(3, dim=1).indices
    hits = ranks == labels[:, None]
    per_class = [hits[labels == c, 0].float().mean() for c in labels.unique()]
    return {"top1": hits[:, 0].float().mean().item(), "top3": hits.any(1).float().mean().item(), "balanced": torch.stack(per_class).mean().item()}


def build_optimizer(model):
    return RMSpropTF(param_groups(model, weight_decay=1e-3), lr=0.004, alpha=0.9, eps=1e-3, momentum=0.9)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)


def transforms(split):
    return data.create_transform(split)


def build_dataset(split):
    return data.Digits(split, data.create_transform(split))


def build_dataloader(split):
    return data.create_loader(split)
