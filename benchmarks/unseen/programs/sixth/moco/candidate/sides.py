from .contrast import MomentumContrast
from .objectives import objective, retrieval
from .textures import Textures, batches
from .training import optimizer_of, step


def build_model():
    return MomentumContrast()


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return retrieval(outputs, labels)


def build_optimizer(model):
    return optimizer_of(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return step(model, optimizer, batch)


def build_dataset(split):
    return Textures(split)


def build_dataloader(split):
    return batches(split)
