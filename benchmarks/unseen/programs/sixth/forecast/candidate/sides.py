import paddle

from .forecaster import Forecaster
from .objective import figures, objective
from .station import Windows, batches


def build_model():
    return Forecaster()


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return figures(outputs, labels)


def build_optimizer(model):
    rate = paddle.optimizer.lr.StepDecay(learning_rate=5e-3, step_size=2, gamma=0.5)
    return paddle.optimizer.Adam(rate, parameters=model.parameters(), weight_decay=1e-4)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    return batches(split)
