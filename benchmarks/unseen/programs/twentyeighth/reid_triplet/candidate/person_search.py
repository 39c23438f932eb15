import json
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

_here = os.path.dirname(os.path.abspath(__file__))
if _here not in sys.path:
    sys.path.append(_here)
import layers_pd as L  # noqa: E402

OPTIONS = {
    "model": {"channels": [1, 12, 24], "strides": [1, 2], "dim": 20},
    "sampler": {"ids": 4, "per_id": 3},
    "solver": {"lr": 0.02, "center_ratio": 0.5, "l2": 1e-3, "clip": 5.0},
    "warm": (8, 0.1), "drops": ((50, 90), 0.4),
    "loss": {"eps": 0.1, "center": 0.01}, "proto_momentum": 0.8,
}


def _npz(split):
    with np.load(os.path.join(_here, "..", "data", split + ".npz")) as z:
        return {k: z[k] for k in z.files}


class PersonNet(nn.Layer):
    def __init__(self, classes):
        super().__init__()
        ch, st, dim = (OPTIONS["model"][k] for k in ("channels", "strides", "dim"))
        self.register_buffer("prototypes", paddle.zeros([classes, dim]))
        self.center = self.create_parameter([classes, dim], default_initializer=nn.initializer.Normal())
        self.id_head = nn.Linear(dim, classes, weight_attr=nn.initializer.Normal(0.0, 0.05), bias_attr=False)
        self.convs = nn.LayerList([L.conv_bn_free(a, b, s) for a, b, s in zip(ch, ch[1:], st)])
        self.norms = nn.LayerList([L.HalfInstanceNorm(b) for b in ch[1:]])
        self.acts = nn.LayerList([nn.PReLU(b, init=0.25) for b in ch[1:]])
        self.gem, self.neck = L.GeneralizedMean(), L.Neck(dim)
        self.project = L.SpectralLinear(ch[-1], dim)

    def forward(self, img):
        h = img
        for i, (c, n, a) in enumerate(zip(self.convs, self.norms, self.acts)):
            h = a(n(c(h)))
            if i == 0:
                h = F.max_pool2d(h, 2, 2)
        raw = self.project(self.gem(h))
        z = self.neck(raw)
        return {"feat": raw, "unit": F.normalize(z, axis=-1), "logits": self.id_head(z), "centers": self.center}


class PersonSet(paddle.io.Dataset):
    def __init__(self, split):
        self.table = _npz(split)

    def __len__(self):
        return self.table["pid"].shape[0]

    def __getitem__(self, i):
        t = self.table
        x = (t["img"][i][None].astype("float32") / 255 - 0.5) * 4
        return x, {k: np.int64(t[k][i]) for k in ("pid", "cam")}


class IdentityBatches(paddle.io.BatchSampler):
    """P identities per batch and K pictures of each, all drawn without replacement."""

    def __init__(self, pid):
        self.pid = np.asarray(pid)
        self.p, self.k = OPTIONS["sampler"]["ids"], OPTIONS["sampler"]["per_id"]
        self.batch_size = self.p * self.k

    def __len__(self):
        return self.pid.size // self.batch_size

    def __iter__(self):
        for _ in range(len(self)):
            who = np.random.permutation(np.unique(self.pid))[:self.p]
            picks = [np.random.permutation(np.flatnonzero(self.pid == w))[:self.k] for w in who]
            yield np.concatenate(picks).tolist()


def build_model():
    return PersonNet(int(_npz("train")["pid"].max()) + 1)


def build_dataset(split):
    return PersonSet(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return paddle.io.DataLoader(ds, batch_sampler=IdentityBatches(ds.table["pid"]))
    return paddle.io.DataLoader(ds, batch_size=16, shuffle=False)


def pairwise(a, b):
    sq = paddle.square(a).sum(1).unsqueeze(1) + paddle.square(b).sum(1).unsqueeze(0)
    return paddle.sqrt(paddle.clip(sq - 2 * paddle.matmul(a, b, transpose_y=True), min=1e-12))


def loss(outputs, labels):
    pid, f = labels["pid"], outputs["feat"]
    n_cls, eps = outputs["logits"].shape[1], OPTIONS["loss"]["eps"]
    logp = F.log_softmax(outputs["logits"], axis=1)
    picked = (logp * F.one_hot(pid, n_cls)).sum(axis=1)
    ident = -((1 - eps) * picked + eps * logp.mean(axis=1)).mean()
    same = paddle.equal(pid.unsqueeze(1), pid.unsqueeze(0))
    d = pairwise(f, f)
    far = paddle.where(same, d, paddle.full_like(d, -1.0)).max(axis=1)
    near = paddle.where(same, paddle.full_like(d, 1e9), d).min(axis=1)
    valid = paddle.any(~same, axis=1).astype("float32")
    triplet = paddle.sum(F.softplus(far - near) * valid) / valid.sum()
    own = paddle.index_select(outputs["centers"], pid, axis=0)
    center = paddle.clip(paddle.square(f - own).sum(axis=-1), 1e-12, 1e12).mean()
    return {"loss": ident + triplet + OPTIONS["loss"]["center"] * center,
            "id": ident, "triplet": triplet, "center": center}


class RetrievalMeter:
    def __init__(self):
        self.first, self.ap = [], []

    def update(self, sims, pid):
        for q in range(len(pid)):
            rest = np.delete(np.arange(len(pid)), q)
            order = rest[np.argsort(-sims[q, rest], kind="stable")]
            ranks = np.flatnonzero(pid[order] == pid[q])
            if ranks.size:
                self.first.append(ranks[0] == 0)
                self.ap.append(np.mean(np.arange(1, ranks.size + 1) / (ranks + 1)))

    def result(self):
        return {"rank1": float(np.mean(self.first or [0])), "map": float(np.mean(self.ap or [0]))}


def metric(outputs, labels):
    u, meter = outputs["unit"].numpy(), RetrievalMeter()
    meter.update(u @ u.T, labels["pid"].numpy())
    return meter.result()


def warm_multi_step(step):
    (n, first), (drops, gamma) = OPTIONS["warm"], OPTIONS["drops"]
    return (1.0 if step >= n else first + (1 - first) * step / n) * gamma ** int(np.searchsorted(drops, step, "right"))


def build_optimizer(model):
    s = OPTIONS["solver"]
    matrices = [c.weight for c in model.convs] + [model.project.weight, model.id_head.weight]
    named = {id(p) for p in matrices} | {id(model.center)}
    others = [p for p in model.parameters() if id(p) not in named and not p.stop_gradient]
    return paddle.optimizer.Adagrad(
        learning_rate=paddle.optimizer.lr.LambdaDecay(s["lr"], warm_multi_step), epsilon=1e-8,
        initial_accumulator_value=0.1,
        parameters=[{"params": [model.center], "learning_rate": s["center_ratio"]},
                    {"params": others},
                    {"params": matrices, "weight_decay": s["l2"]}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def prepare_gradients(model):
    live = [p for n, p in model.named_parameters() if n != "center" and p.grad is not None]
    norm = paddle.linalg.norm(paddle.stack([paddle.linalg.norm(p.grad.flatten()) for p in live])).item()
    ratio = min(1.0, OPTIONS["solver"]["clip"] / (norm + 1e-6))
    for p in live:
        p.grad.set_value(p.grad * ratio)
    # the centres learn from the unweighted centre loss
    model.center.grad.set_value(model.center.grad / OPTIONS["loss"]["center"])


def train_step(model, optimizer, batch):
    img, labels = batch
    out = model(img)
    parts = loss(out, labels)
    parts["loss"].backward()
    prepare_gradients(model)
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        hot = F.one_hot(labels["pid"], model.center.shape[0])
        count = hot.sum(axis=0).unsqueeze(1)
        mean = paddle.matmul(hot, out["unit"], transpose_x=True) / paddle.clip(count, min=1.0)
        keep = paddle.where(count > 0, paddle.full_like(count, OPTIONS["proto_momentum"]), paddle.ones_like(count))
        model.prototypes.set_value(keep * model.prototypes + (1 - keep) * mean)
    return {k: float(v) for k, v in parts.items()}


def predict(path, model):
    with open(path) as f:
        x = np.asarray(json.load(f)["images"], dtype="float32")
    model.eval()
    with paddle.no_grad():
        e = model(paddle.to_tensor((x[:, np.newaxis] / 255 - 0.5) / 0.25))["unit"]
        d = pairwise(e[:1], e[1:]).numpy()[0]
    return {"embedding": e.numpy(), "distance": d, "nearest": [int(d.argmin())],
            "verdict": " ".join(np.where(d < 0.9, "same", "other").tolist())}
