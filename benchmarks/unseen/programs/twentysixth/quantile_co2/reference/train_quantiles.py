"""Multi-horizon quantile forecasts of the monthly Mauna Loa CO2 series (PyTorch)."""
import json
import math
import os

import numpy as np
import statsmodels.api as sm
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CONTEXT = 24
HORIZON = 6
QUANTILES = (0.1, 0.5, 0.9)
CHANNELS = 12
BATCH = 16
EPOCHS = 8
LR = 3e-3


def monthly_series():
    frame = sm.datasets.co2.load_pandas().data["co2"]
    monthly = frame.resample("MS").mean().ffill()
    return monthly.to_numpy(dtype=np.float64), monthly.index.month.to_numpy() - 1


class Windows(Dataset):
    def __init__(self, split):
        values, months = monthly_series()
        last = len(values) - CONTEXT - HORIZON
        starts = np.arange(0, last + 1, 2)
        cut = int(0.8 * len(starts))
        # a gap as long as a window keeps the validation free of training values
        self.starts = starts[:cut] if split == "train" else starts[cut + (CONTEXT + HORIZON) // 2:]
        self.values, self.months = values, months

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        window = self.values[s:s + CONTEXT + HORIZON]
        past = window[:CONTEXT]
        centre, scale = past.mean(), past.std() + 1e-6
        scaled = ((window - centre) / scale).astype(np.float32)
        return (torch.from_numpy(scaled[:CONTEXT]),
                torch.from_numpy(self.months[s:s + CONTEXT].astype(np.int64)),
                torch.from_numpy(scaled[CONTEXT:]))


class CausalBlock(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.shift = 2 * dilation
        self.conv = nn.Conv1d(cin, 2 * cout, 3, dilation=dilation, padding=self.shift)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()
        self.norm = nn.GroupNorm(3, cout)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = self.conv(x)[..., :-self.shift]
        y = F.glu(y, dim=1)
        return self.norm(self.drop(y) + self.skip(x))


class QuantileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.month = nn.Embedding(12, 4)
        self.body = nn.Sequential(
            CausalBlock(5, CHANNELS, 1),
            CausalBlock(CHANNELS, CHANNELS, 2),
            CausalBlock(CHANNELS, CHANNELS, 4),
        )
        self.base = nn.Linear(CHANNELS, HORIZON)
        self.steps = nn.Linear(CHANNELS, HORIZON * (len(QUANTILES) - 1))

    def forward(self, past, month):
        x = torch.cat([past.unsqueeze(1), self.month(month).transpose(1, 2)], dim=1)
        h = self.body(x)[:, :, -1]
        low = self.base(h).unsqueeze(-1)
        inc = F.softplus(self.steps(h)).view(-1, HORIZON, len(QUANTILES) - 1)
        return past[:, -1:, None] + torch.cat([low, inc], dim=-1).cumsum(-1)


def build_model():
    return QuantileNet()


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=train, drop_last=train)


def loss(outputs, labels):
    taus = torch.tensor(QUANTILES, device=outputs.device)
    err = labels.unsqueeze(-1) - outputs
    pin = torch.maximum(taus * err, (taus - 1) * err)
    per_q = pin.mean(dim=(0, 1))
    # pull the far horizon less than the near one
    weight = 0.9 ** torch.arange(HORIZON, dtype=outputs.dtype)
    total = (pin.sum(-1) * weight).sum(-1).mean() / weight.sum()
    return {"loss": total, "low": per_q[0], "mid": per_q[1], "high": per_q[2]}


@torch.no_grad()
def metric(outputs, labels):
    inside = (labels >= outputs[..., 0]) & (labels <= outputs[..., -1])
    mid = outputs[..., 1]
    naive = (labels[:, 1:] - labels[:, :-1]).abs().mean()
    return {
        "coverage": inside.float().mean().item(),
        "width": (outputs[..., -1] - outputs[..., 0]).mean().item(),
        "mase": ((labels - mid).abs().mean() / naive).item(),
        "bias": (mid - labels).mean().item(),
    }


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95))


def build_scheduler(optimizer):
    total = EPOCHS * len(build_dataloader("train"))
    warm = total // 10

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        t = (step - warm) / max(1, total - warm)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * t))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad(set_to_none=True)
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return {"loss": parts["loss"].item(), "mid": parts["mid"].item(), "grad_norm": float(norm)}


@torch.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as f:
        item = json.load(f)
    past = np.asarray(item["co2"][-CONTEXT:], dtype=np.float64)
    months = (item["last_month"] - 1 - np.arange(CONTEXT)[::-1]) % 12
    centre, scale = past.mean(), past.std() + 1e-6
    x = torch.from_numpy(((past - centre) / scale).astype(np.float32))[None]
    q = model(x, torch.from_numpy(months.astype(np.int64))[None])[0].numpy()
    ppm = q * np.float32(scale) + np.float32(centre)
    return {"quantiles": ppm, "median": ppm[:, 1].tolist(), "source": os.path.basename(path)}
