import json
import os

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data", "")
CATEGORIES = {"job": ("clerk", "nurse", "pilot", "smith"), "town": ("A", "B", "C")}


class Options:
    numeric = [f"f{i}" for i in range(5)]
    emb_dim, decision, attention, steps, classes = 2, 6, 6, 3, 3
    relax, sparse_weight, ghost, batch = 1.4, 0.01, 8, 16
    lr, lr_step, lr_gamma, max_norm, eps = 0.02, 20, 0.9, 1.0, 1e-6

    @property
    def hidden(self):
        return self.decision + self.attention

    @property
    def inputs(self):
        return len(self.numeric) + self.emb_dim * len(CATEGORIES)


opt = Options()


def featurize(records):
    num = np.array([[r[c] for c in opt.numeric] for r in records], dtype="float32")
    cat = np.array([[levels.index(r[c]) for c, levels in CATEGORIES.items()] for r in records], dtype="int64")
    return num, cat


class TableDataset(paddle.io.Dataset):
    def __init__(self, split):
        with open(DATA + split + ".jsonl") as f:
            records = list(map(json.loads, f))
        self.num, self.cat = featurize(records)
        self.y = np.array([r["y"] for r in records], dtype="int64")

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]


def sparsemax(z):
    """Projection on the simplex; the support is constant for the gradient."""
    n = z.shape[-1]
    top = paddle.topk(z, n, axis=-1)[0].detach()
    rank = paddle.arange(1, n + 1, dtype=z.dtype)
    size = ((1 + rank * top) > paddle.cumsum(top, axis=-1)).astype(z.dtype).sum(-1, keepdim=True)
    in_support = (z.detach() >= paddle.take_along_axis(top, size.astype("int64") - 1, axis=-1)).astype(z.dtype)
    tau = ((z * in_support).sum(-1, keepdim=True) - 1) / size
    return F.relu(z - tau)


class ExactBatchNorm(nn.Layer):
    """Batch norm whose running variance is the unbiased one (paddle.nn.BatchNorm1D keeps the biased)."""

    def __init__(self, size, keep=0.95, ghost=None):
        super().__init__()
        self.keep, self.ghost = keep, ghost
        self.shift = self.create_parameter([size], is_bias=True)
        self.scale = self.create_parameter([size], default_initializer=nn.initializer.Constant(1.0))
        self.register_buffer("_mean", paddle.zeros([size]))
        self.register_buffer("_variance", paddle.ones([size]))

    def _affine(self, x, mean, var):
        return (x - mean) * paddle.rsqrt(var + 1e-5) * self.scale + self.shift

    def _train_chunk(self, x):
        mean, var = x.mean(0), x.var(0, unbiased=False)
        n = x.shape[0]
        with paddle.no_grad():
            self._mean.set_value(self.keep * self._mean + (1 - self.keep) * mean)
            self._variance.set_value(self.keep * self._variance + (1 - self.keep) * var * (n / (n - 1)))
        return self._affine(x, mean, var)

    def forward(self, x):
        if not self.training:
            return self._affine(x, self._mean, self._variance)
        if not self.ghost:
            return self._train_chunk(x)
        return paddle.concat([self._train_chunk(x[i:i + self.ghost]) for i in range(0, x.shape[0], self.ghost)])


def glorot_linear(n_in, n_out):
    gain2 = (n_in + n_out) / np.sqrt(4 * n_in)
    std = float(np.sqrt(gain2 * 2.0 / (n_in + n_out)))
    return nn.Linear(n_in, n_out, weight_attr=nn.initializer.Normal(0.0, std), bias_attr=False)


class GatedUnit(nn.Layer):
    def __init__(self, fc, width):
        super().__init__()
        self.bn = ExactBatchNorm(2 * width, ghost=opt.ghost)
        self.linear = fc

    def forward(self, x):
        value, gate = self.bn(self.linear(x)).chunk(2, axis=-1)
        return value * F.sigmoid(gate)


class DecisionStep(nn.Layer):
    """Mask (absent in the first one) and the two gated layers behind it."""

    def __init__(self, shared_fc, masked=True):
        super().__init__()
        self.units = nn.LayerList([GatedUnit(shared_fc, opt.hidden), GatedUnit(glorot_linear(opt.hidden, 2 * opt.hidden), opt.hidden)])
        self.mask = nn.Sequential(glorot_linear(opt.attention, opt.inputs), ExactBatchNorm(opt.inputs, ghost=opt.ghost)) if masked else None

    def transform(self, x):
        h = self.units[0](x)
        h = (h + self.units[1](h)) * np.sqrt(0.5).item()
        return paddle.split(h, [opt.decision, opt.attention], axis=1)

    def forward(self, x, attention, prior):
        m = sparsemax(self.mask(attention) * prior)
        return m, self.transform(m * x)


class TabNetModel(nn.Layer):
    def __init__(self):
        super().__init__()
        self.final = glorot_linear(opt.decision, opt.classes)
        shared = glorot_linear(opt.inputs, 2 * opt.hidden)
        self.steps = nn.LayerList([DecisionStep(shared, masked=k > 0) for k in range(opt.steps + 1)])
        self.input_bn = ExactBatchNorm(opt.inputs)
        self.emb = nn.LayerList([nn.Embedding(len(v), opt.emb_dim, weight_attr=nn.initializer.Uniform(-1.0, 1.0)) for v in CATEGORIES.values()])

    def forward(self, num, cat):
        columns = [num] + [table(cat[:, i]) for i, table in enumerate(self.emb)]
        x = self.input_bn(paddle.concat(columns, axis=1))
        _, attention = self.steps[0].transform(x)
        prior, decisions, masks = paddle.ones_like(x), [], []
        for step in list(self.steps)[1:]:
            m, (d, attention) = step(x, attention, prior)
            prior = prior * (opt.relax - m)
            decisions.append(F.relu(d))
            masks.append(m)
        masks, decisions = paddle.stack(masks), paddle.stack(decisions)
        entropy = -(masks * paddle.log(masks + 1e-10)).sum(-1).mean(0)
        importance = (masks * decisions.detach().sum(-1, keepdim=True)).sum(0)
        return {"importance": importance, "logits": self.final(decisions.sum(0)), "entropy": entropy}


def build_model():
    return TabNetModel()


def build_dataset(split):
    return TableDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(TableDataset(split), batch_size=opt.batch, shuffle=split == "train")


def loss(outputs, labels):
    ce = F.cross_entropy(outputs["logits"], labels, reduction="none")
    focal = ((1 - paddle.exp(-ce)) ** 2 * ce).mean()
    sparsity = outputs["entropy"].mean()
    return {"focal": focal, "sparsity": sparsity, "loss": focal + opt.sparse_weight * sparsity}


def metric(outputs, labels):
    guess, y = outputs["logits"].numpy().argmax(1), labels.numpy()
    recalls = [np.mean(guess[y == k] == k) for k in np.unique(y)]
    return {"balanced_accuracy": float(np.mean(recalls)), "mask_entropy": float(outputs["entropy"].mean())}


def build_optimizer(model):
    rate = paddle.optimizer.lr.StepDecay(opt.lr, step_size=opt.lr_step, gamma=opt.lr_gamma)
    return paddle.optimizer.Adam(rate, epsilon=opt.eps, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(opt.max_norm))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    parts = loss(model(batch[0], batch[1]), batch[2])
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: v.detach() for k, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        num, cat = map(paddle.to_tensor, featurize(json.load(f)))
    with paddle.no_grad():
        out = model(num, cat)
    imp = out["importance"].numpy()
    return {"importance": imp / np.maximum(imp.sum(1, keepdims=True), 1e-6), "proba": F.softmax(out["logits"]).numpy()}
