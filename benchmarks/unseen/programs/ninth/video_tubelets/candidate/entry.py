"""The functions of the port's side."""
from . import engine
from .config import cfg
from .model import FactorisedViViT
from .video_data import VideoDataset, VideoLoader, build_transforms


def build_model():
    return FactorisedViViT(cfg.model)


def build_dataset(split):
    return VideoDataset(split)


def build_dataloader(split):
    return VideoLoader(split)


def transforms(split):
    return build_transforms()


def loss(outputs, labels):
    return engine.criterion(outputs, labels)


def metric(outputs, labels):
    return engine.evaluate(outputs, labels)


def build_optimizer(model):
    return engine.create_optimizer(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    clips, targets = batch
    return engine.train_one(model, optimizer, clips, targets)
