import torch
import torch.nn.functional as F

from . import features, metrics
from .model import DeepFFM
from .optim import WideAndDeep


def build_model():
    return DeepFFM(features.encoder.sizes, len(features.encoder.genres) + 1, len(features.DENSE))


def loss(outputs, labels):
    return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), pos_weight=torch.tensor(1.5, dtype=outputs.dtype))


def metric(outputs, labels):
    return metrics.report(outputs.detach().numpy(), labels.numpy())


def build_optimizer(model):
    return WideAndDeep(model)


def build_dataset(split):
    return features.Clicks(split)


def build_dataloader(split):
    return features.loader(split)
