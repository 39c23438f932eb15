"""Bus delays per stop, PaddlePaddle version."""
import csv
import dataclasses
import math

import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import functional as F
from paddle.nn.initializer import Normal, Uniform

MISSING = -999.0


@dataclasses.dataclass(frozen=True)
class DataArgs:
    means: dict = dataclasses.field(
        default_factory=lambda: {"dist_m": (520.0, 210.0), "dwell_s": (22.0, 8.0), "headway_s": (480.0, 120.0)})
    n_alerts: int = 10
    minute: float = 60.0
    batch_size: int = 4


@dataclasses.dataclass(frozen=True)
class NetArgs:
    hidden_size: int = 12
    num_layers: int = 2
    emb_size: int = 6
    head_size: int = 20
    drop: float = 0.1


@dataclasses.dataclass(frozen=True)
class TrainArgs:
    base_lr: float = 4e-3
    alert_lr: float = 1e-3
    decay: float = 0.05
    max_norm: float = 0.7
    warm_steps: int = 5
    all_steps: int = 48
    min_ratio: float = 0.05


DATA, NET, TRAIN = DataArgs(), NetArgs(), TrainArgs()


class TripSet(Dataset):
    def __init__(self, csv_path, jitter=False):
        super().__init__()
        self.jitter = jitter
        grouped = {}
        with open(csv_path, newline="") as f:
            for rec in csv.DictReader(f):
                grouped.setdefault(rec["trip"], []).append(rec)
        self.items = [self._encode(sorted(g, key=lambda r: int(r["stop"]))) for g in grouped.values()]

    @staticmethod
    def _encode(recs):
        cols = []
        for key, (mean, std) in DATA.means.items():
            cols.append((np.array([float(r[key]) for r in recs]) - mean) / std)
        phase = np.array([float(r["hour"]) for r in recs]) * (2 * np.pi / 24)
        cols += [np.sin(phase), np.cos(phase)]
        tags = np.array([int(a) for a in recs[0]["alerts"].split(";") if a], dtype="int64")
        delay = np.array([float(r["delay_s"]) for r in recs]) / DATA.minute
        return np.stack(cols, axis=1).astype("float32"), tags, delay.astype("float32")

    def __getitem__(self, idx):
        feats, tags, delay = self.items[idx]
        if self.jitter:
            rng = np.random.RandomState(900 + idx)
            feats = feats.copy()
            noise = rng.normal(0.0, 0.1, size=len(feats))
            feats[:, 2] += noise.astype("float32")
            if len(feats) > 4 and rng.rand() < 0.5:
                feats, delay = feats[1:], delay[1:]
        return feats, tags, delay

    def __len__(self):
        return len(self.items)


def batchify(items):
    n, steps = len(items), max(len(f) for f, _, _ in items)
    bags = max([1] + [len(t) for _, t, _ in items])
    x = np.zeros((n, steps, items[0][0].shape[1]), "float32")
    y = np.full((n, steps), MISSING, "float32")
    lens = np.zeros(n, "int64")
    bag = np.zeros((n, bags), "int64")
    for i, (feats, tags, delay) in enumerate(items):
        lens[i] = len(feats)
        x[i, :len(feats)], y[i, :len(delay)], bag[i, :len(tags)] = feats, delay, tags
    return [paddle.to_tensor(v) for v in (x, lens, bag, y)]


def linear(n_in, n_out):
    k = 1.0 / math.sqrt(n_in)
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=Uniform(-k, k)),
                     bias_attr=paddle.ParamAttr(initializer=Uniform(-k, k)))


class MeanBag(nn.Layer):
    """Mean of the embeddings of a row; zeros are padding and do not count."""

    def __init__(self, num, dim):
        super().__init__()
        self.weight = self.create_parameter([num, dim], default_initializer=Normal(0.0, 1.0))
        with paddle.no_grad():
            self.weight[0] = 0.0

    def forward(self, ids):
        keep = (ids != 0).astype(self.weight.dtype)
        vecs = F.embedding(ids, self.weight) * keep.unsqueeze(-1)
        return vecs.sum(axis=1) / keep.sum(axis=1, keepdim=True).clip(min=1.0)


class DelayNet(nn.Layer):
    def __init__(self, args=NET):
        super().__init__()
        h = args.hidden_size
        self.alerts = MeanBag(DATA.n_alerts, args.emb_size)
        self.rnn = nn.GRU(len(DATA.means) + 2, h, num_layers=args.num_layers, direction="bidirect")
        self.norm = nn.LayerNorm(4 * h + args.emb_size)
        self.drop = nn.Dropout(args.drop)
        self.fc = linear(4 * h + args.emb_size, args.head_size)
        self.out = linear(args.head_size, 2)

    def forward(self, x, lengths, bag):
        steps = x.shape[1]
        seq, final = self.rnn(x, sequence_length=lengths)
        inside = (paddle.arange(steps).unsqueeze(0) < lengths.unsqueeze(1)).astype(x.dtype)
        seq = seq * inside.unsqueeze(-1)
        context = paddle.concat([final[-2], final[-1], self.alerts(bag)], axis=-1)
        context = paddle.tile(context.unsqueeze(1), [1, steps, 1])
        h = self.drop(self.norm(paddle.concat([seq, context], axis=-1)))
        return self.out(F.gelu(self.fc(h)))


def build_model():
    return DelayNet()


def loss(outputs, labels):
    known = (labels != MISSING).astype(outputs.dtype)
    centre, log_scale = outputs[:, :, 0], paddle.clip(outputs[:, :, 1], -4.0, 4.0)
    nll = paddle.abs(labels - centre) / paddle.exp(log_scale) + log_scale
    return ((nll * known).sum(axis=1) / known.sum(axis=1)).mean()


def metric(outputs, labels):
    pred, true = outputs.numpy(), labels.numpy()
    mask = true != MISSING
    off = DATA.minute * np.abs(pred[:, :, 0] - true)[mask]
    half = DATA.minute * np.log(5.0) * np.exp(pred[:, :, 1])[mask]
    return dict(mae_s=float(off.mean()), p90_s=float(np.quantile(off, 0.9)), cover80=float((off <= half).mean()))


def build_dataset(split):
    return TripSet(f"data/{split}.csv", jitter=(split == "train"))


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=DATA.batch_size, collate_fn=batchify)


def schedule(step):
    if step < TRAIN.warm_steps:
        return (step + 1) / TRAIN.warm_steps
    done = min(1.0, (step - TRAIN.warm_steps) / (TRAIN.all_steps - TRAIN.warm_steps))
    return TRAIN.min_ratio + (1.0 - TRAIN.min_ratio) * (1.0 + math.cos(math.pi * done)) / 2


def build_optimizer(model):
    groups = {"matrix": [], "vector": [], "alerts": []}
    for name, p in model.named_parameters():
        kind = "alerts" if name.startswith("alerts") else ("matrix" if p.ndim > 1 else "vector")
        groups[kind].append(p)
    lr = paddle.optimizer.lr.LambdaDecay(TRAIN.base_lr, schedule)
    # a group's learning_rate is a factor of the common rate
    return paddle.optimizer.AdamW(lr, beta1=0.9, beta2=0.98, epsilon=1e-8, weight_decay=TRAIN.decay, parameters=[
        {"params": groups["matrix"], "weight_decay": TRAIN.decay},
        {"params": groups["vector"], "weight_decay": 0.0},
        {"params": groups["alerts"], "weight_decay": 0.0, "learning_rate": TRAIN.alert_lr / TRAIN.base_lr},
    ])


def train_step(model, optimizer, batch):
    x, lengths, bag, y = batch
    value = loss(model(x, lengths, bag), y)
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), TRAIN.max_norm)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value, "norm": norm}


@paddle.no_grad()
def predict(path, model):
    trips = TripSet(path)
    x, lengths, bag, _ = batchify([trips[i] for i in range(len(trips))])
    out = model(x.astype(model.out.weight.dtype), lengths, bag).numpy()[:, :, 0] * DATA.minute
    return np.concatenate([row[:n] for row, n in zip(out, lengths.tolist())])
