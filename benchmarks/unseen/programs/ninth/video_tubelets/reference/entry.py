from torch.optim.lr_scheduler import LambdaLR

from . import clips, recipe
from .network import VideoTransformer
from .options import ARCH


def build_model():
    return VideoTransformer(ARCH)


def build_dataset(split):
    return clips.Clips(split)


def build_dataloader(split):
    return clips.Batches(split)


def transforms(split):
    return clips.pipeline()


def loss(outputs, labels):
    return recipe.soft_cross_entropy(outputs, labels)


def metric(outputs, labels):
    return {
        "top1": recipe.hits(outputs, labels, 1).double().mean(),
        "top2": recipe.hits(outputs, labels, 2).double().mean(),
        "class_mean": recipe.class_mean(outputs, labels),
    }


def build_optimizer(model):
    return recipe.optimizer(model)


def build_scheduler(optimizer):
    return LambdaLR(optimizer, recipe.factor)


def train_step(model, optimizer, batch):
    return recipe.step(model, optimizer, *batch)
