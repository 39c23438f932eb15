"""Glue for the comparison."""
from .engine import Stepper, adam
from .loaders import PlateSet, plate_loader
from .losses import RestorationLoss
from .model import RestorationModel
from .quality import measure

criterion = RestorationLoss()
train_step = Stepper(criterion)


def build_model():
    return RestorationModel()


def build_dataset(split):
    return PlateSet(split)


def build_dataloader(split):
    return plate_loader(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return measure(outputs, labels)


def build_optimizer(model):
    return adam(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate
