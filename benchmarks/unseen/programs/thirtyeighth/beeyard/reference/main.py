"""How many bees sit on the entrance board of a hive?"""
from torch.utils.data import DataLoader

from .counting import count_photo, errors
from .network import BeeCounter
from .objective import total_loss
from .photos import BoardPhotos
from .training import make_optimizer, make_scheduler, step

FOLDER = "data"
BATCH = 4


def build_model():
    return BeeCounter()


def build_dataset(split):
    return BoardPhotos(FOLDER, split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=False, drop_last=split == "train")


def build_optimizer(model):
    return make_optimizer(model)


def build_scheduler(optimizer):
    return make_scheduler(optimizer)


def loss(outputs, labels):
    return total_loss(outputs, labels)


def metric(outputs, labels):
    return errors(outputs, labels)


def train_step(model, optimizer, batch):
    image, target = batch
    return step(model, optimizer, image, target)


def predict(path, model):
    return count_photo(path, model)
