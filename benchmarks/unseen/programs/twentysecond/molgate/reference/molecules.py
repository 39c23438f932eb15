"""Two molecular properties with predicted uncertainty: relational gated graph network, functional style."""
import json
import math
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
SLOTS, KINDS, HIDDEN, ROUNDS = 9, 3, 12, 3
EPOCHS, BATCH = 8, 6


def load(name):
    with open(os.path.join(HERE, "..", "data", name + ".json")) as fh:
        return json.load(fh)


ELEMENTS = load("train")["elements"]


def target_scale():
    table = np.array([[np.nan if v is None else v for v in m["targets"]] for m in load("train")["molecules"]])
    return np.nanmean(table, axis=0), np.nanstd(table, axis=0, ddof=1)


CENTER, SCALE = target_scale()


def encode(mol):
    n = len(mol["atoms"])
    nodes = np.zeros((SLOTS, len(ELEMENTS) + 1), dtype=np.float32)
    adj = np.zeros((KINDS, SLOTS, SLOTS), dtype=np.float32)
    for i, a in enumerate(mol["atoms"]):
        nodes[i, ELEMENTS.index(a)] = 1.0
    for a, b, order in mol["bonds"]:
        adj[order - 1, a, b] = adj[order - 1, b, a] = 1.0
    nodes[:, -1] = adj.sum(axis=(0, 2)) / 4.0
    mask = np.zeros(SLOTS, dtype=np.float32)
    mask[:n] = 1.0
    return nodes, adj, mask


def encode_targets(mol):
    raw = np.array([np.nan if v is None else v for v in mol["targets"]])
    seen = ~np.isnan(raw)
    y = np.where(seen, (raw - CENTER) / SCALE, 0.0)
    return {"y": y.astype(np.float32), "seen": seen.astype(np.float32), "size": np.float32(len(mol["atoms"]))}


class _Mapped(torch.utils.data.Dataset):
    def __init__(self, items, fn):
        self.items, self.fn = items, fn

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.fn(self.items[i])


def build_dataset(split):
    return _Mapped(load(split)["molecules"], lambda m: (*encode(m), encode_targets(m)))


def build_dataloader(split):
    data = build_dataset(split)
    order = np.random.default_rng(21).permutation(len(data)).tolist() if split == "train" else range(len(data))
    return torch.utils.data.DataLoader(torch.utils.data.Subset(data, list(order)), batch_size=BATCH)


class _Bound(nn.Module):
    """A bag of named parameters plus a function of them."""

    def __init__(self, spec, fn):
        super().__init__()
        for name, (shape, init) in spec.items():
            value = torch.empty(shape)
            init(value)
            self.register_parameter(name, nn.Parameter(value))
        self._fn = fn

    def forward(self, *inputs):
        return self._fn(dict(self.named_parameters()), *inputs)


def _spec():
    glorot = lambda w: nn.init.xavier_uniform_(w, gain=1.2)
    bound = 1.0 / math.sqrt(HIDDEN)
    uniform = lambda w: nn.init.uniform_(w, -bound, bound)

    def per_kind(w):
        for k in range(w.shape[0]):
            nn.init.orthogonal_(w[k])

    zero = nn.init.zeros_
    return {
        "embed_w": ((len(ELEMENTS) + 1, HIDDEN), glorot),
        "embed_b": ((HIDDEN,), zero),
        "relation": ((KINDS, HIDDEN, HIDDEN), per_kind),
        "weight_ih": ((3 * HIDDEN, HIDDEN), uniform),
        "weight_hh": ((3 * HIDDEN, HIDDEN), uniform),
        "bias_ih": ((3 * HIDDEN,), uniform),
        "bias_hh": ((3 * HIDDEN,), uniform),
        "gate_w": ((2 * HIDDEN, HIDDEN), glorot),
        "gate_b": ((HIDDEN,), lambda w: nn.init.constant_(w, 0.5)),
        "value_w": ((HIDDEN, HIDDEN), glorot),
        "value_b": ((HIDDEN,), zero),
        "mean_w": ((HIDDEN + 1, 2), lambda w: nn.init.trunc_normal_(w, std=0.15, a=-0.3, b=0.3)),
        "mean_b": ((2,), zero),
        "var_w": ((HIDDEN + 1, 2), lambda w: nn.init.normal_(w, std=0.02)),
        "var_b": ((2,), lambda w: nn.init.constant_(w, -0.3)),
    }


def _network(p, nodes, adj, mask):
    keep = mask[..., None]
    start = torch.tanh(nodes @ p["embed_w"] + p["embed_b"]) * keep
    degree = adj.sum(dim=(1, 3)).clamp(min=1.0)[..., None]
    h = start
    for _ in range(ROUNDS):
        msg = torch.einsum("bkij,bjc,kcd->bid", adj, h, p["relation"]) / degree
        gi = torch.einsum("bic,gc->big", msg, p["weight_ih"]) + p["bias_ih"]
        gh = torch.einsum("bic,gc->big", h, p["weight_hh"]) + p["bias_hh"]
        ri, zi, ni = gi.chunk(3, dim=-1)
        rh, zh, nh = gh.chunk(3, dim=-1)
        r, z = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
        n = torch.tanh(ni + r * nh)
        h = ((1 - z) * n + z * h) * keep
    gate = torch.sigmoid(torch.cat([h, start], dim=-1) @ p["gate_w"] + p["gate_b"])
    pooled = (gate * F.elu(h @ p["value_w"] + p["value_b"]) * keep).sum(dim=1)
    size = mask.sum(dim=1, keepdim=True)
    graph = torch.cat([pooled / size.sqrt(), size.log()], dim=1)
    mean = graph @ p["mean_w"] + p["mean_b"]
    log_var = 4.0 * torch.tanh((graph @ p["var_w"] + p["var_b"]) / 4.0)
    return {"mean": mean, "log_var": log_var, "graph": graph}


def build_model():
    return _Bound(_spec(), _network)


def loss(outputs, labels):
    err2 = (outputs["mean"] - labels["y"]) ** 2
    seen = labels["seen"]
    each = 0.5 * (outputs["log_var"] + err2 * torch.exp(-outputs["log_var"]))
    weight = seen * (labels["size"] / 6.0).sqrt()[:, None]
    nll = (each * weight).sum() / weight.sum().clamp(min=1.0)
    # the variance has to answer for the error, not the mean
    calib = (seen * (outputs["log_var"] - torch.log(err2.detach() + 0.1)) ** 2).sum() / seen.sum().clamp(min=1.0)
    return {"loss": nll + 0.05 * calib, "nll": nll, "calibration": calib}


def metric(outputs, labels):
    to = lambda t: t.detach().cpu().numpy().astype(np.float64)
    mean, std = to(outputs["mean"]) * SCALE + CENTER, np.exp(0.5 * to(outputs["log_var"])) * SCALE
    truth, seen = to(labels["y"]) * SCALE + CENTER, to(labels["seen"]) > 0.5
    report = {}
    for k, name in enumerate(("solubility", "boiling")):
        m, s, t = (v[seen[:, k], k] for v in (mean, std, truth))
        if len(t) < 3:
            continue
        e = m - t
        report[name + "_mae"] = float(np.abs(e).mean())
        report[name + "_rmse"] = float(np.sqrt((e ** 2).mean()))
        report[name + "_r2"] = float(1.0 - (e ** 2).sum() / ((t - t.mean()) ** 2).sum())
        report[name + "_cover"] = float((np.abs(e) <= 1.6449 * s).mean())
        report[name + "_rank"] = float(_concordance(m, t))
    return report


def _concordance(a, b):
    i, j = np.triu_indices(len(a), k=1)
    usable = b[i] != b[j]
    return (np.sign(a[i] - a[j]) == np.sign(b[i] - b[j]))[usable].mean()


class InnerRoot(torch.optim.Optimizer):
    """Centred RMSProp with epsilon under the root and the rate inside the momentum."""

    def __init__(self, params, lr, rho=0.9, momentum=0.8, eps=1e-3, l2=0.0):
        super().__init__(params, dict(lr=lr, rho=rho, momentum=momentum, eps=eps, l2=l2))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            rho = group["rho"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update({k: torch.zeros_like(p) for k in ("square", "average", "velocity")})
                g = p.grad + group["l2"] * p
                state["square"].mul_(rho).addcmul_(g, g, value=1 - rho)
                state["average"].mul_(rho).add_(g, alpha=1 - rho)
                denom = (state["square"] - state["average"] ** 2 + group["eps"]).sqrt()
                state["velocity"].mul_(group["momentum"]).addcdiv_(g, denom, value=group["lr"])
                p.sub_(state["velocity"])


def build_optimizer(model):
    return InnerRoot(model.parameters(), lr=4e-3, l2=1e-3)


def build_scheduler(optimizer):
    per_epoch = len(build_dataloader("train"))
    warm, marks = per_epoch // 2, (3 * per_epoch, 6 * per_epoch)

    def factor(t):
        if t < warm:
            return 0.2 + 0.8 * t / warm
        return 0.4 ** sum(t - warm >= m for m in marks)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    parts = loss(model(*inputs), labels)
    optimizer.zero_grad(set_to_none=True)
    parts["loss"].backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


def predict(path, model):
    with open(path) as fh:
        mol = json.load(fh)
    inputs = [torch.from_numpy(v)[None] for v in encode(mol)]
    model.eval()
    with torch.no_grad():
        out = model(*inputs)
    mean = out["mean"][0].numpy().astype(np.float64) * SCALE + CENTER
    std = np.exp(0.5 * out["log_var"][0].numpy().astype(np.float64)) * SCALE
    return {
        "id": mol["id"],
        "mean": mean,
        "std": std,
        "low": mean - 1.6449 * std,
        "high": mean + 1.6449 * std,
        "text": [f"{n}={m:.1f}" for n, m in zip(("solubility", "boiling"), mean)],
    }
