"""Knitting charts: from four worked rows to the stitches of the next one."""

from .knitting import knit_on
from .losses import knit_loss
from .metrics import knit_metric
from .net import KnitNet
from .training import schedule, sgd, step
from .windows import NextRow, batches


def build_model():
    return KnitNet()


def build_dataset(split):
    return NextRow(split)


def build_dataloader(split):
    return batches(split)


def loss(outputs, labels):
    return knit_loss(outputs, labels)


def metric(outputs, labels):
    return knit_metric(outputs, labels)


def build_optimizer(model):
    return sgd(model)


def build_scheduler(optimizer):
    return schedule(optimizer)


def train_step(model, optimizer, batch):
    return step(model, optimizer, batch)


def predict(path, model):
    return knit_on(path, model)
