"""Paddle port: bees on the entrance board."""
from paddle.io import DataLoader

from .board import Board
from .counter import Counter
from .figures import count as predict  # noqa: F401
from .figures import figures as metric  # noqa: F401
from .losses import whole as loss  # noqa: F401
from .solver import learn, solver


def build_model():
    return Counter()


def build_dataset(split):
    return Board("data", split)


def build_dataloader(split):
    training = split == "train"
    return DataLoader(build_dataset(split), batch_size=4, shuffle=False, drop_last=training)


def build_optimizer(model):
    return solver(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return learn(model, optimizer, *batch)
