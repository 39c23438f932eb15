"""Chord language model as pure functions over a dict (PaddlePaddle)."""
import json
import math
import pathlib

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
HP = {"chords": 24, "len": 15, "dim": 16, "heads": 2, "layers": 2, "reach": 4, "smooth": 0.08}
PAD = HP["chords"]


def shapes(hp):
    d, v = hp["dim"], hp["chords"] + 1
    yield "chord", [v, d], None
    yield "out_bias", [v], 0.0
    yield "final_gain", [d], 1.0
    for i in range(hp["layers"]):
        yield f"l{i}_qkv", [d, 3 * d], None
        yield f"l{i}_near", [hp["heads"], hp["reach"] + 1, d // hp["heads"]], None
        yield f"l{i}_join", [d, d], None
        yield f"l{i}_gate", [d, 4 * d], None
        yield f"l{i}_down", [2 * d, d], None
        yield f"l{i}_gain1", [d], 1.0
        yield f"l{i}_gain2", [d], 1.0


def rms_norm(x, gain):
    return gain * x / paddle.sqrt(paddle.mean(x * x, axis=-1, keepdim=True) + 1e-5)


def attention(theta, pre, x, mask, hp):
    n, t, d = x.shape
    h = hp["heads"]
    qkv = paddle.matmul(x, theta[pre + "qkv"]).reshape([n, t, 3, h, d // h]).transpose([2, 0, 3, 1, 4])
    q, k, v = qkv[0], qkv[1], qkv[2]                                  # n h t d/h
    pos = paddle.arange(t)
    back = paddle.clip(pos.unsqueeze(1) - pos.unsqueeze(0), 0, hp["reach"])
    # the product with every distance first, then the one that is wanted
    by_distance = paddle.einsum("nhtd,hrd->nhtr", q, theta[pre + "near"])
    index = back.reshape([1, 1, t, t]).expand([n, h, t, t])
    near = paddle.take_along_axis(by_distance, index, axis=-1, broadcast=False)
    scores = (paddle.matmul(q, k, transpose_y=True) + near) * (d // h) ** -0.5
    low = paddle.full_like(scores, float(paddle.finfo(scores.dtype).min))
    weights = F.softmax(paddle.where(mask, scores, low), axis=-1)
    mixed = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([n, t, d])
    return paddle.matmul(mixed, theta[pre + "join"])


def forward(theta, chords, hp=HP):
    n, t = chords.shape
    mask = paddle.tril(paddle.ones([t, t], dtype="int32")).astype("bool").reshape([1, 1, t, t])
    mask = paddle.logical_and(mask, (chords != PAD).reshape([n, 1, 1, t])).expand([n, hp["heads"], t, t])
    x = F.embedding(chords, theta["chord"]) * math.sqrt(hp["dim"])
    for i in range(hp["layers"]):
        pre = f"l{i}_"
        x = x + attention(theta, pre, rms_norm(x, theta[pre + "gain1"]), mask, hp)
        up, gate = paddle.split(paddle.matmul(rms_norm(x, theta[pre + "gain2"]), theta[pre + "gate"]), 2, axis=-1)
        x = x + paddle.matmul(up * F.silu(gate), theta[pre + "down"])
    return paddle.matmul(rms_norm(x, theta["final_gain"]), theta["chord"], transpose_y=True) + theta["out_bias"]


class Theta(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        for name, shape, value in shapes(HP):
            how = (paddle.nn.initializer.Normal(0.0, 0.2) if value is None
                   else paddle.nn.initializer.Constant(value))
            self.add_parameter(name, self.create_parameter(shape, default_initializer=how))

    def forward(self, chords):
        return forward(dict(self.named_parameters()), chords)


class SongSet(Dataset):
    def __init__(self, split):
        self.songs = json.loads((DATA / f"{split}.json").read_text())
        self.transpose = split == "train"

    def __getitem__(self, i):
        song = self.songs[i]
        if self.transpose:
            shift = 7 * i % 12
            song = [(c + shift) % 12 + (12 if c >= 12 else 0) for c in song]
        n = HP["len"] - len(song) + 1
        return {"chords": np.asarray(song[:-1] + [PAD] * n, dtype="int64"),
                "labels": np.asarray(song[1:] + [-1] * n, dtype="int64")}

    def __len__(self):
        return len(self.songs)


def build_model():
    return Theta()


def build_dataset(split):
    return SongSet(split)


def build_dataloader(split):
    return DataLoader(SongSet(split), batch_size=8, shuffle=False)


def summed_loss(outputs, labels):
    """Sum over known chords; smoothing spreads over all classes, the padding one too."""
    known = (labels >= 0).astype(outputs.dtype)
    logp = F.log_softmax(outputs, axis=-1)
    true = paddle.take_along_axis(logp, paddle.clip(labels, min=0).unsqueeze(-1), axis=-1).squeeze(-1)
    each = (1 - HP["smooth"]) * true + HP["smooth"] * logp.mean(axis=-1)
    return -(each * known).sum(), known.sum()


def loss(outputs, labels):
    total, count = summed_loss(outputs, labels)
    return total / count


def metric(outputs, labels):
    y = labels.numpy().reshape(-1)
    z = outputs.numpy().astype("float64").reshape([len(y), -1])[y >= 0]
    y = y[y >= 0]
    top = z.max(axis=1)
    own = z[np.arange(y.size), y]
    entropy = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - own
    return {"perplexity": float(np.exp(entropy.mean())),
            "mrr": float(np.mean(1.0 / (1 + np.sum(z > own[:, None], axis=1))))}


def build_optimizer(model):
    fast, slow = [], []
    for name, p in model.named_parameters():
        (slow if name in ("chord", "out_bias") else fast).append(p)
    rate = paddle.optimizer.lr.LambdaDecay(0.01, lambda s: min((s + 1) / 8, math.sqrt(8 / (s + 1))))
    return paddle.optimizer.Adam(rate, beta1=0.9, beta2=0.95, epsilon=1e-7,
                                 parameters=[{"params": fast}, {"params": slow, "learning_rate": 0.2}])


def train_step(model, optimizer, batch, parts=2):
    x, y = batch["chords"], batch["labels"]
    count = (y >= 0).sum()
    size = -(-x.shape[0] // parts)
    value = 0.0
    for start in range(0, x.shape[0], size):
        part, _ = summed_loss(model(x[start:start + size]), y[start:start + size])
        part = part / count.astype(part.dtype)
        part.backward()
        value = value + part.detach()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.clear_grad()
    return value
