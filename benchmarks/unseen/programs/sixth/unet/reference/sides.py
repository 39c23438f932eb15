from .config import Config
from .data import CellDataset, make_loader
from .losses import SegLoss
from .metrics import segmentation_scores
from .model import UNet
from .optim import make_optimizer, make_scheduler

cfg = Config()


def build_model():
    return UNet(cfg.model)


def loss(outputs, labels):
    return SegLoss(cfg.loss)(outputs, labels)


def metric(outputs, labels):
    return segmentation_scores(outputs["out"], labels)


def build_optimizer(model):
    return make_optimizer(model, cfg.optim)


def build_scheduler(optimizer):
    return make_scheduler(optimizer, cfg.optim)


def build_dataset(split):
    return CellDataset(cfg.data, train=split == "train")


def build_dataloader(split):
    return make_loader(cfg.data, train=split == "train")
