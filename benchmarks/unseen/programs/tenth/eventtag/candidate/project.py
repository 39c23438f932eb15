"""What the comparison calls."""
from . import criterion, solver
from .config import cfg
from .crnn import CRNN
from .dataset import SoundEvents, make_loader


def build_model():
    return CRNN(cfg)


def build_dataset(split):
    return SoundEvents(split)


def build_dataloader(split):
    return make_loader(split)


loss = criterion.tagging_loss
metric = criterion.evaluate
build_optimizer = solver.make_optimizer


def build_scheduler(optimizer):
    return optimizer._learning_rate
