"""Next chord of a song. Functional: the network is a function of a dictionary of parameters."""
import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
CHORDS, PAD, LENGTH = 24, 24, 15
DIM, HEADS, LAYERS, REACH = 16, 2, 2, 4
SMOOTH = 0.08


def initial(gen_std=0.2):
    def normal(*shape):
        return torch.randn(*shape) * gen_std
    p = {"chord": normal(CHORDS + 1, DIM), "out_bias": torch.zeros(CHORDS + 1),
         "final_gain": torch.ones(DIM)}
    for i in range(LAYERS):
        p[f"l{i}_qkv"] = normal(DIM, 3 * DIM)
        p[f"l{i}_near"] = normal(HEADS, REACH + 1, DIM // HEADS)
        p[f"l{i}_join"] = normal(DIM, DIM)
        p[f"l{i}_gate"] = normal(DIM, 4 * DIM)
        p[f"l{i}_down"] = normal(2 * DIM, DIM)
        p[f"l{i}_gain1"] = torch.ones(DIM)
        p[f"l{i}_gain2"] = torch.ones(DIM)
    return p


def rms(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gain


def attend(x, p, i, mask):
    b, t, _ = x.shape
    q, k, v = (x @ p[f"l{i}_qkv"]).view(b, t, 3, HEADS, DIM // HEADS).unbind(2)
    content = torch.einsum("bihd,bjhd->bhij", q, k)
    # how far back a key lies, at most REACH
    place = torch.arange(t, device=x.device)
    back = (place[:, None] - place[None, :]).clamp(0, REACH)
    near = p[f"l{i}_near"][:, back]                       # heads, i, j, d
    position = torch.einsum("bihd,hijd->bhij", q, near)
    scores = (content + position) / math.sqrt(DIM // HEADS)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(b, t, DIM) @ p[f"l{i}_join"]


def feed(x, p, i):
    a, g = (x @ p[f"l{i}_gate"]).chunk(2, dim=-1)
    return (a * F.silu(g)) @ p[f"l{i}_down"]


def network(p, chords):
    t = chords.shape[1]
    causal = torch.ones(t, t, dtype=torch.bool, device=chords.device).tril()
    mask = causal[None, None] & (chords != PAD)[:, None, None, :]
    x = F.embedding(chords, p["chord"]) * math.sqrt(DIM)
    for i in range(LAYERS):
        x = x + attend(rms(x, p[f"l{i}_gain1"]), p, i, mask)
        x = x + feed(rms(x, p[f"l{i}_gain2"]), p, i)
    return rms(x, p["final_gain"]) @ p["chord"].t() + p["out_bias"]      # tied with the embedding


class Parameters(torch.nn.Module):
    """A module around the dictionary, so that optimizers find it."""

    def __init__(self):
        super().__init__()
        for name, value in initial().items():
            self.register_parameter(name, torch.nn.Parameter(value))

    def forward(self, chords):
        return network(dict(self.named_parameters()), chords)


class Songs(torch.utils.data.Dataset):
    def __init__(self, split):
        with open(os.path.join(FOLDER, split + ".json")) as f:
            self.songs = json.load(f)
        self.split = split

    def __len__(self):
        return len(self.songs)

    def __getitem__(self, i):
        song = np.array(self.songs[i], dtype=np.int64)
        if self.split == "train":                           # another key; minor chords stay minor
            up = (7 * i) % 12
            song = (song % 12 + up) % 12 + song // 12 * 12
        x = np.full(LENGTH, PAD, dtype=np.int64)
        y = np.full(LENGTH, -1, dtype=np.int64)
        x[: len(song) - 1] = song[:-1]
        y[: len(song) - 1] = song[1:]
        return {"chords": x, "labels": y}


def build_model():
    return Parameters()


def build_dataset(split):
    return Songs(split)


def build_dataloader(split):
    return torch.utils.data.DataLoader(Songs(split), batch_size=8)


def loss(outputs, labels):
    return F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=-1, label_smoothing=SMOOTH)


def metric(outputs, labels):
    logits, y = outputs.detach().numpy().astype(np.float64), labels.numpy()
    keep = y >= 0
    z = logits[keep]
    z = z - z.max(1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    rank = (z > z[np.arange(len(z)), y[keep]][:, None]).sum(1)
    return {"perplexity": float(np.exp(-logp[np.arange(len(z)), y[keep]].mean())),
            "mrr": float((1 / (1 + rank)).mean())}


def build_optimizer(model):
    slow = [p for n, p in model.named_parameters() if n in ("chord", "out_bias")]
    rest = [p for n, p in model.named_parameters() if n not in ("chord", "out_bias")]
    return torch.optim.Adam([{"params": rest}, {"params": slow, "lr": 0.002}], lr=0.01, betas=(0.9, 0.95), eps=1e-7)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / 8, math.sqrt(8 / (s + 1))))


def train_step(model, optimizer, batch, parts=2):
    """Two halves of the batch one after the other, each weighted by its share of known chords."""
    optimizer.zero_grad()
    known = (batch["labels"] >= 0).sum()
    total = 0.0
    for x, y in zip(batch["chords"].chunk(parts), batch["labels"].chunk(parts)):
        part = loss(model(x), y) * ((y >= 0).sum() / known)
        part.backward()
        total = total + part.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return total
