# Contrastive pre-training with a momentum encoder, on PaddlePaddle.
import json
import math
import os

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, RandomSampler, SequenceSampler
from paddle.nn import functional as F
from paddle.regularizer import L2Decay

HP = {"feature_dim": 16, "bank": 64, "tau": 0.2, "m": 0.99, "bs": 16,
      "lr": 0.03, "wd": 1e-3, "drops": (56, 84)}
DATA = {"train": (0, 224, 1000), "val": (300, 348, 5000)}


def view(img, gen):
    shift = gen.randint(-1, 2, size=2)
    img = np.roll(np.roll(img, shift[0], 0), shift[1], 1)
    img = gen.uniform(0.7, 1.3) * img
    img = img + 0.05 * gen.standard_normal(img.shape)
    keep = np.ones_like(img)
    if gen.random_sample() < 0.5:
        top, left = gen.randint(0, 6, size=2)
        keep[top:top + 3, left:left + 3] = 0
    return (img * keep).astype("float32").reshape(1, 8, 8)


class Pairs(paddle.io.Dataset):
    def __init__(self, lo, hi, base):
        from sklearn.datasets import load_digits
        x, y = load_digits(return_X_y=True)
        self.x = (x[lo:hi] / 16).reshape(-1, 8, 8)
        self.y = y[lo:hi].astype("int64")
        self.base = base

    def __getitem__(self, k):
        gen = np.random.RandomState(k + self.base)
        first = view(self.x[k], gen)
        return first, view(self.x[k], gen), self.y[k]

    def __len__(self):
        return len(self.y)


def conv(cin, cout):
    std = math.sqrt(2.0 / (cout * 9))
    return nn.Conv2D(cin, cout, 3, padding="SAME", bias_attr=False,
                     weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, std)))


def no_decay(value):
    return paddle.ParamAttr(initializer=nn.initializer.Constant(value), regularizer=L2Decay(0.0))


class Backbone(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        norm = lambda c: nn.GroupNorm(4, c, weight_attr=no_decay(1.0), bias_attr=no_decay(0.0))
        self.stem, self.stem_norm = conv(1, 12), norm(12)
        self.deep, self.deep_norm = conv(12, 24), norm(24)
        self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)
        xavier = lambda: paddle.ParamAttr(initializer=nn.initializer.XavierUniform())
        self.fc1 = nn.Linear(24 * 4 * 4, 32, weight_attr=xavier(), bias_attr=no_decay(0.0))
        self.fc2 = nn.Linear(32, dim, weight_attr=xavier(), bias_attr=no_decay(0.0))

    def forward(self, x):
        x = self.pool(F.swish(self.stem_norm(self.stem(x * 2 - 1))))
        x = F.swish(self.deep_norm(self.deep(x))).flatten(1)
        return F.normalize(self.fc2(F.relu(self.fc1(x))), axis=1, epsilon=1e-12)


class MomentumContrast(nn.Layer):
    def __init__(self, hp):
        super().__init__()
        self.hp = hp
        bank = paddle.randn([hp["bank"], hp["feature_dim"]])       # rows are keys
        self.register_buffer("bank", bank / bank.norm(axis=1, keepdim=True))
        self.register_buffer("cursor", paddle.zeros([1], dtype="int64"))
        self.student = Backbone(hp["feature_dim"])
        self.teacher = Backbone(hp["feature_dim"])
        self.teacher.set_state_dict(self.student.state_dict())
        for w in self.teacher.parameters():
            w.stop_gradient = True

    def forward(self, a, b):
        query, key = self.student(a), self.teacher(b).detach()
        with_bank = paddle.matmul(query, self.bank.detach().clone(), transpose_y=True)
        positive = (query * key).sum(axis=1, keepdim=True)
        logits = paddle.concat([positive, with_bank], axis=1) / self.hp["tau"]
        return dict(query=query, key=key, logits=logits)

    @paddle.no_grad()
    def follow(self):
        student = dict(self.student.named_parameters())
        m = self.hp["m"]
        for name, slow in self.teacher.named_parameters():
            slow.set_value(slow * m + student[name] * (1.0 - m))

    @paddle.no_grad()
    def push(self, key):
        n = len(key)
        at = int(self.cursor.item())
        rows = paddle.arange(at, at + n, dtype="int64")
        self.bank.set_value(paddle.scatter(self.bank, rows, key, overwrite=True))
        self.cursor.set_value(paddle.to_tensor([(at + n) % self.hp["bank"]], dtype="int64"))


def build_model():
    return MomentumContrast(HP)


def build_dataset(split):
    return Pairs(*DATA[split])


def build_dataloader(split):
    ds = build_dataset(split)
    order = RandomSampler(ds) if split == "train" else SequenceSampler(ds)
    return DataLoader(ds, batch_sampler=BatchSampler(sampler=order, batch_size=HP["bs"], drop_last=True))


def loss(outputs, labels):
    z = outputs["logits"]
    return (paddle.logsumexp(z, axis=1) - z[:, 0]).mean()


def metric(outputs, labels):
    q, k, z, y = (t.numpy() for t in (outputs["query"], outputs["key"], outputs["logits"], labels))
    n = len(y)
    rank = (z[:, 1:] > z[:, :1]).sum(axis=1)
    scores = q @ k.T
    np.fill_diagonal(scores, -2.0)
    i, j = np.triu_indices(n, 1)
    sq = ((q[i] - q[j]) ** 2).sum(-1)
    same = (y[:, None] == y).sum() - n
    return {
        "top1": float((rank == 0).mean()), "top5": float((rank < 5).mean()),
        "alignment": float(((q - k) ** 2).sum(1).mean()),
        "uniformity": float(np.log(np.exp(-2 * sq).mean())),
        "knn": float((y[scores.argmax(1)] == y).mean()),
        "same_rate": float(same / n ** 2),
    }


def build_optimizer(model):
    steps = paddle.optimizer.lr.MultiStepDecay(HP["lr"], milestones=list(HP["drops"]), gamma=0.1)
    trainable = [w for w in model.parameters() if not w.stop_gradient]
    return paddle.optimizer.Momentum(steps, momentum=0.9, parameters=trainable, weight_decay=L2Decay(HP["wd"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    a, b, y = batch
    model.train()
    model.follow()
    out = model(a, b)
    objective = loss(out, y)
    objective.backward()
    optimizer.step()
    optimizer.clear_grad()
    model.push(out["key"])
    return {"loss": objective.item(), "positive": out["logits"][:, 0].mean().item()}


def predict(path, model):
    model.eval()
    with open(os.fspath(path), encoding="utf-8") as f:
        batch = np.stack([np.asarray(im, "float32") for im in json.load(f)["images"]]) / 16
    with paddle.no_grad():
        e = model.student(paddle.to_tensor(batch).unsqueeze(1)).numpy()
    sim = e @ e.T
    return {"neighbours": np.argsort(-sim, axis=1, kind="stable")[:, 1:4].tolist(), "similarity": sim, "embedding": e}
