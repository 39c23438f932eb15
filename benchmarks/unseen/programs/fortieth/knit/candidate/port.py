"""The knitting model in PaddlePaddle: what the comparison calls."""

from . import recipe
from .continuing import continue_chart
from .network import NextRowNet
from .objective import row_loss as loss  # noqa: F401
from .samples import Windows, make_loader
from .scores import row_metric as metric  # noqa: F401


def build_model():
    return NextRowNet()


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    return make_loader(split)


def build_optimizer(model):
    return recipe.build_momentum(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return recipe.one_step(model, optimizer, batch)


def predict(path, model):
    return continue_chart(path, model)
