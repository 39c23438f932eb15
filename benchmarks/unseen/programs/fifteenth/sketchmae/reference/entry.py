from torch.utils.data import DataLoader

from maekit.config import CONFIG
from maekit.data import PictureFolder
from maekit.evaluate import reconstruct, reconstruction_metrics
from maekit.nets import MaskedAutoencoder
from maekit.training import optim
from maekit.training.losses import MaskedPixelLoss
from maekit.training.step import accumulate_step

criterion = MaskedPixelLoss(CONFIG.mae.patch)


def build_model():
    return MaskedAutoencoder(CONFIG.mae, CONFIG.picture.size)


def build_dataset(split):
    return PictureFolder(split, CONFIG)


def build_dataloader(split):
    return DataLoader(
        build_dataset(split),
        batch_size=CONFIG.picture.batch_size,
        shuffle=split == "train",
        drop_last=split == "train",
    )


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return reconstruction_metrics(outputs, labels, CONFIG)


def build_optimizer(model):
    return optim.adamw(model, CONFIG.optim, CONFIG.mae.depth)


def build_scheduler(optimizer):
    return optim.warmup_cosine(optimizer, CONFIG.optim)


def train_step(model, optimizer, batch):
    return accumulate_step(model, optimizer, batch, criterion, CONFIG.optim.accumulate)


def predict(path, model):
    return reconstruct(path, model, CONFIG)
