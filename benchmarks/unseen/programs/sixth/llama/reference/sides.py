from .config import ModelArgs, TrainArgs
from .data import ByteWindows, make_loader
from .model import Transformer
from .train import configure_optimizer, configure_scheduler, lm_loss, lm_metric

train_args = TrainArgs()


def build_model():
    return Transformer(ModelArgs())


def loss(outputs, labels):
    return lm_loss(outputs, labels, train_args.z_loss)


def metric(outputs, labels):
    return lm_metric(outputs, labels)


def build_optimizer(model):
    return configure_optimizer(model, train_args)


def build_scheduler(optimizer):
    return configure_scheduler(optimizer, train_args)


def build_dataset(split):
    return ByteWindows(train_args, split)


def build_dataloader(split):
    return make_loader(train_args, split)
