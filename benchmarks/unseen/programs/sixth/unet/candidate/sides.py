from .cells import Cells, reader
from .criterion import criterion
from .scores import scores
from .settings import DATA, LOSS, NET, TRAIN
from .solver import solver
from .unet import AttentionUNet


def build_model():
    return AttentionUNet(**vars(NET))


def loss(outputs, labels):
    return criterion(outputs, labels, LOSS)


def metric(outputs, labels):
    return scores(outputs["out"], labels)


def build_optimizer(model):
    return solver(model, TRAIN)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def build_dataset(split):
    return Cells(DATA, split)


def build_dataloader(split):
    return reader(DATA, split)
