import torch

from . import engine
from .gratings import Gratings, loader
from .losses import retrieval_metric, total_loss
from .moco import MoCo
from .opts import get_opts

opts = get_opts()


def build_model():
    return MoCo(opts)


def loss(outputs, labels):
    return total_loss(outputs, labels, opts)


def metric(outputs, labels):
    return retrieval_metric(outputs, labels)


def build_optimizer(model):
    return engine.make_optimizer(model, opts)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=opts.t_max)


def train_step(model, optimizer, batch):
    return engine.train_step(model, optimizer, batch, opts)


def build_dataset(split):
    return Gratings(split)


def build_dataloader(split):
    return loader(opts, split)
