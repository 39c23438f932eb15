"""Direction and energy of air showers from sets of detector hits (PyTorch, functional)."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cosmic_events import MOST, BANDS, band_weights, prepare, read_events, spin  # noqa: E402

D, HEADS, LAYERS, FREQS = 24, 3, 2, 3


class Bag(nn.Module):
    """Parts and the function that runs them."""

    def __init__(self, run, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = run

    def forward(self, *inputs):
        return self.run(self, *inputs)


def scaled(layer, gain):
    nn.init.xavier_uniform_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)
    return layer


def make_attention():
    def run(m, x, mask, dist2):
        b, n, _ = x.shape
        q, k, v = m.qkv(m.norm(x)).view(b, n, 3, HEADS, D // HEADS).unbind(2)
        score = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(D // HEADS)
        score = score - torch.einsum("h,bij->bhij", F.softplus(m.near), dist2)
        score = score.masked_fill(mask[:, None, None, :] == 0, -1e9)
        mixed = torch.einsum("bhij,bjhd->bihd", score.softmax(-1), v).reshape(b, n, D)
        return x + m.scale * m.out(mixed)

    qkv = nn.Linear(D, 3 * D)
    nn.init.xavier_uniform_(qkv.weight, gain=1 / math.sqrt(2))
    nn.init.zeros_(qkv.bias)
    return Bag(run,
               norm=nn.LayerNorm(D, eps=1e-6),
               qkv=qkv,
               near=nn.Parameter(torch.linspace(-2.0, 0.0, HEADS)),
               out=scaled(nn.Linear(D, D), 1 / math.sqrt(2 * LAYERS)),
               scale=nn.Parameter(torch.full((D,), 0.5)))


def make_feed():
    def run(m, x):
        a, g = m.up(m.norm(x)).chunk(2, dim=-1)
        return x + m.scale * m.down(a * F.gelu(g))

    return Bag(run,
               norm=nn.LayerNorm(D, eps=1e-6),
               up=nn.Linear(D, 64),
               down=scaled(nn.Linear(32, D), 1 / math.sqrt(2 * LAYERS)),
               scale=nn.Parameter(torch.full((D,), 0.5)))


def make_embedding():
    def run(m, feats):
        waves = [feats]
        for k in range(FREQS):
            waves += [torch.sin(2 ** k * feats[..., 3:4]), torch.cos(2 ** k * feats[..., 3:4])]
        return m.second(F.gelu(m.first(torch.cat(waves, -1)), approximate="tanh"))

    return Bag(run, first=nn.Linear(5 + 2 * FREQS, D), second=nn.Linear(D, D))


def make_pool():
    def run(m, x, mask, charge):
        score = torch.einsum("bnd,d->bn", m.key(x), m.query) / math.sqrt(D) + charge
        score = score.masked_fill(mask == 0, -1e9)
        return torch.einsum("bn,bnd->bd", score.softmax(1), x)

    return Bag(run, key=nn.Linear(D, D, bias=False), query=nn.Parameter(torch.randn(D) / math.sqrt(D)))


def make_head():
    def run(m, pooled, whole):
        y = m.last(F.gelu(m.first(torch.cat([m.norm(pooled), whole], -1))))
        v = y[:, :3]
        return {"dir": v / (v.pow(2).sum(-1, keepdim=True) + 1e-8).sqrt(),
                "kappa": 0.5 + 20.0 * F.softplus(y[:, 3]),
                "loge": y[:, 4],
                "var": torch.exp(y[:, 5].clamp(-4.0, 2.0))}

    last = nn.Linear(32, 6)
    with torch.no_grad():
        last.bias.copy_(torch.tensor([0.0, 0.0, 0.5, -1.0, 1.0, -1.0]))
    return Bag(run, norm=nn.LayerNorm(D), first=nn.Linear(D + 2, 32), last=last)


def build_model():
    def run(m, feats, mask, whole):
        place = feats[..., :3]
        dist2 = (place[:, :, None] - place[:, None]).pow(2).sum(-1)
        x = m.embed(feats)
        for attend, feed in zip(m.attend, m.feed):
            x = feed(attend(x, mask, dist2))
        return m.head(m.pool(x, mask, feats[..., 4]), whole)

    return Bag(run,
               embed=make_embedding(),
               attend=nn.ModuleList([make_attention() for _ in range(LAYERS)]),
               feed=nn.ModuleList([make_feed() for _ in range(LAYERS)]),
               pool=make_pool(),
               head=make_head())


# ------------------------------------------------------------------ data
def build_dataset(split):
    events = read_events(split)
    weights = band_weights()

    class Showers(torch.utils.data.Dataset):
        def __len__(self):
            return len(events)

        def __getitem__(self, i):
            e = events[i]
            hits, azimuth = e["hits"], e["azimuth"]
            if split == "train":
                turn = np.random.RandomState(9000 + i).uniform(-math.pi, math.pi)
                hits, azimuth = spin(hits, turn), azimuth + turn
            z = e["zenith"]
            labels = {"dir": np.array([np.sin(z) * np.cos(azimuth), np.sin(z) * np.sin(azimuth), np.cos(z)],
                                      dtype=np.float32),
                      "loge": np.float32(e["log_energy"]),
                      "weight": np.float32(weights[np.digitize(np.degrees(z), BANDS)])}
            return (*prepare(hits), labels)

    return Showers()


def make_order(n, size):
    epoch = [0]

    class Order:
        def __len__(self):
            return n // size

        def __iter__(self):
            order = np.random.default_rng([3, epoch[0]]).permutation(n)
            epoch[0] += 1
            for s in range(0, n - size + 1, size):
                yield [int(i) for i in order[s:s + size]]

    return Order()


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        return torch.utils.data.DataLoader(data, batch_sampler=make_order(len(data), 8))
    return torch.utils.data.DataLoader(data, batch_size=8)


# ------------------------------------------------------------------ loss and metric
def loss(outputs, labels):
    kappa = outputs["kappa"]
    cos = (outputs["dir"] * labels["dir"]).sum(-1)
    log_sinh = kappa + torch.log1p(-torch.exp(-2 * kappa)) - math.log(2.0)
    vmf = log_sinh + math.log(4 * math.pi) - kappa.log() - kappa * cos
    energy = F.gaussian_nll_loss(outputs["loge"], labels["loge"], outputs["var"], eps=0.05, reduction="none")
    honest = F.smooth_l1_loss(kappa.log(), torch.log(1.0 / (1.0 - cos + 0.02)).detach(), reduction="none")
    w = labels["weight"] / labels["weight"].sum()
    parts = {"vmf": (w * vmf).sum(), "energy": (w * energy).sum(), "honest": (w * honest).sum()}
    parts["loss"] = parts["vmf"] + 0.7 * parts["energy"] + 0.2 * parts["honest"]
    return parts


def metric(outputs, labels):
    a, b = outputs["dir"].detach().double(), labels["dir"].double()
    a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
    angle = torch.rad2deg(2 * torch.asin(((a - b).norm(dim=1) / 2).clamp(max=1.0)))
    turn = torch.rad2deg(torch.atan2(a[:, 1], a[:, 0]) - torch.atan2(b[:, 1], b[:, 0]))
    turn = torch.remainder(turn + 180.0, 360.0) - 180.0
    miss = (outputs["loge"].detach() - labels["loge"]).double()
    pull = miss / outputs["var"].detach().double().sqrt()
    return {"angle_median": torch.quantile(angle, 0.5).item(),
            "angle_68": torch.quantile(angle, 0.68).item(),
            "azimuth_off": turn.abs().mean().item(),
            "energy_bias": miss.mean().item(),
            "energy_std": miss.std().item(),
            "covered": (pull.abs() < 1).double().mean().item()}


# ------------------------------------------------------------------ training
class CentredRMS(torch.optim.Optimizer):
    """RMSprop with the variance about the mean, epsilon under the root, the rate inside the momentum."""

    def __init__(self, params, lr, rho=0.95, eps=1e-3, momentum=0.8, decay=0.0, clip=1.0):
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, momentum=momentum, decay=decay, clip=clip))

    @torch.no_grad()
    def step(self, closure=None):
        every = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in every))
        for g in self.param_groups:
            shrink = g["clip"] / max(norm.item(), g["clip"])
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["square"], s["mean"], s["speed"] = (torch.zeros_like(p) for _ in range(3))
                d = p.grad * shrink + g["decay"] * p
                s["square"].mul_(g["rho"]).addcmul_(d, d, value=1 - g["rho"])
                s["mean"].mul_(g["rho"]).add_(d, alpha=1 - g["rho"])
                width = (s["square"] - s["mean"] ** 2 + g["eps"]).sqrt()
                s["speed"].mul_(g["momentum"]).addcdiv_(d, width, value=g["lr"])
                p.sub_(s["speed"])


def build_optimizer(model):
    return CentredRMS(model.parameters(), lr=2e-3, rho=0.95, eps=1e-3, momentum=0.8, decay=1e-3, clip=1.0)


def build_scheduler(optimizer):
    total, warm, cool = 8 * 9, 12, 15

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        value = math.sqrt(warm / (step + 1))
        left = total - step
        if left < cool:
            value *= max(left, 1) / cool
        return value

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    """Two unequal pieces of the batch, gradients added up to those of the whole."""
    model.train()
    feats, mask, whole, labels = batch
    optimizer.zero_grad()
    all_weight = labels["weight"].sum()
    report = {"loss": 0.0, "vmf": 0.0}
    cut = (len(feats) * 5) // 8
    for piece in (slice(0, cut), slice(cut, None)):
        lab = {k: v[piece] for k, v in labels.items()}
        share = lab["weight"].sum() / all_weight
        parts = loss(model(feats[piece], mask[piece], whole[piece]), lab)
        (share * parts["loss"]).backward()
        for name in report:
            report[name] += (share * parts[name]).item()
    optimizer.step()
    return report


# ------------------------------------------------------------------ inference
def predict(path, model):
    hits = np.array(json.loads(Path(path).read_text())["hits"], dtype=np.float64)
    lean = [-0.45, -0.15, 0.15, 0.45]
    feats, mask, whole = (torch.from_numpy(np.stack(x)) for x in zip(*(prepare(spin(hits, a)) for a in lean)))
    was = model.training
    model.eval()
    with torch.no_grad():
        out = {k: v.double().numpy() for k, v in model(feats, mask, whole).items()}
    model.train(was)
    total = np.zeros(3)
    for a, d, k in zip(lean, out["dir"], out["kappa"]):
        c, s = np.cos(-a), np.sin(-a)
        total += k * np.array([c * d[0] - s * d[1], s * d[0] + c * d[1], d[2]])
    u = total / np.linalg.norm(total)
    precision = 1 / out["var"]
    loge = (out["loge"] * precision).sum() / precision.sum()
    return {"zenith": np.array([np.degrees(np.arctan2(math.hypot(u[0], u[1]), u[2]))]),
            "azimuth": np.array([np.degrees(np.arctan2(u[1], u[0])) % 360]),
            "log_energy": np.array([loge]),
            "kappa": np.array([np.median(out["kappa"])]),
            "hits_used": np.array([min(len(hits), MOST)])}
