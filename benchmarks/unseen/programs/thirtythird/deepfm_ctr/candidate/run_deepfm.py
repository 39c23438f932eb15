"""DeepFM in Paddle. Fields are looked up in one shared table with offsets."""
import json
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingNormal, Normal, Uniform

ROOT = Path(__file__).resolve().parents[1] / "data"


class Spec(dict):
    """Dictionary with attribute access; reads the file the data came with."""
    __getattr__ = dict.__getitem__

    @classmethod
    def load(cls, name="spec.json"):
        return cls(json.loads((ROOT / name).read_text()))


spec = Spec.load()
CARDS = np.array(list(spec.fields.values()))
OFFSETS = np.concatenate([[0], np.cumsum(CARDS)[:-1]]).astype("int64")


def features(columns):
    """columns: name -> sequence of values; gives (ids, log numbers)."""
    ids = np.stack([np.asarray(columns[f], "int64") for f in spec.fields], -1)
    num = np.stack([np.asarray(columns[f], "float32") for f in spec.numeric], -1)
    return ids, np.log1p(num)


class CtrData(paddle.io.Dataset):
    def __init__(self, mode):
        super().__init__()
        head, *lines = (ROOT / f"{mode}.csv").read_text().strip().splitlines()
        table = dict(zip(head.split(","), zip(*(l.split(",") for l in lines))))
        self.ids, self.num = features(table)
        self.target = np.asarray(table["click"], "float32")

    def __getitem__(self, idx):
        return self.ids[idx], self.num[idx], self.target[idx]

    def __len__(self):
        return self.target.shape[0]


def fc(n_in, n_out):
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=KaimingNormal(fan_in=n_in)),
                     bias_attr=paddle.ParamAttr(initializer=Constant(0.0)))


class Tower(nn.Layer):
    def __init__(self, n_in, widths, p):
        super().__init__()
        dims = [n_in, *widths]
        self.fcs = nn.LayerList([fc(a, b) for a, b in zip(dims, dims[1:])])
        self.norms = nn.LayerList([nn.LayerNorm(b) for b in widths])
        self.drop = nn.Dropout(p)
        self.out = fc(dims[-1], 1)

    def forward(self, h):
        for lin, norm in zip(self.fcs, self.norms):
            h = self.drop(F.relu(norm(lin(h))))
        return self.out(h)


class FMNet(nn.Layer):
    def __init__(self, spec):
        super().__init__()
        n_num, k = len(spec.numeric), spec.k
        bound = n_num ** -0.5
        self.tower = Tower((len(CARDS) + n_num) * k, spec.hidden, spec.dropout)
        table = lambda d: nn.Embedding(int(CARDS.sum()), d, weight_attr=paddle.ParamAttr(
            initializer=Normal(0.0, 0.05), learning_rate=spec.emb_lr_scale))
        self.latent, self.weight1 = table(k), table(1)
        self.num_latent = self.create_parameter([n_num, k], default_initializer=Normal(0.0, 0.05))
        self.num_weight1 = self.create_parameter([n_num, 1], default_initializer=Uniform(-bound, bound))
        self.intercept = self.create_parameter([], default_initializer=Constant(0.0), is_bias=True)
        self.register_buffer("offsets", paddle.to_tensor(OFFSETS), persistable=False)

    def forward(self, ids, num):
        rows = ids + self.offsets
        first = self.weight1(rows).squeeze(-1).sum(-1) + paddle.matmul(num, self.num_weight1)[:, 0]
        vecs = paddle.concat([self.latent(rows), paddle.einsum("bn,nk->bnk", num, self.num_latent)], axis=1)
        s = vecs.sum(axis=1)
        pair = 0.5 * (s * s - (vecs * vecs).sum(axis=1)).sum(axis=-1)
        deep = self.tower(vecs.reshape([vecs.shape[0], -1]))
        return first + pair + deep[:, 0] + self.intercept


def build_model():
    return FMNet(spec)


def build_dataset(split):
    return CtrData(split)


def build_dataloader(split):
    flags = {"train": dict(shuffle=True, drop_last=True)}.get(split, {})
    return paddle.io.DataLoader(build_dataset(split), batch_size=spec.batch_size, num_workers=0, **flags)


def loss(outputs, labels):
    soft = F.label_smooth(paddle.stack([1 - labels, labels], -1), epsilon=spec.label_smooth)[:, 1]
    logp, logq = F.log_sigmoid(outputs), F.log_sigmoid(-outputs)
    return -(1.5 * soft * logp + (1 - soft) * logq).mean()


def metric(outputs, labels):
    score = F.sigmoid(outputs).numpy()
    y = labels.numpy() > 0.5
    gap = np.subtract.outer(score[y], score[~y])
    auc = float(np.mean(0.5 * (np.sign(gap) + 1))) if gap.size else 0.5
    return {"auc": auc, "logloss": float(F.binary_cross_entropy(F.sigmoid(outputs), labels))}


class WarmInvSqrt(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warm):
        self.warm = warm
        super().__init__(learning_rate=base)

    def get_lr(self):
        n = self.last_epoch + 1
        return self.base_lr * min(n / self.warm, (self.warm / n) ** 0.5)


def build_optimizer(model):
    keep = {p.name for p in model.tower.parameters() if p.ndim == 2}
    keep |= {model.num_latent.name, model.num_weight1.name}
    return paddle.optimizer.AdamW(
        WarmInvSqrt(spec.lr, 10), beta2=0.98, parameters=model.parameters(), weight_decay=spec.weight_decay,
        apply_decay_param_fun=keep.__contains__, grad_clip=nn.ClipGradByGlobalNorm(1.0))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    ids, num, y = batch
    half = -(-y.shape[0] // spec.accum)
    losses = []
    for lo in range(0, y.shape[0], half):
        part = slice(lo, lo + half)
        l = loss(model(ids[part], num[part]), y[part])
        (l / spec.accum).backward()
        losses.append(float(l))
    norm = sum(float((p.grad ** 2).sum()) for p in model.parameters()) ** 0.5
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": sum(losses) / spec.accum, "grad_norm": norm}


def predict(path, model):
    rows = json.loads(Path(path).read_text())
    ids, num = features({k: [r[k] for r in rows] for k in rows[0]})
    model.eval()
    with paddle.no_grad():
        p = F.sigmoid(model(paddle.to_tensor(ids), paddle.to_tensor(num)))
    return {"ctr": p.numpy(), "rank": paddle.argsort(p, descending=True).numpy()}
