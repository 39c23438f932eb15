import os
import re

import numpy as np
import paddle

from operators import NeuralOperator

FIELDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fields")


def build_model():
    return NeuralOperator()


def wave(n):
    return np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])


def loss(outputs, labels):
    relative = (paddle.norm(outputs - labels, p="fro", axis=[1, 2]) / paddle.norm(labels, p="fro", axis=[1, 2])).mean()
    h, w = labels.shape[1:]
    weight = paddle.to_tensor(1 + 0.1 * (wave(h)[:, None] ** 2 + wave(w)[None] ** 2), dtype=outputs.dtype)
    spec = lambda f: (weight * (f.real() ** 2 + f.imag() ** 2)).sum(axis=[1, 2])
    # the transform is linear
    h1 = paddle.sqrt(spec(paddle.fft.fft2((outputs - labels).astype(outputs.dtype))) / spec(paddle.fft.fft2(labels))).mean()
    return relative + 0.1 * h1


def metric(outputs, labels):
    o, y = outputs.numpy().astype("float64"), labels.numpy().astype("float64")
    return {"rmse": float(np.sqrt(((o - y) ** 2).mean())), "max": float(np.abs(o - y).max()), "r2": float(1 - ((o - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())}


def half(path):
    z = np.load(path)
    return {k: z[k][::2, ::2].astype("float32") for k in ("a", "u")}


def listing(part):
    return [os.path.join(FIELDS, n) for n in sorted(os.listdir(FIELDS)) if re.match(part + r"_\d+\.npz$", n)]


def statistics():
    t = np.stack([half(p)["a"] for p in listing("train")])
    return t.mean(axis=0), t.std(axis=0, ddof=1) + 1e-5


class FieldSet(paddle.io.Dataset):
    def __init__(self, part):
        self.paths = listing(part)
        self.centre, self.width = statistics()

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        f = half(self.paths[i])
        return ((f["a"] - self.centre) / self.width)[..., np.newaxis], f["u"]


def build_dataset(split):
    return FieldSet(split)


def build_optimizer(model):
    return paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(1e-3, 2, gamma=0.5), parameters=model.parameters(), weight_decay=1e-4)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    centre, width = statistics()
    a = (half(path)["a"] - centre) / width
    with paddle.no_grad():
        return {"field": model(paddle.to_tensor(a[None, :, :, None], dtype=model.lift.weight.dtype)).squeeze(0)}
