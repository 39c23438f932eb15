"""What the trainer and the checker call."""
import os

import numpy as np
import torch
from torch.utils.data import DataLoader

from . import net  # noqa: F401  (registers the model)
from .cells import Cells, EpochSampler
from .config import CONFIG
from .losses import Criterion
from .optim import adamw
from .registry import MODELS, SCHEDULES
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
        return DataLoader(data, batch_size=size, sampler=EpochSampler(len(data), CONFIG["data"]["seed"]), drop_last=True)
    return DataLoader(data, batch_size=size + 1, shuffle=False)


def set_epoch(loader, epoch):
    if isinstance(loader.sampler, EpochSampler):
        loader.sampler.epoch = epoch


def inputs():
    data = build_dataset("val")
    return np.stack([data[i][0] for i in range(3)])


def labels():
    data = build_dataset("val")
    return {key: np.stack([data[i][1][key] for i in range(3)]) for key in ("mask", "weight")}


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return scores(outputs["mask"].detach().cpu().numpy(), labels["mask"].cpu().numpy(), **CONFIG["metric"])


def build_optimizer(model):
    return adamw(model, **CONFIG["optimizer"])


def build_scheduler(optimizer):
    return SCHEDULES.build(CONFIG["schedule"], optimizer)


def train_step(model, optimizer, batch):
    images, target = batch
    optimizer.zero_grad()
    parts = criterion(model(images), target)
    parts["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CONFIG["optimizer"]["clip"])
    optimizer.step()
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


def predict(path, model):
    with np.load(path) as file:
        sample = {"image": file["image"].astype("float64") / 255.0}
    for step in build_dataset("val").transform.transforms:
        sample = step(sample)
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        out = model(torch.as_tensor(sample["image"][None, None]).to(dtype))
    return torch.sigmoid(out["mask"])[0, 0]
