import numpy as np
import paddle

from .classifier import SETTING, DigitClassifier, smoothed_cross_entropy
from .reader import DigitSet, pipeline, reader


def build_model():
    return DigitClassifier(**SETTING)


def loss(outputs, labels):
    return smoothed_cross_entropy(outputs, labels)


def metric(outputs, labels):
    scores, labels = outputs.numpy(), labels.numpy()
    place = (scores > np.take_along_axis(scores, labels[:, None], 1)).sum(1)      # 0: the label has the highest score
    recall = [np.mean(place[labels == c] == 0) for c in np.unique(labels)]
    return {"top1": float(np.mean(place < 1)), "top3": float(np.mean(place < 3)), "balanced": float(np.mean(recall))}


def build_optimizer(model):
    schedule = paddle.optimizer.lr.ExponentialDecay(learning_rate=0.004, gamma=0.97)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 1e-3},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return paddle.optimizer.RMSProp(schedule, rho=0.9, epsilon=1e-3, momentum=0.9, parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def transforms(split):
    return pipeline(split)


def build_dataset(split):
    return DigitSet(split)


def build_dataloader(split):
    return reader(split)
