"""The reference side: the functions that paralign calls, each handing out a part of the package ``informer``."""

from pathlib import Path

import torch
from informer import data
from informer import train as training
from informer.metric import errors
from informer.model import AHEAD, KNOWN, Informer, fix_keys

PROJECT = Path(__file__).resolve().parents[1]
EPOCHS = 2


def build_model():
    weights = PROJECT / "checkpoint.pth"
    if not weights.exists():
        raise FileNotFoundError(f"{weights} is not there: run {PROJECT / 'prepare.py'} first")
    model = Informer()
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model


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


@torch.no_grad()
def predict(path, model):
    """The forecast of a file's last rows, in its own units; of these rows only the dates are used."""
    stamps, values = data.read(Path(path))
    scaler = build_dataset("train").scaler
    seen = torch.from_numpy(scaler.scale(values[:-AHEAD])).float()[None]
    known = torch.cat([seen[:, -KNOWN:], torch.zeros(1, AHEAD, seen.shape[2])], 1)
    stamps = torch.from_numpy(stamps)[None]
    model.eval()
    fix_keys(model, 0)  # the same file gives the same forecast
    forecast = model(seen, stamps[:, :-AHEAD], known, stamps[:, -KNOWN - AHEAD :])[0]
    fix_keys(model, None)
    return {"forecast": scaler.restore(forecast.numpy())}
