"""Speaker verification in Paddle."""
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler

import frontend_pd as front

HYPER = {
    "epochs": 8,
    "batch": 6,
    "margin": 0.2,
    "scale": 16.0,
    "smooth": 0.05,
    "pull": 0.1,
    "clip": 2.0,
    "lr": 4e-3,
    "betas": (0.9, 0.98),
    "eps": 1e-6,
    "seed": 3,
}
NAMES = front.roster()


class Part(nn.Layer):
    """Network pieces announce themselves under `key` when they are defined."""

    known = {}

    def __init_subclass__(cls, key=None, **kw):
        super().__init_subclass__(**kw)
        if key:
            Part.known[key] = cls


def part(key, **kw):
    return Part.known[key](**kw)


class TrackedNorm(nn.BatchNorm1D):
    """Batch norm whose running variance is the unbiased one."""

    def __init__(self, channels, keep=0.9):
        super().__init__(channels, momentum=keep, epsilon=1e-5)
        self.keep = keep

    def forward(self, x):
        if not self.training:
            mean, var = self._mean, self._variance
        else:
            mean = x.mean(axis=[0, 2])
            var = ((x - mean.reshape([1, -1, 1])) ** 2).mean(axis=[0, 2])
            count = x.shape[0] * x.shape[2]
            with paddle.no_grad():
                self._mean.set_value(self.keep * self._mean + (1 - self.keep) * mean)
                self._variance.set_value(
                    self.keep * self._variance + (1 - self.keep) * var * (count / (count - 1))
                )
        inv = paddle.rsqrt(var + 1e-5) * self.weight
        return (x - mean.reshape([1, -1, 1])) * inv.reshape([1, -1, 1]) + self.bias.reshape([1, -1, 1])


def conv(cin, cout, k, dilation=1, groups=1, bias=False):
    std = math.sqrt(2.0 / (cout * k))
    return nn.Conv1D(
        cin, cout, k, dilation=dilation, groups=groups, padding=dilation * (k - 1) // 2,
        weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, std)),
        bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.0)) if bias else False,
    )


def dense(cin, cout):
    return nn.Linear(
        cin, cout,
        weight_attr=paddle.ParamAttr(initializer=nn.initializer.XavierUniform()),
        bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.01)),
    )


class Frames(Part, key="frames"):
    def __init__(self, cin, cout, k, dilation=1, groups=1):
        super().__init__()
        self.conv = conv(cin, cout, k, dilation, groups)
        self.norm = TrackedNorm(cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class ChannelGate(Part, key="gate"):
    def __init__(self, channels, hidden):
        super().__init__()
        self.down = dense(channels, hidden)
        self.up = dense(hidden, channels)

    def forward(self, x):
        pooled = paddle.mean(x, axis=-1)
        return x * F.sigmoid(self.up(F.relu(self.down(pooled)))).unsqueeze(-1)


class WeightedMoments(Part, key="moments"):
    def __init__(self, channels, hidden):
        super().__init__()
        self.score1 = conv(channels, hidden, 1, bias=True)
        self.score2 = conv(hidden, channels, 1)

    def forward(self, x):
        energy = self.score2(F.tanh(self.score1(x)))
        alpha = F.softmax(energy, axis=-1)
        first = paddle.einsum("bct,bct->bc", alpha, x)
        second = paddle.einsum("bct,bct->bc", alpha, x.square())
        spread = paddle.clip(second - first.square(), min=1e-4)
        return paddle.concat([first, spread.sqrt()], axis=1)


class SpeakerNet(nn.Layer):
    def __init__(self, width=24, embed=16):
        super().__init__()
        self.entry = part("frames", cin=front.FRONT.bands, cout=width, k=5)
        self.body = part("frames", cin=width, cout=width, k=3, dilation=2, groups=2)
        self.gate = part("gate", channels=width, hidden=6)
        self.pool = part("moments", channels=width, hidden=8)
        self.project = dense(2 * width, embed)
        self.post = nn.LayerNorm(embed)
        std = math.sqrt(2.0 / (len(NAMES) + embed))
        self.prototypes = self.create_parameter(
            [len(NAMES), embed], default_initializer=nn.initializer.Normal(0.0, std)
        )

    def forward(self, x):
        h = self.entry(x)
        h = self.gate(self.body(h)) + h
        e = self.post(self.project(self.pool(h)))
        unit, proto = (F.normalize(v, axis=1) for v in (e, self.prototypes))
        return {"embedding": e, "cosine": paddle.matmul(unit, proto, transpose_y=True)}


class ClipSet(Dataset):
    def __init__(self, part_name):
        super().__init__()
        self.items = [(f, NAMES.index(who)) for f, who, where in front.listing() if where == part_name]

    def __getitem__(self, i):
        f, who = self.items[i]
        return front.features(front.load(front.ROOT / f)), np.int64(who)

    def __len__(self):
        return len(self.items)


class Ordered(Sampler):
    def __init__(self, n):
        super().__init__()
        self.indices = [int(k) for k in np.random.default_rng(HYPER["seed"]).permutation(n)]

    def __iter__(self):
        yield from self.indices

    def __len__(self):
        return len(self.indices)


class DecoupledAdam(paddle.optimizer.Optimizer):
    """Adam with decoupled weight decay and a rule (decay, rate multiplier) per parameter."""

    def __init__(self, learning_rate, parameters, rules, betas, eps):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.type = "decoupled_adam"
        self.rules, self.betas, self.eps = rules, betas, eps

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            if p.name in self._already_create_accumulator:
                continue
            self._add_accumulator("first", p)
            self._add_accumulator("second", p)
            self._add_accumulator("pow1", p, fill_value=1.0, shape=[1])
            self._add_accumulator("pow2", p, fill_value=1.0, shape=[1])
            self._already_create_accumulator.add(p.name)

    def _append_optimize_op(self, block, param_and_grad):
        p, g = param_and_grad
        b1, b2 = self.betas
        decay, mult = self.rules[p.name]
        first, second, pow1, pow2 = (
            self._get_accumulator(k, p) for k in ("first", "second", "pow1", "pow2")
        )
        rate = self.get_lr() * mult
        with paddle.no_grad():
            first.set_value(b1 * first + (1.0 - b1) * g)
            second.set_value(b2 * second + (1.0 - b2) * g * g)
            pow1.set_value(pow1 * b1)
            pow2.set_value(pow2 * b2)
            denom = paddle.sqrt(second / (1.0 - pow2)) + self.eps
            p.set_value(p * (1.0 - rate * decay) - rate * (first / (1.0 - pow1)) / denom)


class WarmCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, total, warm, low=0.05):
        self.total, self.warm, self.low = total, warm, low
        super().__init__(learning_rate=base)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warm:
            return self.base_lr * (t + 1) / self.warm
        done = min(1.0, (t - self.warm) / (self.total - self.warm))
        return self.base_lr * (self.low + (1.0 - self.low) * 0.5 * (1.0 + math.cos(math.pi * done)))


def margin_logits(cos, hot, m, s):
    theta_limit, slope = math.cos(math.pi - m), math.sin(math.pi - m) * m
    sin = paddle.sqrt(paddle.clip(1.0 - cos.square(), min=1e-7))
    pushed = cos * math.cos(m) - sin * math.sin(m)
    pushed = paddle.where(cos > theta_limit, pushed, cos - slope)
    return s * paddle.where(hot > 0.5, pushed, cos)


def clip_gradients(params, limit):
    grads = [p.grad for p in params if p.grad is not None]
    total = paddle.sqrt(sum((g * g).sum() for g in grads))
    ratio = limit / (float(total) + 1e-6)
    if ratio < 1.0:
        for g in grads:
            g.set_value(g * ratio)
    return float(total)


def build_model():
    return SpeakerNet()


def build_dataset(split):
    return ClipSet(split)


def build_dataloader(split):
    data = build_dataset(split)
    if split != "train":
        return DataLoader(data, batch_size=HYPER["batch"], shuffle=False, drop_last=False)
    batches = BatchSampler(sampler=Ordered(len(data)), batch_size=HYPER["batch"], drop_last=True)
    return DataLoader(data, batch_sampler=batches)


def loss(outputs, labels):
    cos = outputs["cosine"]
    classes = cos.shape[1]
    hot = F.one_hot(labels, classes)
    logits = margin_logits(cos, hot, HYPER["margin"], HYPER["scale"])
    target = hot * (1.0 - HYPER["smooth"]) + HYPER["smooth"] / classes
    ce = -(target * F.log_softmax(logits, axis=1)).sum(axis=1).mean()
    pull = 1.0 - paddle.take_along_axis(cos, labels.unsqueeze(1), axis=1).mean()
    return {"loss": ce + HYPER["pull"] * pull, "ce": ce, "pull": pull}


def error_rates(hits, others):
    for cut in sorted(set(hits) | set(others)):
        miss = sum(s < cut for s in hits) / len(hits)
        false = sum(s >= cut for s in others) / len(others)
        yield miss, false


def metric(outputs, labels):
    cos = outputs["cosine"].numpy().astype("float64")
    y = labels.numpy().tolist()
    hits = [float(row[k]) for row, k in zip(cos, y)]
    others = [float(v) for row, k in zip(cos, y) for j, v in enumerate(row) if j != k]
    curve = list(error_rates(hits, others))
    miss, false = min(curve, key=lambda mf: abs(mf[0] - mf[1]))
    return {
        "accuracy": sum(int(row.argmax()) == k for row, k in zip(cos, y)) / len(y),
        "eer": 0.5 * (miss + false),
        "min_dcf": min(m + 9.0 * f for m, f in curve),
        "gap": float(np.mean(hits) - np.mean(others)),
        "spread": float(np.std(others, ddof=1)),
    }


def build_optimizer(model):
    steps = HYPER["epochs"] * len(build_dataloader("train"))
    rules = {}
    for name, p in model.named_parameters():
        if name == "prototypes":
            rules[p.name] = (0.002, 2.0)
        elif p.ndim > 1:
            rules[p.name] = (0.02, 1.0)
        else:
            rules[p.name] = (0.0, 1.0)
    return DecoupledAdam(
        WarmCosine(HYPER["lr"], steps, steps // 10), model.parameters(), rules, HYPER["betas"], HYPER["eps"]
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    parts = loss(model(*inputs), labels)
    optimizer.clear_grad()
    parts["loss"].backward()
    norm = clip_gradients(model.parameters(), HYPER["clip"])
    optimizer.step()
    return {"loss": float(parts["loss"]), "ce": float(parts["ce"]), "grad_norm": norm}


def predict(path, model):
    mode = model.training
    model.eval()
    x = paddle.to_tensor(front.features(front.load(path))).unsqueeze(0)
    with paddle.no_grad():
        out = model(x)
    (model.train if mode else model.eval)()
    scores = F.softmax(out["cosine"] * HYPER["scale"], axis=-1).numpy()[0]
    vec = out["embedding"].numpy()[0]
    order = np.argsort(-scores)
    return {
        "speaker": NAMES[int(order[0])],
        "confidence": float(scores[order[0]]),
        "embedding": vec / np.linalg.norm(vec),
        "shortlist": [NAMES[int(k)] for k in order[:3]],
        "probabilities": scores,
    }
