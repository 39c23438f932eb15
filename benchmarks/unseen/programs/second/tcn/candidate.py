import csv
import math
import os

import numpy as np
import paddle

from temporal import MixtureForecaster

SERIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "series")
PAST, AHEAD = 20, 2


def build_model():
    return MixtureForecaster(horizon=AHEAD)


def loss(outputs, labels):
    log_w, place, scale = outputs
    z = (labels.unsqueeze(1) - place) / scale
    log_density = -0.5 * (z * z + math.log(2 * math.pi)) - scale.log()
    return -paddle.logsumexp(log_w + log_density.sum(axis=2), axis=1).mean()


def metric(outputs, labels):
    w, place, scale = outputs[0].exp().unsqueeze(2), outputs[1], outputs[2]
    guess = (w * place).sum(axis=1)
    below = (w * (paddle.erf((labels.unsqueeze(1) - place) / scale / 2 ** 0.5) + 1) / 2).sum(axis=1)
    gap = (guess - labels).abs()
    inside = paddle.logical_and(below > 0.1, below < 0.9)
    return {"mae": gap.mean().item(), "smape": (200 * gap / (guess.abs() + labels.abs())).mean().item() / 100, "coverage": inside.astype("float32").mean().item()}


def table(path):
    with open(path) as f:
        return np.array([[float(r["load"]), float(r["temp"])] for r in csv.DictReader(f)], dtype="float32")


class Sliding(paddle.io.Dataset):
    def __init__(self, part, stride=3):
        a = table(os.path.join(SERIES, ("train" if part == "train" else "val") + ".csv"))
        last = np.where(np.isnan(a), 0, np.arange(len(a))[:, None])
        a = np.take_along_axis(a, np.maximum.accumulate(last, axis=0), axis=0)
        self.values, self.starts = a, range(0, len(a) - PAST - AHEAD + 1, stride)

    def __getitem__(self, i):
        s = self.starts[i]
        return self.values[s:s + PAST], self.values[s + PAST:s + PAST + AHEAD, 0]

    def __len__(self):
        return len(self.starts)


def build_dataset(split):
    return Sliding(split)


def build_dataloader(split):
    return paddle.io.DataLoader(Sliding(split), batch_size=5, drop_last=True)


class Restarts(paddle.optimizer.lr.LRScheduler):
    def __init__(self, top, period):
        self.period = period
        super().__init__(learning_rate=top)

    def get_lr(self):
        return self.base_lr * math.cos(math.pi * (self.last_epoch % self.period) / self.period / 2) ** 2


def build_optimizer(model):
    return paddle.optimizer.Adam(learning_rate=Restarts(4e-3, 3), parameters=model.parameters(), amsgrad=True, grad_clip=paddle.nn.ClipGradByValue(0.1))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    with paddle.no_grad():
        log_w, place, _ = model(paddle.to_tensor(table(path)[None, -PAST:], dtype=model.gain.dtype))
    w, place = log_w[0].exp(), place[0]
    top = int(w.argmax())
    return {"mean": paddle.matmul(w, place), "mode": place[top], "component": top}
