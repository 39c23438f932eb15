from paddle.io import BatchSampler, DataLoader

from . import objective as aim
from . import updates
from .ft import Averaged, Network
from .judge import judge
from .options import OPTIONS
from .table import Mixed, Patients


def build_model():
    data = OPTIONS.data
    return Averaged(lambda: Network(OPTIONS.model, len(data.numbers), list(data.binned.values())))


def build_dataset(split):
    return Patients(OPTIONS.data, split)


def build_dataloader(split):
    data, size = build_dataset(split), OPTIONS.data.batch
    if split == "train":
        order = Mixed(data.labels, OPTIONS.data.seed)
        return DataLoader(data, batch_sampler=BatchSampler(sampler=order, batch_size=size, drop_last=True))
    return DataLoader(data, batch_size=2 * size)


def set_epoch(loader, epoch):
    if isinstance(loader.batch_sampler.sampler, Mixed):
        loader.batch_sampler.sampler.epoch = epoch


def loss(outputs, labels):
    return aim.objective(outputs, labels, OPTIONS.loss)


def metric(outputs, labels):
    return judge(outputs["average"].detach().cpu().numpy(), labels.cpu().numpy(), OPTIONS.metric)


def build_optimizer(model):
    return updates.build(model, OPTIONS.optimizer, OPTIONS.schedule)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return updates.step(model, optimizer, batch, loss, OPTIONS.step)
