"""Coffee lots: ordinal grades from learned bands, a PaddlePaddle LightningModule look-alike."""
import csv
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as init

N_GRADE, N_BAND = 5, 24
KINDS = {"washed": 0, "natural": 1, "honey": 2}


def gumbel(shape, dtype):
    u = paddle.rand(shape, dtype=dtype)
    return -paddle.log(1e-10 - paddle.log(u + 1e-10))


def snv(x):
    """Standard normal variate, per spectrum."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / x.std(axis=1, ddof=1, keepdims=True)


class BeanData(paddle.io.Dataset):
    def __init__(self, split):
        with open("data/beans.csv", newline="") as fh:
            reader = csv.DictReader(fh)
            bands = [n for n in reader.fieldnames if n.startswith("nm")]
            rows = list(reader)
        x = np.asarray([[np.nan if r[b] == "" else float(r[b]) for b in bands] for r in rows])
        is_train = np.arange(len(rows)) % 3 < 2
        holes = np.nonzero(np.isnan(x))
        x[holes] = np.nanmean(x[is_train], axis=0)[holes[1]]
        pick = np.flatnonzero(is_train if split == "train" else np.logical_not(is_train))
        self.x = snv(x)[pick].astype("float32")
        self.kind = [KINDS[rows[k]["process"]] for k in pick]
        self.grade = [int(rows[k]["grade"]) for k in pick]
        self.jitter = split == "train"

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        x = self.x[k]
        if self.jitter:
            rs = np.random.RandomState(70 + k)
            x = np.roll(x, rs.randint(-1, 2))
            x = x + rs.normal(0, 0.02, N_BAND).astype("float32")
            tilt = np.float32(rs.uniform(-0.1, 0.1))
            x = x + tilt * np.linspace(-1, 1, N_BAND, dtype="float32")
        return {"spectrum": x, "process": self.kind[k], "labels": self.grade[k]}


class LitGrader(nn.Layer):
    def __init__(self, n_pick=6, width=20, base_lr=1e-2):
        super().__init__()
        self.base_lr = base_lr
        self.selector = self.create_parameter([n_pick, N_BAND], default_initializer=init.Normal(0.0, 0.1))
        self.kind_emb = nn.Embedding(3, 4, weight_attr=init.Normal(0.0, 1.0))
        r = 1 / math.sqrt(n_pick)
        self.pair = nn.Bilinear(n_pick, 4, width, weight_attr=init.Uniform(-r, r), bias_attr=init.Uniform(-r, r))
        self.rms_gain = self.create_parameter([width], default_initializer=init.Constant(1.0))
        r = 1 / math.sqrt(width)
        self.mid = nn.Linear(width, width, init.Uniform(-r, r), init.Uniform(-r, r))
        self.slope = nn.PReLU(width, init=0.1)
        self.score = nn.Linear(width, 1, weight_attr=init.Normal(std=0.5), bias_attr=False)
        self.first = self.create_parameter([1], default_initializer=init.Constant(-1.0))
        self.gaps = self.create_parameter([N_GRADE - 2], default_initializer=init.Constant(0.0))
        self.register_buffer("tau", paddle.to_tensor(2.0))

    def forward(self, spectrum, process):
        noise = gumbel(self.selector.shape, self.selector.dtype) if self.training else 0.0
        weight = F.softmax((self.selector + noise) / self.tau, axis=-1)
        picked = paddle.matmul(spectrum, weight, transpose_y=True)
        h = self.pair(picked, self.kind_emb(process))
        rms = paddle.sqrt(paddle.mean(paddle.square(h), axis=-1, keepdim=True) + 1e-6)
        h = h / rms * self.rms_gain
        h = h + self.slope(self.mid(h))
        steps = F.pad(paddle.cumsum(F.softplus(self.gaps)), [1, 0])
        return {"cumulative": self.score(h) - (self.first + steps), "weight": weight}

    @staticmethod
    def criterion(outputs, grade):
        z = outputs["cumulative"]
        cost = paddle.to_tensor([1.0, 1.25, 1.25, 1.5], dtype=z.dtype)
        passed = (grade.unsqueeze(1) > paddle.arange(N_GRADE - 1, dtype=grade.dtype)).astype(z.dtype)
        soft = 0.05 + 0.9 * passed
        bce = F.binary_cross_entropy_with_logits(z, soft, reduction="none") * cost
        doubled = F.relu(outputs["weight"].sum(axis=0) - 0.25)
        return bce.sum(axis=-1).mean() + 0.05 * doubled.sum()

    def training_step(self, batch):
        outputs = self.forward(batch["spectrum"], batch["process"])
        return dict(loss=self.criterion(outputs, batch["labels"]), tau=self.tau.clone())

    def anneal(self):
        self.tau.set_value(paddle.clip(self.tau * 0.9, min=0.5))

    def configure_optimizers(self):
        cycle = paddle.optimizer.lr.OneCycleLR(self.base_lr, total_steps=64, divide_factor=10.0, phase_pct=0.25,
                                               end_learning_rate=self.base_lr / 10 / 100)
        rest = [p for n, p in self.named_parameters() if n != "selector"]
        return paddle.optimizer.Adagrad(cycle, epsilon=1e-8, initial_accumulator_value=0.0,
                                        parameters=[{"params": rest},
                                                    {"params": [self.selector], "learning_rate": 3.0}])


def build_model():
    return LitGrader()


def loss(outputs, labels):
    return LitGrader.criterion(outputs, labels)


def metric(outputs, labels):
    guess = np.sum(outputs["cumulative"].numpy() > 0, axis=-1)
    y = labels.numpy()
    observed = np.mean((guess - y) ** 2)
    expected = np.mean((guess[:, None] - y[None, :]) ** 2)          # all pairs: both margins independent
    return {"kappa": float(1 - observed / expected) if expected > 0 else 1.0,
            "mae": float(np.mean(np.abs(guess - y)))}


def build_dataset(split):
    return BeanData(split)


def build_dataloader(split):
    return paddle.io.DataLoader(BeanData(split), batch_size=8, shuffle=False)


def build_optimizer(model):
    return model.configure_optimizers()


def train_step(model, optimizer, batch):
    result = model.training_step(batch)
    result["loss"].backward()
    paddle.nn.utils.clip_grad_norm_([model.selector], max_norm=0.02)
    optimizer.step()
    optimizer.clear_grad()
    model.anneal()
    return result


def predict(path, model):
    names, kinds, x = [], [], []
    for lot, kind, *values in csv.reader(open(path)):
        names.append(lot)
        kinds.append(KINDS[kind])
        v = np.asarray([float(a or "nan") for a in values])
        v[np.isnan(v)] = np.nanmean(v)
        x.append(v)
    with paddle.no_grad():
        out = model(paddle.to_tensor(snv(np.stack(x))).astype(model.rms_gain.dtype), paddle.to_tensor(kinds))
    p = F.sigmoid(out["cumulative"]).numpy()
    return {"lots": names, "grade": np.sum(p > 0.5, axis=1), "expected": p.sum(axis=1),
            "bands": out["weight"].numpy().argmax(axis=1)}
