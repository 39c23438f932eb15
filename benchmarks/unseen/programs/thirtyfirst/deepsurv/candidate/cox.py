# DeepSurv in Paddle. The numeric columns are scaled inside the net, with the training statistics as buffers.
import os

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset, WeightedRandomSampler
from paddle.nn.initializer import Constant, KaimingNormal, Normal

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
HYPER = {"hidden": [24, 24], "drop": 0.1, "batch": 14, "lr": 5e-3, "l2": 1e-4, "cut": 0.5, "lr_decay": 0.02}
LEVELS = {"grade": ["1", "2", "3"], "treat": ["0", "1"], "site": ["east", "north", "south", "west"]}


class SurvivalTable(Dataset):
    def __init__(self, file):
        super().__init__()
        raw = np.genfromtxt(file, delimiter=",", names=True, dtype=None, encoding="utf-8")
        self.numeric = np.stack([raw["age"], raw["size"], raw["nodes"]], 1).astype("float32")
        self.numeric[:, 2] = np.log1p(self.numeric[:, 2])
        self.codes = np.stack([[v.index(str(x)) for x in raw[k]] for k, v in LEVELS.items()], 1).astype("int64")
        self.target = np.stack([raw["months"], raw["died"]], 1).astype("float32")

    def __len__(self):
        return self.numeric.shape[0]

    def __getitem__(self, i):
        return self.numeric[i], self.codes[i], self.target[i]


def dense(n_in, n_out, **kw):
    return nn.Linear(n_in, n_out, weight_attr=KaimingNormal(nonlinearity="linear"), **kw)


class Block(nn.Layer):
    def __init__(self, n_in, n_out, drop):
        super().__init__()
        self.norm = nn.LayerNorm(n_out)
        self.fc = dense(n_in, n_out, bias_attr=Constant(0.0))
        self.drop = nn.AlphaDropout(drop)

    def forward(self, x):
        return self.drop(nn.functional.selu(self.norm(self.fc(x))))


class CoxNet(nn.Layer):
    def __init__(self, hidden, drop, stats):
        super().__init__()
        for key, value in stats.items():
            self.register_buffer(key, paddle.to_tensor(value))
        sizes = [3 + 3 * len(LEVELS)] + hidden
        self.blocks = nn.Sequential(*[Block(a, b, drop) for a, b in zip(sizes, sizes[1:])])
        self.head = dense(sizes[-1], 1, bias_attr=False)
        self.tables = nn.LayerDict({k: nn.Embedding(len(v), 3, weight_attr=Normal(0.0, 0.1)) for k, v in LEVELS.items()})

    def forward(self, numeric, codes):
        cols = paddle.unbind(codes, axis=1)
        parts = [self.tables[k](c) for k, c in zip(LEVELS, cols)]
        x = paddle.concat([(numeric - self.center) / self.spread, *parts], axis=-1)
        return self.head(self.blocks(x)).flatten()


def build_model():
    x = build_dataset("train").numeric
    return CoxNet(HYPER["hidden"], HYPER["drop"], {"spread": x.std(0, ddof=1), "center": x.mean(0)})


def build_dataset(split):
    return SurvivalTable(os.path.join(FOLDER, split + ".csv"))


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        died = data.target[:, 1]
        share = died.mean()
        sampler = WeightedRandomSampler(np.where(died > 0, 1 / share, 1 / (1 - share)), len(data))
        return DataLoader(data, batch_sampler=BatchSampler(sampler=sampler, batch_size=HYPER["batch"]))
    return DataLoader(data, batch_size=HYPER["batch"], shuffle=False)


def loss(outputs, labels):
    time, event = paddle.split(labels, 2, axis=1)
    gone = (time.T < time).astype(outputs.dtype)  # [i, j]: j left before i's time
    log_sum = paddle.logsumexp(outputs.unsqueeze(0) - 1e9 * gone, axis=1)
    event = event.squeeze(1)
    return paddle.sum((log_sum - outputs) * event) / paddle.clip(event.sum(), min=1.0)


def metric(outputs, labels):
    r, (t, d) = outputs.numpy(), labels.numpy().T
    ok = (t[:, None] < t[None]) & (d[:, None] > 0)
    diff = np.sign(r[:, None] - r[None])
    return {"c_index": float((ok * (diff + 1) / 2).sum() / max(ok.sum(), 1)), "risk_std": float(r.std(ddof=1))}


def build_optimizer(model):
    rate = paddle.optimizer.lr.InverseTimeDecay(HYPER["lr"], gamma=HYPER["lr_decay"])
    return paddle.optimizer.NAdam(rate, parameters=model.parameters(), weight_decay=HYPER["l2"],
                                  grad_clip=nn.ClipGradByValue(HYPER["cut"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    numeric, codes, target = batch
    value = loss(model(numeric, codes), target)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(value)}


def predict(path, model):
    table = SurvivalTable(path)
    model.eval()
    with paddle.no_grad():
        r = model(paddle.to_tensor(table.numeric), paddle.to_tensor(table.codes)).numpy()
    return {"log_risk": r, "rank": np.argsort(-r, kind="stable").tolist()}
