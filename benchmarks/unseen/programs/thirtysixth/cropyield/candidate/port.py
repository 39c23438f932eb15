"""Yield forecasts with PaddlePaddle; what is built comes from settings.toml."""
import csv
from math import pi, sqrt

import numpy as np
import paddle

from . import net, solver  # noqa: F401
from .catalog import make, settings
from .features import Almanac, Harvests, batches

OPTIONS = settings()
Z90 = 1.2815515655446004


def build_dataset(split):
    return Harvests(OPTIONS["tables"], split)


def build_dataloader(split):
    return batches(OPTIONS["tables"], split)


def build_model():
    return net.Forecaster(OPTIONS["net"])


def build_optimizer(model):
    solver_options = dict(OPTIONS["solver"])
    rates = make("rates", OPTIONS["rates"], peak=solver_options.pop("rate"))
    return make("solver", solver_options, model=model, rates=rates)


loss = make("criterion", OPTIONS["criterion"])


def metric(outputs, labels):
    mean, scale = outputs["mean"], outputs["scale"]
    error = labels.astype(mean.dtype) - mean
    z = error / scale
    pdf = paddle.exp(-paddle.square(z) / 2) / sqrt(2 * pi)
    crps = scale * (z * paddle.erf(z / sqrt(2)) + 2 * pdf - 1 / sqrt(pi))
    inside = (paddle.abs(z) <= Z90).astype(mean.dtype)
    return {
        "rmse": paddle.sqrt(paddle.mean(error * error)).item(),
        "crps": crps.mean().item(),
        "coverage": inside.mean().item(),
    }


def predict(path, model):
    almanac = Almanac(OPTIONS["tables"])
    with open(path, newline="") as f:
        wanted = [(r["county"], int(r["year"]), r["crop"]) for r in csv.DictReader(f)]
    seasons, grounds, crops = (np.stack(column) for column in zip(*(almanac.describe(*w) for w in wanted)))
    dtype = model.parameters()[0].dtype
    with paddle.no_grad():
        out = model(paddle.to_tensor(seasons).astype(dtype), paddle.to_tensor(grounds).astype(dtype), paddle.to_tensor(crops))
    mean, scale = out["mean"].numpy().astype(np.float64), out["scale"].numpy().astype(np.float64)
    centre, spread = np.array([almanac.expected(year, crop) for _, year, crop in wanted]).T
    centre, spread = centre + mean * spread, scale * spread
    return np.stack([centre - Z90 * spread, centre, centre + Z90 * spread], axis=1)
