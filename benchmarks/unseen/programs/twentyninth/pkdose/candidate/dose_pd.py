"""Drug concentration curves from patient covariates: a hybrid compartment ODE (PaddlePaddle)."""
import json
import math
import os

import numpy as np
import paddle
import paddle.nn as nn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
STEPS = 24
MAX_OBS = 8
LLOQ = 0.5
TYPICAL = (1.0, 5.0, 30.0, 0.15, 0.1)
SPREAD = (0.5, 0.3, 0.3, 0.2, 0.2)
ALLOMETRY = (0.0, 0.75, 1.0, 0.0, 0.0)
TABLEAU = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))

with open(os.path.join(FOLDER, "subjects.json")) as _f:
    SUBJECTS = json.load(_f)


def median_creatinine(rows):
    table = {}
    for row in rows:
        if row["creatinine"] is not None and row["group"] == "train":
            table.setdefault(row["sex"], []).append(row["creatinine"])
    return {sex: float(np.median(v)) for sex, v in table.items()}


FILL = median_creatinine(SUBJECTS)


def describe(person):
    creatinine = FILL[person["sex"]] if person["creatinine"] is None else person["creatinine"]
    return np.array([
        np.log(person["weight"] / 70.0),
        (person["age"] - 45) / 20,
        np.log(creatinine / 0.9),
        {"m": 1.0, "f": -1.0}[person["sex"]],
    ], dtype="float32")


def schedule_doses(doses):
    hours, amounts = zip(*doses)
    return np.bincount(np.array(hours, dtype=int), weights=amounts, minlength=STEPS + 1).astype("float32")


def encode(person):
    obs = person["obs"]
    fill = MAX_OBS - len(obs)
    below = [isinstance(v, str) for _, v in obs]
    values = [float(v.lstrip("<")) if b else v for (_, v), b in zip(obs, below)]
    times = np.array([t for t, _ in obs] + [0.0] * fill, dtype="float32")
    conc = np.array(values + [1.0] * fill, dtype="float32")
    kind = np.array([1 + b for b in below] + [0] * fill, dtype="int64")
    return describe(person), schedule_doses(person["doses"]), times, {"conc": conc, "kind": kind}


class Cohort(paddle.io.Dataset):
    def __init__(self, split):
        self.rows = [encode(p) for p in SUBJECTS if p["group"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class EpochSampler(paddle.io.Sampler):
    def __init__(self, source, seed):
        super().__init__(source)
        self.seed = seed
        self.rounds = 0

    def __len__(self):
        return len(self.data_source)

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.rounds]).permutation(len(self.data_source))
        self.rounds += 1
        return iter(order.tolist())


def build_dataset(split):
    return Cohort(split)


def build_dataloader(split):
    rows = Cohort(split)
    if split != "train":
        return paddle.io.DataLoader(rows, batch_size=12)
    batches = paddle.io.BatchSampler(sampler=EpochSampler(rows, seed=3), batch_size=12, drop_last=True)
    return paddle.io.DataLoader(rows, batch_sampler=batches)


def flow_matrix(theta):
    """Linear exchange between (gut, central, outer), without elimination: [B, 3, 3]."""
    ka, _, _, k12, k21 = (paddle.exp(theta[:, i]) for i in range(5))
    none = paddle.zeros_like(ka)
    rows = [[-ka, none, none], [ka, -k12, k21], [none, k12, -k21]]
    return paddle.stack([paddle.stack(r, axis=-1) for r in rows], axis=1)


def make_field(theta, factor):
    matrix = flow_matrix(theta)
    k10 = paddle.exp(theta[:, 1] - theta[:, 2])
    inverse = paddle.exp(-theta[:, 2])
    central = paddle.to_tensor([0.0, 1.0, 0.0])

    def field(x):
        amount = x[:, 1]
        out = k10 * amount * factor(amount * inverse)
        return paddle.einsum("bij,bj->bi", matrix, x) - out.unsqueeze(-1) * central

    return field


def make_stepper(field, h=1.0):
    def step(x):
        slope, total = paddle.zeros_like(x), x
        for node, weight in TABLEAU:
            slope = field(x + h * node * slope)
            total = total + h * weight * slope
        return total

    return step


def roll(step, doses, volume):
    gut = paddle.to_tensor([1.0, 0.0, 0.0])
    x = doses[:, :1] * gut
    seen = [x[:, 1]]
    for k in range(1, STEPS + 1):
        x = step(x) + doses[:, k:k + 1] * gut
        seen.append(x[:, 1])
    return paddle.stack(seen, axis=1) / volume.unsqueeze(1)


def read_curve(curve, times):
    hours = paddle.arange(STEPS + 1, dtype="float32")
    hats = nn.functional.relu(1.0 - (times.unsqueeze(-1) - hours).abs())
    return paddle.einsum("bth,bh->bt", hats, curve)


def attr(initializer):
    return paddle.ParamAttr(initializer=initializer)


def linear(i, o, weight, bias=None):
    return nn.Linear(i, o, weight_attr=attr(weight), bias_attr=False if bias is False else attr(bias))


def around(fan):
    return nn.initializer.Uniform(-1 / math.sqrt(fan), 1 / math.sqrt(fan))


class Hybrid(nn.Layer):
    def __init__(self):
        super().__init__()
        init = nn.initializer
        self.population = self.create_parameter(
            [5], default_initializer=init.Assign(np.log(np.array(TYPICAL, dtype="float32"))))
        gain = 5.0 / 3.0
        self.covariate = nn.Sequential(
            linear(4, 16, init.Orthogonal(gain=gain), around(4)), nn.Tanh(),
            linear(16, 16, init.Orthogonal(gain=gain), around(16)), nn.Tanh(),
            linear(16, 5, init.Normal(std=0.05), False))
        self.elimination = nn.Sequential(
            linear(1, 8, init.Uniform(-1.0, 1.0), around(1)), nn.Softplus(beta=2.0),
            linear(8, 1, init.TruncatedNormal(std=0.1, a=-0.2, b=0.2), init.Constant(0.0)))

    def forward(self, cov, doses, times):
        delta = self.covariate(cov)
        theta = self.population + delta + cov[:, 0:1] * paddle.to_tensor(ALLOMETRY)

        def factor(c):
            return 2.0 * nn.functional.sigmoid(self.elimination(paddle.log1p(c)[:, None])[:, 0])

        curve = roll(make_stepper(make_field(theta, factor)), doses, paddle.exp(theta[:, 2]))
        return {"conc": read_curve(curve, times), "curve": curve, "theta": theta, "delta": delta}


def build_model():
    return Hybrid()


def make_student(dof):
    return lambda z: (dof + 1) / 2 * paddle.log(1.0 + z * z / dof)


def make_criterion(dof=4.0, weights=(1.0, 0.5, 0.1)):
    student = make_student(dof)
    omega = paddle.to_tensor(SPREAD)

    def ratio(total, count):
        return total / paddle.clip(count, min=1.0)

    def criterion(outputs, labels):
        seen = (labels["kind"] == 1).astype("float32")
        under = (labels["kind"] == 2).astype("float32")
        gap = paddle.log(labels["conc"]) - paddle.log(outputs["conc"] + 1e-3)
        with paddle.no_grad():
            scale = paddle.sqrt(ratio((seen * gap * gap).sum(), seen.sum())).clip(0.1, 1.0)
        z = gap / scale
        each = ratio((student(z) * seen).sum(axis=1), seen.sum(axis=1))
        fit = each.mean()
        phi = 0.5 * (1.0 + paddle.erf(z / math.sqrt(2.0)))
        censored = ratio((-paddle.log(phi + 1e-3) * under).sum(), under.sum())
        prior = 0.5 * paddle.mean(paddle.sum(paddle.square(outputs["delta"] / omega), axis=-1))
        terms = {"fit": fit, "censored": censored, "prior": prior}
        terms["loss"] = sum(w * t for w, t in zip(weights, (fit, censored, prior)))
        return terms

    return criterion


loss = make_criterion()


def area(values, marks):
    x = np.flatnonzero(marks)
    y = values[x]
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())


def metric(outputs, labels):
    guess = np.asarray(outputs["conc"]).astype("float64")
    truth = np.asarray(labels["conc"]).astype("float64")
    kind = np.asarray(labels["kind"])
    gap = np.log(truth / np.maximum(guess, 1e-3))[kind == 1]
    low, middle, high = np.quantile(gap, [0.1, 0.5, 0.9])
    rows = [i for i in range(len(kind)) if (kind[i] == 1).sum() >= 3]
    areas = [(area(guess[i], kind[i] == 1), area(truth[i], kind[i] == 1)) for i in rows]
    hidden = guess[kind == 2]
    return {
        "rmse_log": math.sqrt(float((gap ** 2).mean())),
        "fold_error": math.exp(float(np.abs(gap).mean())),
        "within_twofold": float(np.mean(np.abs(gap) <= math.log(2))),
        "bias": float(middle),
        "spread": float(high - low),
        "below_recall": float(np.mean(hidden < LLOQ)) if hidden.size else 1.0,
        "area_error": sum(abs(a - b) / b for a, b in areas) / len(areas) if areas else 0.0,
    }


class CenteredRMS:
    """RMSprop as torch has it: centred, epsilon outside the root, momentum over the scaled gradient."""

    def __init__(self, learning_rate, groups, alpha=0.99, eps=1e-8, momentum=0.0):
        self._learning_rate = learning_rate
        self.groups = groups
        self._parameter_list = [p for g in groups for p in g["params"]]
        self.alpha, self.eps, self.momentum = alpha, eps, momentum
        self.memory = {p.name: self.fresh(p) for p in self._parameter_list}

    @staticmethod
    def fresh(p):
        return {k: paddle.zeros_like(p).detach() for k in ("square", "mean", "velocity")}

    def get_lr(self):
        return self._learning_rate() if callable(self._learning_rate) else self._learning_rate

    @paddle.no_grad()
    def step(self):
        for group in self.groups:
            rate = self.get_lr() * group.get("ratio", 1.0)
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad + group.get("decay", 0.0) * p
                m = self.memory[p.name]
                m["square"] = self.alpha * m["square"] + (1 - self.alpha) * g * g
                m["mean"] = self.alpha * m["mean"] + (1 - self.alpha) * g
                root = paddle.sqrt(m["square"] - m["mean"] ** 2) + self.eps
                m["velocity"] = self.momentum * m["velocity"] + g / root
                p.set_value(p - rate * m["velocity"])

    def clear_grad(self, set_to_zero=False):
        for p in self._parameter_list:
            p.clear_gradient(set_to_zero)

    def state_dict(self):
        state = {f"{name}.{k}": v.clone() for name, m in self.memory.items() for k, v in m.items()}
        state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state):
        for name, m in self.memory.items():
            for k in m:
                m[k] = paddle.to_tensor(state[f"{name}.{k}"]).clone()
        self._learning_rate.set_state_dict(state["LR_Scheduler"])


def build_optimizer(model):
    inner = [p for n, p in model.named_parameters() if n != "population"]
    plan = paddle.optimizer.lr.MultiStepDecay(1.6e-3, milestones=[18, 36], gamma=0.3)
    return CenteredRMS(
        plan,
        [{"params": inner, "decay": 1e-3}, {"params": [model.population], "ratio": 0.5}],
        alpha=0.9, eps=1e-4, momentum=0.6,
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    sums = {}
    for start in (0, 1):
        half = {k: v[start::2] for k, v in labels.items()}
        terms = loss(model(*(x[start::2] for x in inputs)), half)
        (0.5 * terms["loss"]).backward()
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + 0.5 * float(value)
    with paddle.no_grad():
        for p in model.parameters():
            p.grad.clip_(-0.25, 0.25)
    optimizer.step()
    optimizer.clear_grad()
    return sums


def terminal_rate(theta):
    _, clearance, volume, k12, k21 = np.exp(theta.astype("float64"))
    k10 = clearance / volume
    inner = np.array([[-(k10 + k12), k21], [k12, -k21]])
    return float(np.abs(np.linalg.eigvals(inner)).min())


def predict(path, model):
    model.eval()
    with open(path) as f:
        case = json.load(f)
    with paddle.no_grad():
        out = model(
            paddle.to_tensor(describe(case["subject"])[None]),
            paddle.to_tensor(schedule_doses(case["doses"])[None]),
            paddle.to_tensor([case["ask"]], dtype="float32"),
        )
    out = {k: v.numpy()[0] for k, v in out.items()}
    curve = out["curve"]
    rate = terminal_rate(out["theta"])
    start = int(max(case["doses"])[0])
    if curve[start:].min() < LLOQ:
        advice = "raise"
    elif curve.max() > 8:
        advice = "lower"
    else:
        advice = "keep"
    return {
        "conc": out["conc"],
        "curve": curve,
        "peak": np.array([curve.max(), np.argmax(curve)]),
        "exposure": np.array(area(curve, np.ones(len(curve))) + curve[-1] / rate),
        "half_life": np.array(np.log(2) / rate),
        "advice": advice,
    }
