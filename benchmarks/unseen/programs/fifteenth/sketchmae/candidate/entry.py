from paddle.io import DataLoader

from pixelmask import recipe, report
from pixelmask.autoencoder import PixelMask
from pixelmask.images import Pictures
from pixelmask.options import OPTIONS
from pixelmask.patches import masked_error


def build_dataset(split):
    return Pictures(split)


def build_dataloader(split):
    training = split == "train"
    return DataLoader(
        build_dataset(split),
        batch_size=OPTIONS.pictures.batch,
        shuffle=training,
        drop_last=training,
    )


def build_model():
    return PixelMask(OPTIONS)


def build_optimizer(model):
    return recipe.adamw(model, OPTIONS)


def build_scheduler(optimizer):
    return recipe.rates(optimizer, OPTIONS)


def loss(outputs, labels):
    return masked_error(outputs, labels, OPTIONS.patch)


def metric(outputs, labels):
    return report.quality(outputs, labels, OPTIONS)


def train_step(model, optimizer, batch):
    return recipe.step_in_pieces(model, optimizer, batch, loss, OPTIONS.pieces)


def predict(path, model):
    return report.complete(path, model, OPTIONS)
