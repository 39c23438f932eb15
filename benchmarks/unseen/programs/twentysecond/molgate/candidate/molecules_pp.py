"""Molecular properties with uncertainty, Paddle. Everything is a function; `build_model` closes over its parts."""
import functools
import json
import pathlib

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
MAX_ATOMS = 9
BOND_ORDERS = (1, 2, 3)
WIDTH = 12
ROUNDS = 3
BATCH = 6
PROPERTIES = ("solubility", "boiling")
Z90 = 1.6449


@functools.lru_cache(maxsize=None)
def corpus(name):
    return json.loads((DATA / f"{name}.json").read_text())


@functools.lru_cache(maxsize=None)
def standard():
    stats = []
    for k in range(len(PROPERTIES)):
        values = [m["targets"][k] for m in corpus("train")["molecules"] if m["targets"][k] is not None]
        mu = sum(values) / len(values)
        var = sum((v - mu) ** 2 for v in values) / (len(values) - 1)
        stats.append((mu, var ** 0.5))
    return np.array(stats).T


def one_hot(symbols):
    table = {s: k for k, s in enumerate(corpus("train")["elements"])}
    return np.eye(len(table))[[table[s] for s in symbols]]


def adjacency(bonds):
    adj = np.zeros((len(BOND_ORDERS), MAX_ATOMS, MAX_ATOMS))
    if bonds:
        a, b, order = np.array(bonds).T
        adj[order - 1, a, b] = 1.0
    return np.maximum(adj, adj.transpose(0, 2, 1))


def tensors(mol):
    n = len(mol["atoms"])
    adj = adjacency(mol["bonds"])
    kinds = np.pad(one_hot(mol["atoms"]), ((0, MAX_ATOMS - n), (0, 0)))
    degree = adj.sum(0).sum(-1, keepdims=True) / 4.0
    nodes = np.concatenate([kinds, degree], axis=-1)
    mask = (np.arange(MAX_ATOMS) < n)
    return tuple(v.astype("float32") for v in (nodes, adj, mask))


def answers(mol):
    mu, sd = standard()
    y, seen = np.zeros(2, "float32"), np.zeros(2, "float32")
    for k, v in enumerate(mol["targets"]):
        if v is not None:
            y[k], seen[k] = (v - mu[k]) / sd[k], 1.0
    return {"y": y, "seen": seen, "size": np.float32(len(mol["atoms"]))}


class Lazy(paddle.io.Dataset):
    def __init__(self, length, getter):
        self.length, self.getter = length, getter

    def __getitem__(self, i):
        if i >= self.length:
            raise IndexError(i)
        return self.getter(i)

    def __len__(self):
        return self.length


def build_dataset(split):
    mols = corpus(split)["molecules"]
    return Lazy(len(mols), lambda i: tensors(mols[i]) + (answers(mols[i]),))


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        order = np.random.default_rng(21).permutation(len(data))
        source = Lazy(len(data), lambda i: data[int(order[i])])
    else:
        source = data
    return paddle.io.DataLoader(source, batch_size=BATCH, shuffle=False)


# ------------------------------------------------------------------ model
def orthogonal(shape):
    q = []
    for _ in range(shape[0]):
        a = paddle.randn(shape[1:])
        u, r = paddle.linalg.qr(a)
        q.append(u * paddle.sign(paddle.diag(r)))
    return paddle.stack(q)


def initial_values():
    init = nn.initializer
    feat = len(corpus("train")["elements"]) + 1

    def glorot(fan_in, fan_out):
        limit = 1.2 * (6.0 / (fan_in + fan_out)) ** 0.5
        return (fan_in, fan_out), init.Uniform(-limit, limit)

    gru = init.Uniform(-WIDTH ** -0.5, WIDTH ** -0.5)
    zeros = init.Constant(0.0)
    return [
        ("embed_w", *glorot(feat, WIDTH)),
        ("embed_b", (WIDTH,), zeros),
        ("relation", (3, WIDTH, WIDTH), init.Assign(orthogonal((3, WIDTH, WIDTH)))),
        ("weight_ih", (3 * WIDTH, WIDTH), gru),
        ("weight_hh", (3 * WIDTH, WIDTH), gru),
        ("bias_ih", (3 * WIDTH,), gru),
        ("bias_hh", (3 * WIDTH,), gru),
        ("gate_w", *glorot(2 * WIDTH, WIDTH)),
        ("gate_b", (WIDTH,), init.Constant(0.5)),
        ("value_w", *glorot(WIDTH, WIDTH)),
        ("value_b", (WIDTH,), zeros),
        ("mean_w", (WIDTH + 1, 2), init.TruncatedNormal(0.0, 0.15, a=-0.3, b=0.3)),
        ("mean_b", (2,), zeros),
        ("var_w", (WIDTH + 1, 2), init.Normal(0.0, 0.02)),
        ("var_b", (2,), init.Constant(-0.3)),
    ]


def affine(weights, prefix):
    return lambda x: F.linear(x, weights[prefix + "_w"], weights[prefix + "_b"])


def passing(weights, adj):
    """Closure that gathers the messages of every bond kind, one kind after the other."""
    count = paddle.clip(adj.sum(axis=[1, 3]), min=1.0).unsqueeze(-1)

    def gather(h):
        total = 0.0
        for k in range(len(BOND_ORDERS)):
            total = total + adj[:, k] @ h @ weights["relation"][k]
        return total / count

    return gather


def recurrent(weights):
    def update(x, h):
        a = F.linear(x, weights["weight_ih"].T, weights["bias_ih"])
        b = F.linear(h, weights["weight_hh"].T, weights["bias_hh"])
        reset = F.sigmoid(a[..., :WIDTH] + b[..., :WIDTH])
        keep = F.sigmoid(a[..., WIDTH:2 * WIDTH] + b[..., WIDTH:2 * WIDTH])
        fresh = F.tanh(a[..., 2 * WIDTH:] + reset * b[..., 2 * WIDTH:])
        return fresh + keep * (h - fresh)

    return update


def readout(weights, h, first, mask):
    gate = F.sigmoid(affine(weights, "gate")(paddle.concat([h, first], axis=-1)))
    value = F.elu(affine(weights, "value")(h))
    pooled = paddle.einsum("bic,bic,bi->bc", gate, value, mask)
    atoms = mask.sum(axis=1).unsqueeze(1)
    return paddle.concat([pooled * paddle.rsqrt(atoms), paddle.log(atoms)], axis=1)


def soft_clip(x, bound):
    return bound * F.tanh(x / bound)


class Closed(nn.Layer):
    def __init__(self):
        super().__init__()
        for name, shape, init in initial_values():
            self.add_parameter(name, self.create_parameter(list(shape), default_initializer=init))

    def forward(self, nodes, adj, mask):
        w = dict(self.named_parameters())
        alive = mask.unsqueeze(-1)
        first = F.tanh(affine(w, "embed")(nodes)) * alive
        gather, update = passing(w, adj), recurrent(w)
        h = first
        for _ in range(ROUNDS):
            h = update(gather(h), h) * alive
        graph = readout(w, h, first, mask)
        return dict(
            mean=affine(w, "mean")(graph),
            log_var=soft_clip(affine(w, "var")(graph), 4.0),
            graph=graph,
        )


def build_model():
    return Closed()


# -------------------------------------------------------------- objective
def weighted_mean(values, weights):
    return paddle.sum(values * weights) / paddle.clip(weights.sum(), min=1.0)


def loss(outputs, labels):
    mean, log_var, seen = outputs["mean"], outputs["log_var"], labels["seen"]
    squared = paddle.square(mean - labels["y"])
    nll = weighted_mean(
        0.5 * log_var + 0.5 * squared / paddle.exp(log_var),
        seen * paddle.sqrt(labels["size"] / 6.0).unsqueeze(1),
    )
    wanted = paddle.log(squared + 0.1).detach()
    calibration = weighted_mean(paddle.square(log_var - wanted), seen)
    return {"loss": nll + 0.05 * calibration, "nll": nll, "calibration": calibration}


def natural(outputs):
    mu, sd = standard()
    mean = outputs["mean"].numpy().astype("float64")
    half = 0.5 * outputs["log_var"].numpy().astype("float64")
    return mean * sd + mu, np.exp(half) * sd


def ordered_share(a, b):
    good = total = 0
    for i in range(len(a)):
        for j in range(i):
            if b[i] != b[j]:
                total += 1
                good += np.sign(a[i] - a[j]) == np.sign(b[i] - b[j])
    return good / total


def metric(outputs, labels):
    mu, sd = standard()
    mean, std = natural(outputs)
    truth = labels["y"].numpy().astype("float64") * sd + mu
    seen = labels["seen"].numpy() > 0.5
    report = {}
    for k, name in enumerate(PROPERTIES):
        rows = np.flatnonzero(seen[:, k])
        if len(rows) < 3:
            continue
        m, s, t = mean[rows, k], std[rows, k], truth[rows, k]
        sse = np.sum(np.square(m - t))
        report.update({
            f"{name}_mae": float(np.mean(np.abs(m - t))),
            f"{name}_rmse": float(np.sqrt(sse / len(rows))),
            f"{name}_r2": float(1.0 - sse / (np.var(t) * len(rows))),
            f"{name}_cover": float(np.mean(np.abs(m - t) <= Z90 * s)),
            f"{name}_rank": float(ordered_share(m, t)),
        })
    return report


# --------------------------------------------------------------- training
def build_optimizer(model):
    per_epoch = len(build_dataloader("train"))
    warm = per_epoch // 2
    base = 4e-3
    steps = paddle.optimizer.lr.PiecewiseDecay(
        boundaries=[3 * per_epoch, 6 * per_epoch],
        values=[base * 0.4 ** k for k in range(3)],
    )
    rate = paddle.optimizer.lr.LinearWarmup(steps, warmup_steps=warm, start_lr=0.2 * base, end_lr=base)
    return paddle.optimizer.RMSProp(
        learning_rate=rate,
        rho=0.9,
        momentum=0.8,
        epsilon=1e-3,
        centered=True,
        parameters=model.parameters(),
        weight_decay=1e-3,
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def limit_norm(model, ceiling):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = float(paddle.linalg.norm(paddle.stack([paddle.linalg.norm(g) for g in grads])))
    if norm > ceiling:
        for g in grads:
            g.set_value(g * (ceiling / norm))


def train_step(model, optimizer, batch):
    model.train()
    inputs, labels = batch[:-1], batch[-1]
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    limit_norm(model, 1.0)
    optimizer.step()
    optimizer.clear_grad()
    return {k: v.detach() for k, v in parts.items()}


def predict(path, model):
    mol = json.loads(pathlib.Path(path).read_text())
    model.eval()
    with paddle.no_grad():
        out = model(*(paddle.to_tensor(v).unsqueeze(0) for v in tensors(mol)))
    mean, std = (v[0] for v in natural(out))
    band = Z90 * std
    return {
        "id": mol["id"],
        "mean": mean,
        "std": std,
        "low": mean - band,
        "high": mean + band,
        "text": ["%s=%.1f" % pair for pair in zip(PROPERTIES, mean)],
    }
