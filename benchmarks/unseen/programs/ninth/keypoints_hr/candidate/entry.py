"""The port's side."""
from . import config, criterion, data, hrnet, metrics, solver  # noqa: F401
from .plugins import create

_loss = create(config.criterion)
_pck = metrics.PCK()


def build_model():
    return create(config.model)


def build_dataset(split):
    return data.Persons(split)


def build_dataloader(split):
    return data.build_loader(split)


def transforms(split):
    return data.build_transforms(split)


def loss(outputs, labels):
    return _loss(outputs, labels)


def metric(outputs, labels):
    return _pck(outputs["joints"], labels)


def build_optimizer(model):
    return solver.make_optimizer(model)


def build_scheduler(optimizer):
    return optimizer.inner._learning_rate


def train_step(model, optimizer, batch):
    return solver.train_step(model, optimizer, batch, _loss)
