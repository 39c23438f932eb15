"""The candidate side: the functions that paralign calls, each handing out a part of the package ``informer_paddle``."""

from pathlib import Path

import numpy as np
import paddle
from informer_paddle import data
from informer_paddle import train as training
from informer_paddle.metric import errors
from informer_paddle.model import AHEAD, KNOWN, Informer, fix_keys

PROJECT = Path(__file__).resolve().parents[1]
EPOCHS = 2


def build_model():
    return Informer()  # paralign gives it the reference's weights


def build_dataset(split):
    return data.Windows(PROJECT / "data" / "weekly.csv", split)


def build_dataloader(split):
    return data.build_dataloader(build_dataset(split), shuffle=split == "train")


def metric(outputs, labels):
    return errors(outputs, labels)


def loss(outputs, labels):
    return training.mean_squared_error(outputs, labels)


def build_optimizer(model):
    return training.build_optimizer(model)


def build_scheduler(optimizer):
    return training.build_scheduler(optimizer)


def train(log):
    """A training from scratch, of ``EPOCHS`` epochs, with one sample of keys for all calls: two trainings can be compared step by step."""
    model = log.model(Informer())
    fix_keys(model, 0)
    optimizer = log.optimizer(build_optimizer(model))
    training.fit(model, optimizer, {split: build_dataloader(split) for split in ("train", "val")}, log, EPOCHS)


@paddle.no_grad()
def predict(path, model):
    """The forecast of a file's last rows, in its own units; of these rows only the dates are used."""
    stamps, values = data.read(Path(path))
    scaler = build_dataset("train").scaler
    seen = scaler.scale(values[:-AHEAD]).astype("float32")
    known = np.concatenate([seen[-KNOWN:], np.zeros((AHEAD, seen.shape[1]), "float32")])
    inputs = [paddle.to_tensor(part[None]) for part in (seen, stamps[:-AHEAD], known, stamps[-KNOWN - AHEAD :])]
    model.eval()
    fix_keys(model, 0)  # the same file gives the same forecast
    forecast = model(*inputs)[0].numpy()
    fix_keys(model, None)
    return {"forecast": scaler.restore(forecast)}
