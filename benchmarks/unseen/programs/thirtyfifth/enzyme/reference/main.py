"""Masked-residue modelling of enzymes, written as pure functions over a dictionary of parameters (PyTorch)."""
import csv
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"
PAD, MASK, OFFSET = 0, 1, 2
VOCAB = len(ALPHABET) + OFFSET
D, HEADS, DH, LAYERS = 16, 4, 4, 2
REACH = 5                     # relative distances are clipped here
EXPERTS, TOP, HIDDEN = 4, 2, 24
DROP = 0.1
SMOOTH, BALANCE = 0.1, 0.02
IGNORE = -100
LENGTH, BATCH = 24, 5


# ------------------------------------------------------------- parameters
def init_params(gen_normal=torch.randn):
    p = {"tok": gen_normal(VOCAB, D) * 0.3, "out_bias": torch.zeros(VOCAB)}
    for i in range(LAYERS):
        for n in ("q", "k", "v"):
            p[f"l{i}_{n}"] = gen_normal(D, HEADS, DH) / math.sqrt(D)
        p[f"l{i}_o"] = gen_normal(HEADS, DH, D) / math.sqrt(HEADS * DH)
        p[f"l{i}_rel_key"] = gen_normal(2 * REACH + 1, HEADS, DH) * 0.1
        p[f"l{i}_rel_bias"] = torch.zeros(2 * REACH + 1, HEADS)
        p[f"l{i}_gate"] = gen_normal(D, EXPERTS) * 0.5
        p[f"l{i}_up"] = gen_normal(EXPERTS, D, HIDDEN) / math.sqrt(D)
        p[f"l{i}_up_bias"] = torch.zeros(EXPERTS, HIDDEN)
        p[f"l{i}_down"] = gen_normal(EXPERTS, HIDDEN, D) / math.sqrt(HIDDEN)
        for n in ("ln1", "ln2"):
            p[f"l{i}_{n}_scale"], p[f"l{i}_{n}_shift"] = torch.ones(D), torch.zeros(D)
    p["ln_scale"], p["ln_shift"] = torch.ones(D), torch.zeros(D)
    return p


# -------------------------------------------------------------- functions
def layer_norm(p, name, x):
    return F.layer_norm(x, (D,), p[name + "_scale"], p[name + "_shift"], 1e-6)


def attention(p, i, x, keep):
    q = torch.einsum("btd,dhk->bthk", x, p[f"l{i}_q"])
    k = torch.einsum("btd,dhk->bthk", x, p[f"l{i}_k"])
    v = torch.einsum("btd,dhk->bthk", x, p[f"l{i}_v"])
    at = torch.arange(x.shape[1], device=x.device)
    distance = (at[None] - at[:, None]).clamp(-REACH, REACH) + REACH         # key minus query
    content = torch.einsum("bqhk,bjhk->bhqj", q, k)
    position = torch.einsum("bqhk,qjhk->bhqj", q, p[f"l{i}_rel_key"][distance])
    scores = (content + position) / math.sqrt(DH) + p[f"l{i}_rel_bias"][distance].permute(2, 0, 1)
    scores = scores.masked_fill(~keep[:, None, None, :], torch.finfo(scores.dtype).min)
    mixed = torch.einsum("bhqj,bjhk->bqhk", scores.softmax(-1), v)
    return torch.einsum("bqhk,hkd->bqd", mixed, p[f"l{i}_o"])


def experts(p, i, x, keep):
    logits = x @ p[f"l{i}_gate"]
    best, which = logits.topk(TOP, dim=-1)
    share = torch.zeros_like(logits).scatter(-1, which, best.softmax(-1))
    h = torch.einsum("btd,edf->btef", x, p[f"l{i}_up"]) + p[f"l{i}_up_bias"]
    y = torch.einsum("btef,efd->bted", F.gelu(h, approximate="tanh"), p[f"l{i}_down"])
    real = keep.to(x.dtype)
    count = real.sum()
    chosen = ((share > 0).to(x.dtype) * real[..., None]).sum((0, 1)) / count
    belief = (logits.softmax(-1) * real[..., None]).sum((0, 1)) / count
    return (share[..., None] * y).sum(2), EXPERTS * (chosen * belief).sum() / TOP


def apply(p, tokens, training=False):
    keep = tokens != PAD
    x = p["tok"][tokens] * math.sqrt(D)
    balance = 0.0
    for i in range(LAYERS):
        x = x + F.dropout(attention(p, i, layer_norm(p, f"l{i}_ln1", x), keep), DROP, training)
        y, b = experts(p, i, layer_norm(p, f"l{i}_ln2", x), keep)
        x = x + F.dropout(y, DROP, training)
        balance = balance + b
    x = layer_norm(p, "ln", x)
    return {"logits": x @ p["tok"].t() + p["out_bias"], "balance": balance / LAYERS}


class Holder(nn.Module):
    """What frameworks want to see: a module around the dictionary."""

    def __init__(self, params):
        super().__init__()
        self.p = nn.ParameterDict(params)

    def forward(self, tokens):
        return apply(self.p, tokens, self.training)


def build_model():
    return Holder(init_params())


def loss(outputs, labels):
    ce = F.cross_entropy(outputs["logits"].flatten(0, 1), labels.flatten(),
                         ignore_index=IGNORE, label_smoothing=SMOOTH)
    return {"loss": ce + BALANCE * outputs["balance"], "ce": ce}


def metric(outputs, labels):
    z = outputs["logits"].detach().double().cpu().numpy().reshape(-1, VOCAB)
    y = labels.cpu().numpy().reshape(-1)
    z, y = z[y != IGNORE], y[y != IGNORE]
    z = z - z.max(1, keepdims=True)
    nll = np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]
    rank = (z > z[np.arange(len(y)), y][:, None]).sum(1)
    return {"perplexity": float(np.exp(nll.mean())), "top3": float((rank < 3).mean()),
            "mrr": float((1 / (1 + rank)).mean())}


# ------------------------------------------------------------------- data
def encode(sequence):
    return np.array([ALPHABET.index(c) + OFFSET for c in sequence], dtype=np.int64)


def corrupt(ids, rng):
    ids, target = ids.copy(), np.full(len(ids), IGNORE, dtype=np.int64)
    chosen = rng.rand(len(ids)) < 0.25
    chosen[rng.randint(len(ids))] = True
    target[chosen] = ids[chosen]
    dice = rng.rand(len(ids))
    ids[chosen & (dice < 0.8)] = MASK
    swap = chosen & (dice >= 0.8) & (dice < 0.9)
    ids[swap] = rng.randint(OFFSET, VOCAB, swap.sum())
    return ids, target


class Enzymes(torch.utils.data.Dataset):
    def __init__(self, split):
        with open("data/enzymes.csv") as f:
            self.seqs = [r["sequence"] for r in csv.DictReader(f) if r["split"] == split]

    def __len__(self):
        return len(self.seqs)

    def __getitem__(self, i):
        ids, target = corrupt(encode(self.seqs[i]), np.random.RandomState(40 + i))
        tail = (0, LENGTH - len(ids))
        return np.pad(ids, tail, constant_values=PAD), np.pad(target, tail, constant_values=IGNORE)


def build_dataset(split):
    return Enzymes(split)


def build_dataloader(split):
    return DataLoader(Enzymes(split), batch_size=BATCH)


# --------------------------------------------------------------- training
def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.98), eps=1e-9)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    fall = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=30, power=2.0)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[5])


def train_step(model, optimizer, batch):
    tokens, target = batch
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(tokens), target)
    value["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    return value


def predict(path, model):
    with open(path) as f:
        sequence = "".join(line.strip() for line in f if not line.startswith(">"))
    ids = encode(sequence)
    ids[::4] = MASK
    with torch.no_grad():
        z = model(torch.from_numpy(ids)[None])["logits"][0, ::4]
    return {"restored": "".join((MASK * "-" + "-" + ALPHABET)[i] for i in z.argmax(-1).tolist()),
            "scores": z.numpy()}
