import numpy as np
import paddle
from port import criteria, loop, series
from port.forecaster import Forecaster
from port.options import NET, STATIONS, WINDOW


def build_model():
    return Forecaster(len(STATIONS), WINDOW["horizon"], NET)


def build_dataset(split):
    return series.WindowSet(split)


def build_dataloader(split):
    return series.make_loader(split)


def transforms(split):
    return series.steps(split)


def loss(outputs, labels):
    return criteria.forecast_loss(outputs, labels)


def metric(outputs, labels):
    return criteria.evaluate(outputs, labels)


def build_optimizer(model):
    return loop.make_optimizer(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return loop.train_step(model, optimizer, batch)


@paddle.no_grad()
def predict(path, model):
    [(station, rows)] = series.load_csv(path).items()
    rows = rows[-(WINDOW["past"] + WINDOW["horizon"]) :]
    sample = {name: rows[:, c] for c, name in enumerate(series.COLUMNS)}
    sample.update(series=STATIONS.index(station), index=0)
    for step in series.steps("val"):
        sample = step(sample)
    dtype = model.params.weight.dtype
    past, known = (paddle.to_tensor(sample[k]).unsqueeze(0).astype(dtype) for k in ("past", "known"))
    noise = paddle.zeros([1, NET["latent"]], dtype=dtype)
    out = model(past, known, paddle.to_tensor(sample["series"]).reshape([1]), noise)
    quantiles = series.to_demand(out["quantiles"][0].numpy().astype("float64"), STATIONS.index(station))
    return {"quantiles": quantiles, "total": np.array(quantiles[:, 1].sum())}
