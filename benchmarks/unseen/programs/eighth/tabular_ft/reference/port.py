import torch
from torch.utils.data import DataLoader

from . import objective as aim
from . import updates
from .ft import Averaged, Network
from .judge import judge
from .options import OPTIONS
from .table import Mixed, Patients


def build_model():
    data = OPTIONS.data
    return Averaged(Network(OPTIONS.model, len(data.numbers), list(data.binned.values())))


def build_dataset(split):
    return Patients(OPTIONS.data, split)


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        return DataLoader(data, OPTIONS.data.batch, sampler=Mixed(data.labels, OPTIONS.data.seed), drop_last=True)
    return DataLoader(data, 2 * OPTIONS.data.batch)


def set_epoch(loader, epoch):
    if isinstance(loader.sampler, Mixed):
        loader.sampler.epoch = epoch


def rows():
    return torch.utils.data.default_collate([build_dataset("val")[i] for i in range(0, 112, 5)])


def inputs():
    batch = rows()
    return {"numbers": batch["numbers"], "codes": batch["codes"]}


def labels():
    return rows()["labels"]


def loss(outputs, labels):
    return aim.objective(outputs, labels, OPTIONS.loss)


def metric(outputs, labels):
    return judge(outputs["average"].detach().cpu().numpy(), labels.cpu().numpy(), OPTIONS.metric)


def build_optimizer(model):
    return updates.build(model, OPTIONS.optimizer)


def build_scheduler(optimizer):
    return updates.schedule(optimizer, OPTIONS.schedule)


def train_step(model, optimizer, batch):
    return updates.step(model, optimizer, batch, loss, OPTIONS.step)
