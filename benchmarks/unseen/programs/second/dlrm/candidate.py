import csv
import os

import numpy as np
import paddle
import paddle.nn.functional as F
from sklearn import metrics

from ctr import CARDINALITY, ClickNet

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clicks")


def build_model():
    return ClickNet()


def loss(outputs, labels):
    y = labels.astype(outputs.dtype)
    return (2.0 * y * F.softplus(-outputs) + (1 - y) * F.softplus(outputs)).mean()


def metric(outputs, labels):
    p, y = F.sigmoid(outputs).numpy(), labels.numpy()
    both = 0 < y.sum() < len(y)
    ll = -np.log(np.where(y == 1, p, 1 - p)).mean()
    return {"logloss": float(ll), "auc": float(metrics.roc_auc_score(y, p)) if both else 0.5}


def read(path):
    rows = list(csv.DictReader(open(path, newline="")))
    num = np.array([[float(r[c] or 0) for c in ("age", "price", "visits")] for r in rows], "float32")
    cat = np.array([[int(r[c]) % n for c, n in zip(("site", "device", "city"), CARDINALITY)] for r in rows], "int64")
    bags = [list(map(int, r["words"].split("|")))[:4] for r in rows]
    bag = np.array([b + [0] * (4 - len(b)) for b in bags], "int64")
    click = np.array([int(r["click"]) for r in rows]) if rows and "click" in rows[0] else None
    return np.log(1 + num), cat, bag, click


class ClickLog(paddle.io.Dataset):
    def __init__(self, part):
        self.columns = read(os.path.join(FOLDER, f"{part}.csv"))

    def __getitem__(self, i):
        return tuple(c[i] for c in self.columns)

    def __len__(self):
        return len(self.columns[0])


def build_dataset(split):
    return ClickLog(split)


def build_dataloader(split):
    return paddle.io.DataLoader(ClickLog(split), batch_size=8, return_list=True)


def build_optimizer(model):
    return paddle.optimizer.Adagrad(learning_rate=0.02, epsilon=1e-10, parameters=model.parameters(), initial_accumulator_value=0.1)


def predict(path, model):
    num, cat, bag, _ = read(path)
    with paddle.no_grad():
        return F.sigmoid(model(paddle.to_tensor(num, dtype=model.intercept.dtype), paddle.to_tensor(cat), paddle.to_tensor(bag)))
