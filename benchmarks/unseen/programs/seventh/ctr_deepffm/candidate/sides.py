from . import judge
from .clicklog import SCHEMA, ClickLog, feed
from .network import ClickModel
from .updates import Both


def build_model():
    return ClickModel(SCHEMA.rows, len(SCHEMA.names), len(SCHEMA.genre) + 1, len(SCHEMA.numbers))


def loss(outputs, labels):
    return judge.click_loss(outputs, labels)


def metric(outputs, labels):
    return judge.figures(outputs.numpy(), labels.numpy())


def build_optimizer(model):
    return Both(model)


def build_dataset(split):
    return ClickLog(split)


def build_dataloader(split):
    return feed(split)
