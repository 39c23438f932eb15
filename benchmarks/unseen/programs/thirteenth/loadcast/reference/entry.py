import numpy as np
import torch
from loadcast import config, objective, trainer, windows
from loadcast.model import LoadCast
from loadcast.table import Scaler, read_table

CFG = config.load()


def build_model():
    return LoadCast(CFG.model, len(CFG.data.stations), CFG.data.horizon)


def build_dataset(split):
    return windows.Windows(CFG, split)


def build_dataloader(split):
    return windows.build_loader(CFG, split)


def transforms(split):
    return windows.build_transform(CFG, split)


def loss(outputs, labels):
    return objective.forecast_loss(CFG, outputs, labels)


def metric(outputs, labels):
    return objective.scores(CFG, outputs, labels)


def build_optimizer(model):
    return trainer.build_optimizer(CFG, model)


def build_scheduler(optimizer):
    return trainer.build_scheduler(CFG, optimizer)


def train_step(model, optimizer, batch):
    return trainer.train_step(CFG, model, optimizer, batch)


def predict(path, model):
    """Quantiles of demand for the last hours of a file with one station."""
    d = CFG.data
    ((station, table),) = read_table(path).items()
    series = d.stations.index(station)
    window = {k: v[-(d.past + d.horizon) :] for k, v in table.items()}
    sample = windows.build_transform(CFG, "val")({**window, "series": series, "index": 0})
    dtype = next(model.parameters()).dtype
    inputs = {k: torch.as_tensor(sample[k])[None] for k in ("past", "known", "series", "noise")}
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    inputs["noise"] = torch.zeros_like(inputs["noise"])
    with torch.no_grad():
        out = model(**inputs)
    scaler = Scaler(read_table(), d.stations, d.train_hours)
    quantiles = scaler.restore(out["quantiles"][0].double().numpy(), series)
    return {"quantiles": quantiles, "total": np.array(quantiles[:, 1].sum())}
