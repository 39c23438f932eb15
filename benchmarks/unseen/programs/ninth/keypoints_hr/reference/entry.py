from . import net, optim, pck  # noqa: F401
from . import losses as plugins  # noqa: F401
from .people import People, loader, steps
from .registry import EXPERIMENT, LOSSES, MODELS

criterion = LOSSES.build(EXPERIMENT["loss"])


def build_model():
    return MODELS.build(EXPERIMENT["model"])


def build_dataset(split):
    return People(split)


def build_dataloader(split):
    return loader(split)


def transforms(split):
    return steps(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return pck.pck(outputs["joints"], labels)


def build_optimizer(model):
    return optim.build(model)


def build_scheduler(optimizer):
    return optim.schedule(optimizer)


def train_step(model, optimizer, batch):
    images, labels = batch
    terms = criterion(model(images), labels)
    optimizer.zero_grad()
    terms["loss"].backward()
    optimizer.step()
    return {name: value.detach() for name, value in terms.items()}
