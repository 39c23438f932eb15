"""Tremor severity (0 to 4) from a wrist accelerometer, in one file.

A learnable bank of band-pass filters, per-channel energy normalisation, gated attention over time, and an
ordinal (CORAL) output.  The network is one pure function of a dict of parameters.
"""
import csv
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
RATE, TAPS, BANDS, SPAN = 64, 65, 8, 256
LOWEST, NARROWEST = 0.5, 1.0
CHANNELS, FEATURES, GATES, HIDDEN, LEVELS = 16, 24, 12, 20, 4
VAL_SUBJECTS = {"S09", "S10", "S11"}


# ---------------------------------------------------------------- signal


def smooth(signal, width=33):
    """Centred moving average along the last axis; the ends are mirrored."""
    half = width // 2
    padded = np.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(half, half)], mode="reflect")
    total = np.cumsum(padded, axis=-1)
    total = np.concatenate([np.zeros_like(total[..., :1]), total], axis=-1)
    return (total[..., width:] - total[..., :-width]) / width


def mirrored(signal, wrist):
    """A left wrist seen as a right one: the sideways axis changes its sign."""
    return signal * np.array([1.0, -1.0 if wrist == "left" else 1.0, 1.0])[:, None]


def without_gravity(signal):
    return signal - smooth(signal)


def robust_scale(signal):
    """1.4826 times the median absolute deviation, one for each axis."""
    middle = np.median(signal, axis=-1, keepdims=True)
    return 1.4826 * np.median(np.abs(signal - middle), axis=-1, keepdims=True) + 1e-3


def person(age, medication):
    return np.array([(float(age) - 65.0) / 10.0, 1.0 if medication == "on" else 0.0], dtype=np.float32)


def table():
    with open(DATA / "windows.csv", newline="") as f:
        return list(csv.DictReader(f))


def importance(rows):
    """CORAL's weights of the tasks "worse than k", from the training subjects."""
    scores = np.array([int(r["score"]) for r in rows if r["subject"] not in VAL_SUBJECTS])
    worse = np.array([(scores > k).sum() for k in range(LEVELS)])
    weight = np.sqrt(np.maximum(worse, len(scores) - worse))
    return weight / weight.max()


class Windows(Dataset):
    def __init__(self, split):
        rows = table()
        signals = np.load(DATA / "windows.npy").astype(np.float64)
        clean = [without_gravity(mirrored(s, r["wrist"])) for s, r in zip(signals, rows)]
        by_subject = {}
        for signal, row in zip(clean, rows):
            by_subject.setdefault(row["subject"], []).append(signal)
        scale = {k: robust_scale(np.concatenate(v, axis=-1)) for k, v in by_subject.items()}
        self.items = []
        for signal, row in zip(clean, rows):
            if (row["subject"] in VAL_SUBJECTS) == (split == "val"):
                x = np.clip(signal / scale[row["subject"]], -6.0, 6.0).astype(np.float32)
                self.items.append((x, person(row["age"], row["medication"]), int(row["score"])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        x, who, score = self.items[index]
        return torch.from_numpy(x), torch.from_numpy(who), torch.tensor(score)


# ---------------------------------------------------------------- network


def parameters():
    def he(*shape):
        fan_in = int(np.prod(shape[1:]))
        return torch.randn(*shape) * math.sqrt(2.0 / fan_in)

    def flat(n, value):
        return torch.full((n,), float(value))

    return {
        "bank_low": torch.linspace(1.0, 11.5, BANDS),
        "bank_width": flat(BANDS, 1.0),
        "pcen_smooth": flat(BANDS, -1.5),
        "pcen_alpha": flat(BANDS, -0.25),
        "pcen_delta": flat(BANDS, 0.5),
        "pcen_root": flat(BANDS, -0.7),
        "mix_weight": he(CHANNELS, BANDS, 3),
        "mix_bias": flat(CHANNELS, 0.0),
        "norm_gain": flat(CHANNELS, 1.0),
        "norm_shift": flat(CHANNELS, 0.0),
        "lift_weight": he(FEATURES, CHANNELS),
        "lift_bias": flat(FEATURES, 0.0),
        "tanh_weight": he(GATES, FEATURES),
        "tanh_bias": flat(GATES, 0.0),
        "gate_weight": he(GATES, FEATURES),
        "gate_bias": flat(GATES, 0.0),
        "pick_weight": he(1, GATES),
        "hidden_weight": he(HIDDEN, 2 * FEATURES + 2),
        "hidden_bias": flat(HIDDEN, 0.0),
        "score_weight": he(1, HIDDEN),
        "first_threshold": flat(1, -1.0),
        "gaps": flat(LEVELS - 1, 0.5),
    }


def make_bank():
    """-> bank(low, width): windowed-sinc kernels [BANDS, 1, TAPS], and the bands' centres in Hz."""
    seconds = (np.arange(TAPS) - TAPS // 2) / RATE
    window = np.hamming(TAPS)

    def bank(low, width):
        t = torch.as_tensor(seconds, dtype=low.dtype, device=low.device)
        w = torch.as_tensor(window, dtype=low.dtype, device=low.device)
        lower = LOWEST + low.abs()
        upper = (lower + NARROWEST + width.abs()).clamp(max=RATE / 2)

        def low_pass(f):
            return 2.0 * f[:, None] / RATE * torch.sinc(2.0 * f[:, None] * t)

        return ((low_pass(upper) - low_pass(lower)) * w)[:, None], 0.5 * (lower + upper)

    return bank


def pcen(energy, smooth_logit, log_alpha, log_delta, log_root, eps=1e-2):
    """Per-channel energy normalisation of [batch, bands, frames] by a first-order recursive average."""
    s = torch.sigmoid(smooth_logit)
    alpha, delta, root = (v.exp()[:, None] for v in (log_alpha, log_delta, log_root))
    level = [energy[..., 0]]
    for frame in energy[..., 1:].unbind(dim=-1):
        level.append((1.0 - s) * level[-1] + s * frame)
    level = torch.stack(level, dim=-1)
    return (energy / (eps + level) ** alpha + delta) ** root - delta**root


def make_network():
    bank = make_bank()

    def network(p, x, who):
        batch = x.shape[0]
        kernels, centre = bank(p["bank_low"], p["bank_width"])
        h = F.pad(x.reshape(batch * 3, 1, -1), (TAPS // 2, TAPS // 2), mode="reflect")
        h = F.conv1d(h, kernels) ** 2
        energy = F.avg_pool1d(h, kernel_size=16, stride=8).reshape(batch, 3, BANDS, -1).sum(dim=1)
        h = pcen(energy, p["pcen_smooth"], p["pcen_alpha"], p["pcen_delta"], p["pcen_root"])
        h = F.conv1d(h, p["mix_weight"], p["mix_bias"], padding=1).transpose(1, 2)
        h = F.gelu(F.layer_norm(h, (CHANNELS,), p["norm_gain"], p["norm_shift"], eps=1e-5), approximate="tanh")
        h = F.elu(F.linear(h, p["lift_weight"], p["lift_bias"]))
        gate = torch.tanh(F.linear(h, p["tanh_weight"], p["tanh_bias"]))
        gate = gate * torch.sigmoid(F.linear(h, p["gate_weight"], p["gate_bias"]))
        share = torch.softmax(F.linear(gate, p["pick_weight"]).squeeze(-1), dim=-1)
        mean = torch.einsum("bf,bfc->bc", share, h)
        spread = torch.sqrt(torch.einsum("bf,bfc->bc", share, (h - mean[:, None]) ** 2) + 1e-4)
        h = torch.cat([mean, spread, who], dim=-1)
        h = F.gelu(F.linear(h, p["hidden_weight"], p["hidden_bias"]))
        thresholds = p["first_threshold"] + F.pad(torch.cumsum(F.softplus(p["gaps"]), dim=0), (1, 0))
        logits = F.linear(h, p["score_weight"]) - thresholds
        return {"logits": logits, "attention": share, "centre": centre}

    return network


class Functional(nn.Module):
    def __init__(self, function, values):
        super().__init__()
        self.function = function
        for name, value in values.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, x, who):
        return self.function(dict(self.named_parameters()), x, who)


def build_model():
    return Functional(make_network(), parameters())


# ---------------------------------------------------------------- training


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    return DataLoader(Windows(split), batch_size=9, shuffle=False)


def make_loss(weight, calm=0.02):
    """Importance-weighted CORAL, and a small price on scattered attention."""

    def loss(outputs, labels):
        logits, share = outputs["logits"], outputs["attention"]
        levels = (labels[:, None] > torch.arange(LEVELS, device=labels.device)).to(logits.dtype)
        w = torch.as_tensor(weight, dtype=logits.dtype, device=logits.device)
        terms = F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1.0 - levels)
        entropy = -(share * torch.log(share + 1e-8)).sum(dim=-1).mean()
        return -(terms * w).sum(dim=1).mean() + calm * entropy

    return loss


loss = make_loss(importance(table()))


def metric(outputs, labels):
    """Mean absolute error, within one, and the quadratic weighted kappa."""
    guess = (outputs["logits"] > 0).sum(dim=1)
    difference = (guess - labels).abs().double()
    n = LEVELS + 1
    seen = torch.zeros(n, n, dtype=torch.float64)
    seen.index_put_((labels.long(), guess.long()), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    chance = seen.sum(1, keepdim=True) * seen.sum(0, keepdim=True) / seen.sum()
    cost = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).double() ** 2
    return {
        "error": difference.mean().item(),
        "within_one": (difference <= 1).double().mean().item(),
        "kappa": 1.0 - ((cost * seen).sum() / (cost * chance).sum().clamp(min=1e-12)).item(),
        "soft_error": (torch.sigmoid(outputs["logits"]).sum(dim=1) - labels).abs().mean().item(),
    }


def of_bank(model):
    named = list(model.named_parameters())
    return [p for n, p in named if n.startswith("bank_")], [p for n, p in named if not n.startswith("bank_")]


def build_optimizer(model):
    bank, rest = of_bank(model)
    return torch.optim.Adagrad(
        [{"params": rest}, {"params": bank, "lr": 0.015}], lr=0.005, initial_accumulator_value=0.01, eps=1e-8
    )


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CyclicLR(
        optimizer,
        base_lr=[0.005, 0.015],
        max_lr=[0.03, 0.09],
        step_size_up=5,
        step_size_down=9,
        mode="triangular2",
        cycle_momentum=False,
    )


def train_step(model, optimizer, batch):
    """The bank's gradient is clipped by itself; after the update its edges are put back into their ranges."""
    x, who, labels = batch
    bank, rest = of_bank(model)
    optimizer.zero_grad()
    value = loss(model(x, who), labels)
    value.backward()
    torch.nn.utils.clip_grad_norm_(bank, 0.05)
    torch.nn.utils.clip_grad_norm_(rest, 1.0)
    optimizer.step()
    with torch.no_grad():
        model.bank_low.clamp_(0.5, 11.25)
        model.bank_width.clamp_(0.25, 0.96875)
    return {"loss": value.detach()}


# ---------------------------------------------------------------- use


@torch.no_grad()
def predict(path, model):
    """A recording of any length -> trimmed mean of the windows' scores, the worst window, share of windows above 2."""
    with open(path) as f:
        record = json.load(f)
    signal = without_gravity(mirrored(np.array(record["samples"]).T, record["wrist"]))
    signal = np.clip(signal / robust_scale(signal), -6.0, 6.0)
    starts = range(0, signal.shape[-1] - SPAN + 1, SPAN // 4)
    dtype = next(model.parameters()).dtype
    x = torch.from_numpy(np.stack([signal[:, s : s + SPAN] for s in starts])).to(dtype)
    who = torch.from_numpy(person(record["age"], record["medication"])).to(dtype).expand(len(x), 2)
    scores = torch.sigmoid(model(x, who)["logits"]).sum(dim=1).sort().values
    cut = len(scores) // 5
    return torch.stack([scores[cut : len(scores) - cut].mean(), scores[-1], (scores > 2.0).to(dtype).mean()])
