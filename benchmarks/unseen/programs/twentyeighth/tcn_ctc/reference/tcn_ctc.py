"""Temporal convolutional network (Bai et al. 2018) trained with CTC on pen-stroke features."""
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parents[1]
ALPHABET = "abcdefg"
BLANK = len(ALPHABET)
HPARAMS = dict(channels=(24, 24, 32), kernel=3, features=6, batch=8, lr=3e-3, wd=1e-4, max_norm=2.0,
               accumulate=2, milestones=(30, 70), gamma=0.3, max_label=6)


class Chomp(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[:, :, :-self.n].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        pad = (k - 1) * dilation
        self.net = nn.Sequential(
            weight_norm(nn.Conv1d(cin, cout, k, padding=pad, dilation=dilation)), Chomp(pad), nn.ReLU(),
            weight_norm(nn.Conv1d(cout, cout, k, padding=pad, dilation=dilation)), Chomp(pad), nn.ReLU())
        self.downsample = nn.Conv1d(cin, cout, 1) if cin != cout else None
        self.reset()

    def reset(self):
        for i in (0, 3):
            self.net[i].weight = torch.empty_like(self.net[i].weight).normal_(0, 0.1)
        if self.downsample is not None:
            nn.init.normal_(self.downsample.weight, 0, 0.1)

    def forward(self, x):
        res = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.net(x) + res)


class TCN(nn.Module):
    def __init__(self, hp=HPARAMS):
        super().__init__()
        self.register_buffer("mean", torch.zeros(hp["features"]))
        self.register_buffer("std", torch.ones(hp["features"]))
        chans = (hp["features"],) + hp["channels"]
        self.blocks = nn.ModuleList(TemporalBlock(a, b, hp["kernel"], 2 ** i)
                                    for i, (a, b) in enumerate(zip(chans, chans[1:])))
        self.proj = nn.Linear(chans[-1], len(ALPHABET) + 1)
        with torch.no_grad():
            self.proj.bias[BLANK] = 1.0

    def forward(self, x, lengths):
        h = ((x - self.mean) / self.std).transpose(1, 2)
        for b in self.blocks:
            h = b(h)
        mask = torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]
        logp = self.proj(h.transpose(1, 2)).log_softmax(-1)
        return {"logp": logp * mask[..., None], "lengths": lengths}


class Strokes(Dataset):
    def __init__(self, split):
        lines = (ROOT / "data" / f"{split}.jsonl").read_text().splitlines()
        self.rows = [json.loads(s) for s in lines]
        self.T = max(len(r["x"]) for r in self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        x = np.zeros((self.T, HPARAMS["features"]), np.float32)
        x[:len(row["x"])] = row["x"]
        y = np.full(HPARAMS["max_label"], -1, np.int64)
        y[:len(row["y"])] = [ALPHABET.index(c) for c in row["y"]]
        return (torch.from_numpy(x), torch.tensor(len(row["x"])),
                {"target": torch.from_numpy(y), "length": torch.tensor(len(row["y"]))})


def feature_stats():
    rows = [np.asarray(r["x"]) for r in Strokes("train").rows]
    flat = np.concatenate(rows)
    return flat.mean(0), flat.std(0, ddof=1)


def build_model():
    model = TCN()
    mean, std = feature_stats()
    model.mean.copy_(torch.from_numpy(mean))
    model.std.copy_(torch.from_numpy(std))
    return model


def build_dataset(split):
    return Strokes(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=HPARAMS["batch"], shuffle=(split == "train"))


def loss(outputs, labels):
    target = labels["target"].clamp(min=0)
    ctc = F.ctc_loss(outputs["logp"].transpose(0, 1), target, outputs["lengths"], labels["length"],
                     blank=BLANK, reduction="mean")
    valid = (torch.arange(outputs["logp"].size(1))[None] < outputs["lengths"][:, None]).float()
    entropy = -(outputs["logp"].exp() * outputs["logp"]).sum(-1)
    entropy = (entropy * valid).sum() / valid.sum()
    return {"loss": ctc - 0.02 * entropy, "ctc": ctc, "entropy": entropy}


def collapse(ids):
    out, prev = [], BLANK
    for k in ids:
        if k != prev and k != BLANK:
            out.append(int(k))
        prev = k
    return out


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        diag, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            diag, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diag + (ca != cb))
    return row[-1]


def metric(outputs, labels):
    best = outputs["logp"].argmax(-1)
    errs = total = exact = 0
    for ids, n, y, m in zip(best, outputs["lengths"], labels["target"], labels["length"]):
        hyp, ref = collapse(ids[:n].tolist()), y[:m].tolist()
        d = edit_distance(hyp, ref)
        errs, total, exact = errs + d, total + len(ref), exact + (d == 0)
    return {"cer": errs / total, "exact": exact / len(best)}


def build_optimizer(model):
    gains = [p for n, p in model.named_parameters() if n.endswith("original0")]
    other = [p for n, p in model.named_parameters() if not n.endswith("original0")]
    return torch.optim.Adam([{"params": other, "weight_decay": HPARAMS["wd"]},
                             {"params": gains, "lr": HPARAMS["lr"] * 0.5}], lr=HPARAMS["lr"])


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, list(HPARAMS["milestones"]), HPARAMS["gamma"])


def train_step(model, optimizer, batch):
    """One update per batch, the batch taken in two micro-batches."""
    x, lengths, labels = batch
    optimizer.zero_grad()
    total, n = 0.0, len(x)
    for idx in torch.arange(n).chunk(HPARAMS["accumulate"]):
        part = loss(model(x[idx], lengths[idx]), {k: v[idx] for k, v in labels.items()})["loss"] * (len(idx) / n)
        part.backward()
        total += part.item()
    nn.utils.clip_grad_norm_(model.parameters(), HPARAMS["max_norm"])
    optimizer.step()
    return {"loss": total}


@torch.inference_mode()
def predict(path, model):
    model.eval()
    x = torch.tensor(json.loads(Path(path).read_text())["x"])[None]
    out = model(x, torch.tensor([x.size(1)]))
    score, ids = out["logp"][0].max(-1)
    return {"text": "".join(ALPHABET[k] for k in collapse(ids.tolist())), "score": score.numpy(),
            "perplexity": [math.exp(-score.mean().item())]}
