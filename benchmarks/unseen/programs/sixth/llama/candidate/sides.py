from .corpus import Corpus, batches
from .decoder import Decoder
from .hyper import small
from .learning import evaluate, objective, optimizer_for


def build_model():
    return Decoder(small())


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return evaluate(outputs, labels)


def build_optimizer(model):
    return optimizer_for(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def build_dataset(split):
    return Corpus(split)


def build_dataloader(split):
    return batches(split)
