"""Bird calls, supervised MoCo, PaddlePaddle."""
import csv
import dataclasses as dc
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn.initializer import Uniform


@dc.dataclass
class Hyper:
    stem_channels: int = 8
    channels: tuple = (16, 24)
    strides: tuple = (2, 1)
    dilations: tuple = (1, 2)
    gn_groups: int = 4
    dim: int = 16
    bank_size: int = 14
    ema: float = 0.95
    tau: float = 0.15
    crop: int = 32
    batch_size: int = 4


@dc.dataclass
class Schedule:
    base: float = 0.08
    warmup_steps: int = 6
    total_steps: int = 40
    minimum: float = 0.02

    def __call__(self, step):
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        cosine = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
        return self.minimum + (1.0 - self.minimum) * cosine


H = Hyper()
S = Schedule()
NAMES = ["wren", "robin", "finch"]


def conv(cin, cout, k, bias=True, groups=1, **kw):
    bound = 1.0 / math.sqrt(cin // groups * k * k)
    return nn.Conv2D(cin, cout, k, groups=groups, weight_attr=Uniform(-bound, bound),
                     bias_attr=Uniform(-bound, bound) if bias else False, **kw)


def dense(cin, cout):
    bound = 1.0 / math.sqrt(cin)
    return nn.Linear(cin, cout, Uniform(-bound, bound), Uniform(-bound, bound))


class SE(nn.Layer):
    def __init__(self, ch):
        super().__init__()
        self.down, self.up = conv(ch, ch // 4, 1), conv(ch // 4, ch, 1)

    def forward(self, x):
        return x * F.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class DSBlock(nn.Layer):
    def __init__(self, cin, cout, stride, dilation):
        super().__init__()
        self.dw = conv(cin, cin, 3, bias=False, groups=cin, stride=stride, padding=dilation, dilation=dilation)
        self.gn1 = nn.GroupNorm(H.gn_groups, cin)
        self.pw = conv(cin, cout, 1, bias=False)
        self.gn2 = nn.GroupNorm(H.gn_groups, cout)
        self.se = SE(cout)

    def forward(self, x):
        y = F.silu(self.gn1(self.dw(x)))
        return self.se(F.silu(self.gn2(self.pw(y))))


class Backbone(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = conv(1, H.stem_channels, 3, stride=2, padding=1)
        ins = (H.stem_channels,) + H.channels[:-1]
        self.blocks = nn.LayerList([DSBlock(*a) for a in zip(ins, H.channels, H.strides, H.dilations)])
        self.fc1, self.fc2 = dense(2 * H.channels[-1], 32), dense(32, H.dim)

    def forward(self, spec):
        h = F.silu(self.stem(spec))
        for blk in self.blocks:
            h = blk(h)
        h = F.adaptive_avg_pool2d(h, (2, 1)).flatten(1)
        return F.normalize(self.fc2(F.relu(self.fc1(h))), axis=-1)


class SupMoco(nn.Layer):
    def __init__(self):
        super().__init__()
        self.query = Backbone()
        self.key = Backbone()
        self.key.set_state_dict(self.query.state_dict())
        for p in self.key.parameters():
            p.stop_gradient = True
        self.register_buffer("bank", F.normalize(paddle.randn([H.bank_size, H.dim]), axis=1))
        self.register_buffer("bank_species", paddle.full([H.bank_size], -1, dtype="int64"))
        self.register_buffer("cursor", paddle.zeros([1], dtype="int64"))

    @paddle.no_grad()
    def ema_step(self):
        for slow, fast in zip(self.key.parameters(), self.query.parameters()):
            slow.set_value(slow * H.ema + fast * (1.0 - H.ema))

    @paddle.no_grad()
    def push(self, keys, species):
        n = keys.shape[0]
        where = paddle.remainder(self.cursor + paddle.arange(n, dtype="int64"),
                                 paddle.to_tensor(H.bank_size, dtype="int64"))
        self.bank.set_value(paddle.scatter(self.bank, where, keys))
        self.bank_species.set_value(paddle.scatter(self.bank_species, where, species))
        self.cursor.set_value((self.cursor + n) % H.bank_size)

    def forward(self, view_q, view_k):
        with paddle.no_grad():
            k = self.key(view_k)
        return dict(query=self.query(view_q), keys=k, bank=self.bank.clone(), bank_species=self.bank_species.clone())


def build_model():
    return SupMoco()


def loss(outputs, labels):
    labels = labels.astype("int64")
    pool = paddle.concat([outputs["keys"], outputs["bank"]], axis=0)
    tags = paddle.concat([labels, outputs["bank_species"]])
    sim = paddle.matmul(outputs["query"], pool, transpose_y=True) / H.tau
    same = paddle.cast(labels.unsqueeze(1) == tags.unsqueeze(0), sim.dtype)
    logp = sim - paddle.logsumexp(sim, axis=1, keepdim=True)
    return -paddle.mean(paddle.sum(logp * same, axis=1) / paddle.sum(same, axis=1))


def metric(outputs, labels):
    q, k = outputs["query"].numpy().astype("float64"), outputs["keys"].numpy().astype("float64")
    y, n = labels.numpy().reshape(-1), len(q)
    pairs = [np.square(q[i] - q[j]).sum() for i in range(n) for j in range(i + 1, n)]
    sim = q @ k.T - np.diag(np.full(n, 10.0))
    return {
        "alignment": float(np.mean(np.square(q - k).sum(axis=1))),
        "uniformity": float(np.log(np.mean(np.exp(-2.0 * np.asarray(pairs))))) if pairs else 0.0,
        "neighbour": float(np.mean(y[np.argmax(sim, 1)] == y)),
    }


def standardise(x):
    return (x - x.mean()) / (x.std() + np.float32(1e-5))


class CallSet(Dataset):
    def __init__(self, split):
        super().__init__()
        self.train = split == "train"
        with open("data/meta.csv", newline="") as fh:
            self.items = [(r["file"], NAMES.index(r["species"])) for r in csv.DictReader(fh) if r["split"] == split]

    def __len__(self):
        return len(self.items)

    def augment(self, spec, rs):
        if not self.train:
            left = (spec.shape[1] - H.crop) // 2 + rs.randint(0, 4)
            return standardise(spec[:, left:left + H.crop])[np.newaxis]
        left = rs.randint(0, spec.shape[1] - H.crop + 1)
        out = np.float32(rs.uniform(0.8, 1.25)) * spec[:, left:left + H.crop]
        band = rs.randint(0, out.shape[0] - 3)
        out[band:band + 3, :] = out.mean()
        return standardise(out)[np.newaxis]

    def __getitem__(self, idx):
        name, species = self.items[idx]
        spec, rs = np.load(f"data/calls/{name}"), np.random.RandomState(1000 + idx)
        return self.augment(spec, rs), self.augment(spec, rs), np.int64(species)


def build_dataset(split):
    return CallSet(split)


def build_dataloader(split):
    return DataLoader(CallSet(split), batch_size=H.batch_size, shuffle=False, drop_last=(split == "train"))


def build_optimizer(model):
    params = model.query.parameters()
    rate = paddle.optimizer.lr.LambdaDecay(S.base, S)
    return paddle.optimizer.Momentum(
        rate, momentum=0.875, use_nesterov=True,
        parameters=[{"params": [p for p in params if p.ndim > 1], "weight_decay": 1e-3},
                    {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0}])


def train_step(model, optimizer, batch):
    a, b, species = batch
    model.ema_step()
    out = model(a, b)
    value = loss(out, species)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    model.push(out["keys"], species)
    return value


def predict(path, model):
    spec = standardise(np.load(path)[:, :H.crop])
    x = paddle.to_tensor(spec[None, None]).astype(model.query.fc1.weight.dtype)
    with paddle.no_grad():
        return model.query(x).numpy()[0]
