"""What the trainer and the checker call."""
import os

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader

from . import net  # noqa: F401  (registers the model)
from .cells import Cells, EpochSampler
from .config import CONFIG
from .losses import Criterion
from .optim import adamw
from .registry import MODELS
from .scores import scores

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
criterion = Criterion(CONFIG["loss"])


def build_model():
    return MODELS.build(CONFIG["model"])


def build_dataset(split):
    return Cells(ROOT, CONFIG["data"], split)


def transforms(split):
    return build_dataset(split).transform


def build_dataloader(split):
    data, size = build_dataset(split), CONFIG["data"]["batch_size"]
    if split == "train":
        sampler = EpochSampler(len(data), CONFIG["data"]["seed"])
        return DataLoader(data, batch_sampler=BatchSampler(sampler=sampler, batch_size=size, drop_last=True))
    return DataLoader(data, batch_size=size + 1, shuffle=False, drop_last=False)


def set_epoch(loader, epoch):
    if isinstance(loader.batch_sampler.sampler, EpochSampler):
        loader.batch_sampler.sampler.epoch = epoch


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return scores(outputs["mask"].detach().cpu().numpy(), labels["mask"].cpu().numpy(), **CONFIG["metric"])


def build_optimizer(model):
    return adamw(model, CONFIG["schedule"], **CONFIG["optimizer"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    images, target = batch
    parts = criterion(model(images), target)
    parts["loss"].backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), CONFIG["optimizer"]["clip"])
    optimizer.step()
    optimizer.clear_grad()
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


@paddle.no_grad()
def predict(path, model):
    with np.load(path) as file:
        sample = {"image": file["image"].astype("float64") / 255.0}
    sample = transforms("val")(sample)
    image = paddle.to_tensor(sample["image"][None, None]).astype(model.head.weight.dtype)
    return paddle.nn.functional.sigmoid(model(image)["mask"])[0, 0]
