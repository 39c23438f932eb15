"""Reviews: sentiment with an adversarial domain branch (Paddle)."""
import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.autograd import PyLayer
from paddle.io import BatchSampler, DataLoader, Dataset, WeightedRandomSampler
import paddle.nn.functional as F

DATA_DIR = Path(__file__).resolve().parent.parent / "data"
EMB, HID, NUM_CLASSES, SEQ = 24, 32, 3, 14
BATCH, BASE_LR, L2, TOTAL = 10, 0.05, 5e-4, 112
SLOW = 0.1
EPS_SMOOTH = 0.1


@lru_cache(None)
def vocabulary():
    words = (DATA_DIR / "vocab.txt").read_text().split()
    return dict(zip(words, range(2, len(words) + 2)))


class ReverseGrad(PyLayer):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy * (-ctx.scale)


class BatchNorm(nn.BatchNorm1D):
    """Running variance with Bessel's correction, which Paddle's own kernel leaves out."""

    def forward(self, x):
        y = super().forward(x)
        if self.training:
            with paddle.no_grad():
                extra = paddle.var(x.detach(), axis=0, unbiased=False) / (x.shape[0] - 1)
                self._variance.set_value(self._variance + (1 - self._momentum) * extra)
        return y


def he(in_f, out_f, bias=True):
    return nn.Linear(in_f, out_f, weight_attr=nn.initializer.Normal(std=(2.0 / in_f) ** 0.5),
                     bias_attr=nn.initializer.Constant(0.0) if bias else False)


class MLPHead(nn.Layer):
    def __init__(self, n_out):
        super().__init__()
        self.out = he(HID, n_out)
        self.hidden = he(HID, HID)
        self.bn = BatchNorm(HID)

    def forward(self, h):
        return self.out(F.leaky_relu(self.bn(self.hidden(h)), 0.1))


class AdversarialNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.domain_head = MLPHead(1)
        self.label_head = MLPHead(NUM_CLASSES)
        self.fc, self.bn, self.drop = he(EMB, HID, bias=False), BatchNorm(HID), nn.Dropout(0.2)
        self.word = nn.Embedding(len(vocabulary()) + 2, EMB, padding_idx=0,
                                 weight_attr=nn.initializer.Normal(0.0, 1.0))
        self.register_buffer("seen", paddle.zeros([], dtype="int64"))

    def strength(self):
        p = int(self.seen) / TOTAL
        return max(0.1, 0.5 * float(np.tanh(5 * p)))       # 2 / (1 + exp(-10 p)) - 1 == tanh(5 p)

    def backbone(self, tokens):
        mask = (tokens != 0).astype("float32").unsqueeze(-1)
        pooled = (self.word(tokens) * mask).sum(axis=1) / paddle.clip(mask.sum(axis=1), min=1.0)
        return self.drop(F.relu(self.bn(self.fc(pooled))))

    def forward(self, tokens):
        h = self.backbone(tokens)
        return {"label": self.label_head(h),
                "domain": self.domain_head(ReverseGrad.apply(h, self.strength())).flatten()}


def tokenize(text):
    v = vocabulary()
    ids = np.zeros(SEQ, "int64")
    words = text.lower().split()[:SEQ]
    ids[:len(words)] = [v.get(w, 1) for w in words]
    return ids


class ReviewDataset(Dataset):
    def __init__(self, split):
        super().__init__()
        table = json.loads((DATA_DIR / "reviews.json").read_text())
        table = list(filter(lambda r: r["split"] == split, table))
        self.ids = np.stack([tokenize(r["text"]) for r in table])
        self.is_target = np.array([r["domain"] != "source" for r in table], "float32")
        self.y = np.array([r["label"] for r in table], "int64")
        if split == "train":
            self.y[self.is_target > 0] = -1          # target labels are never seen in training

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.ids[i], {"y": self.y[i], "d": self.is_target[i]}


def build_model():
    return AdversarialNet()


def build_dataset(split):
    return ReviewDataset(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        share = ds.is_target.mean()
        weights = np.where(ds.is_target > 0, 0.5 / share, 0.5 / (1 - share))
        bs = BatchSampler(sampler=WeightedRandomSampler(weights.astype("float32"), len(ds), replacement=True), batch_size=BATCH)
    else:
        bs = BatchSampler(ds, batch_size=BATCH)
    return DataLoader(ds, batch_sampler=bs)


def loss(outputs, labels):
    logits, y = outputs["label"], labels["y"]
    known = (y >= 0).astype("float32")
    onehot = F.label_smooth(F.one_hot(paddle.clip(y, min=0), NUM_CLASSES), epsilon=EPS_SMOOTH)
    ce = F.cross_entropy(logits, onehot, soft_label=True, reduction="none").reshape([-1])
    l_cls = paddle.sum(ce * known) / paddle.clip(known.sum(), min=1.0)
    z = outputs["domain"]
    l_dom = paddle.mean(F.softplus(z) - z * labels["d"])
    return {"loss": l_cls + l_dom, "class": l_cls, "domain": l_dom}


def metric(outputs, labels):
    y, d = labels["y"].numpy(), labels["d"].numpy()
    keep = y >= 0
    pred, y = outputs["label"].numpy().argmax(-1)[keep], y[keep]
    conf = np.zeros((NUM_CLASSES, NUM_CLASSES), int)
    np.add.at(conf, (y, pred), 1)
    denom = conf.sum(0) + conf.sum(1)
    f1 = 2 * np.diag(conf) / np.maximum(denom, 1)
    return {"macro_f1": float(f1.mean()), "domain_acc": float(((outputs["domain"].numpy() > 0) == (d > 0.5)).mean())}


class InverseDecay(paddle.optimizer.lr.LRScheduler):
    def get_lr(self):
        return self.base_lr / (1.0 + 10.0 * self.last_epoch / TOTAL) ** 0.75


def build_optimizer(model):
    slow = {id(p) for m in (model.word, model.fc, model.bn) for p in m.parameters()}
    buckets = {(s, w): [] for s in (1.0, SLOW) for w in (L2, 0.0)}
    for layer in model.sublayers():
        for p in layer.parameters(include_sublayers=False):
            wd = L2 if isinstance(layer, nn.Linear) and p is layer.weight else 0.0
            buckets[SLOW if id(p) in slow else 1.0, wd].append(p)
    groups = [{"params": ps, "learning_rate": s, "weight_decay": w} for (s, w), ps in buckets.items() if ps]
    return paddle.optimizer.Momentum(InverseDecay(BASE_LR), momentum=0.9, parameters=groups, use_nesterov=True)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    tokens, labels = batch
    strength = model.strength()
    parts = loss(model(tokens), labels)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    model.seen.set_value(model.seen + 1)
    report = {k: float(v) for k, v in parts.items()}
    report["lambda"] = float(strength)
    return report


def predict(path, model):
    texts = json.loads(Path(path).read_text())["texts"]
    model.eval()
    with paddle.no_grad():
        out = model(paddle.to_tensor(np.stack([tokenize(t) for t in texts])))
        prob = F.softmax(out["label"], axis=-1).numpy()
        dom = F.sigmoid(out["domain"]).numpy()
    return {"prob": prob, "label": prob.argmax(1).tolist(), "p_target": dom}
