"""Put the shuffled vertical strips of a torn page back in order (Gumbel-free Sinkhorn net)."""
import csv
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
STRIPS, HEIGHT, WIDTH = 6, 24, 8


class Registry(dict):
    def __call__(self, name):
        def wrap(obj):
            self[name] = obj
            return obj
        return wrap

    def make(self, name, *args, **kwargs):
        return self[name](*args, **kwargs)


BLOCKS = Registry()
TERMS = Registry()
SCORES = Registry()


# ----------------------------------------------------------------- blocks
@BLOCKS("encoder")
class StripEncoder(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, (5, 3), padding=(2, 1), padding_mode="replicate")
        self.norm1 = nn.GroupNorm(2, width, eps=1e-4)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 2 * width, eps=1e-4)
        self.proj = nn.Linear(2 * width * 2, dim)

    def forward(self, x):
        x = F.gelu(self.norm1(self.conv1(x)), approximate="tanh")
        x = F.gelu(self.norm2(self.conv2(x)), approximate="tanh")
        x = F.adaptive_avg_pool2d(x, (6, 2)).amax(dim=2)
        return self.proj(x.flatten(1))


@BLOCKS("edges")
class EdgeAffinity(nn.Module):
    """How well does strip i continue strip j: bilinear form of the border columns."""

    def __init__(self, height, rank):
        super().__init__()
        self.left = nn.Linear(height, rank, bias=False)
        self.right = nn.Linear(height, rank, bias=False)
        self.gain = nn.Parameter(torch.tensor([0.5]))

    def forward(self, strips):
        first = F.normalize(self.left(strips[..., 0]), dim=-1, eps=1e-6)
        last = F.normalize(self.right(strips[..., -1]), dim=-1, eps=1e-6)
        affinity = torch.einsum("bir,bjr->bij", last, first) / self.gain.abs().clamp(min=0.05)
        eye = torch.eye(strips.shape[1], dtype=torch.bool)
        return affinity.masked_fill(eye, -30.0)


@BLOCKS("mixer")
class NeighbourMixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.after = nn.Linear(dim, dim)
        self.before = nn.Linear(dim, dim)
        self.out = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, h, affinity):
        n = self.norm(h)
        nxt = torch.softmax(affinity, dim=2) @ self.after(n)
        prv = torch.softmax(affinity, dim=1).transpose(1, 2) @ self.before(n)
        return h + self.out(F.silu(torch.cat([nxt, prv], dim=-1)))


class Unshredder(nn.Module):
    def __init__(self, dim=20, width=6, rank=7, rounds=9):
        super().__init__()
        self.encoder = BLOCKS.make("encoder", width, dim)
        self.edges = BLOCKS.make("edges", HEIGHT, rank)
        self.mixers = nn.ModuleList([BLOCKS.make("mixer", dim) for _ in range(2)])
        self.slots = nn.Parameter(torch.empty(STRIPS, dim))
        self.tau = nn.Parameter(torch.tensor([0.7]))
        self.rounds = rounds
        self.reset()

    def reset(self):
        for name, m in self.named_modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0.01)
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight, gain=0.5 if name.endswith(".out") else 1.0)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.normal_(self.slots, std=1 / math.sqrt(self.slots.shape[1]))

    def forward(self, strips):
        b, n = strips.shape[:2]
        h = self.encoder(strips.reshape(b * n, 1, HEIGHT, WIDTH)).view(b, n, -1)
        affinity = self.edges(strips)
        for mixer in self.mixers:
            h = mixer(h, affinity)
        logits = h @ self.slots.t() / F.softplus(self.tau)
        log_p = logits
        for _ in range(self.rounds):
            log_p = log_p - torch.logsumexp(log_p, dim=2, keepdim=True)
            log_p = log_p - torch.logsumexp(log_p, dim=1, keepdim=True)
        rebuilt = torch.einsum("bnk,bnhw->bkhw", log_p.exp(), strips)
        return {"log_p": log_p, "affinity": affinity, "rebuilt": rebuilt}


# ------------------------------------------------------------------- data
def read_png(path):
    return np.asarray(Image.open(path).convert("L"), dtype=np.float32)


def standardise(page):
    page = page / 255.0
    return (page - page.mean()) / (page.std(ddof=1) + 1e-3)


class Pages(Dataset):
    def __init__(self, split):
        self.sheet = read_png(DATA / f"{split}.png")
        self.per_row = self.sheet.shape[1] // (STRIPS * WIDTH)
        with open(DATA / f"{split}.csv") as f:
            self.rows = [r for r in csv.DictReader(f) if float(r["ink"]) >= 0.02]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        r, c = divmod(int(row["cell"]), self.per_row)
        page = self.sheet[r * HEIGHT:(r + 1) * HEIGHT, c * STRIPS * WIDTH:(c + 1) * STRIPS * WIDTH]
        parts = standardise(page).reshape(HEIGHT, STRIPS, WIDTH).transpose(1, 0, 2)
        order = np.array([int(k) for k in row["order"].split("-")])
        labels = {
            "slot": torch.from_numpy(order),
            "ink": torch.tensor(float(row["ink"]), dtype=torch.float32),
            "page": torch.from_numpy(parts.copy()),
        }
        return torch.from_numpy(parts[order].copy()), labels


def build_dataset(split):
    return Pages(split)


def build_dataloader(split):
    gen = torch.Generator().manual_seed(5)
    return DataLoader(Pages(split), batch_size=5, shuffle=split == "train",
                      drop_last=split == "train", generator=gen)


# --------------------------------------------------------------- objective
@TERMS("place")
def place_term(out, labels):
    """Cross entropy of strip -> slot; pages with much ink count more."""
    nll = F.nll_loss(out["log_p"].flatten(0, 1), labels["slot"].flatten(), reduction="none")
    weight = 1.0 + 2.0 * labels["ink"]
    return (nll.view(-1, STRIPS).mean(1) * weight).sum() / weight.sum()


@TERMS("follow")
def follow_term(out, labels):
    """Strip i is followed by the strip whose slot is one larger; the last slot has no follower."""
    slot = labels["slot"]
    target = (slot[:, None, :] == slot[:, :, None] + 1).float()
    logp = F.log_softmax(out["affinity"], dim=2)
    return -(target * logp).sum() / target.sum()


@TERMS("redraw")
def redraw_term(out, labels):
    return F.huber_loss(out["rebuilt"], labels["page"], delta=0.8)


WEIGHTS = {"place": 1.0, "follow": 0.35, "redraw": 0.6}


def loss(outputs, labels):
    parts = {k: TERMS[k](outputs, labels) for k in WEIGHTS}
    parts["loss"] = sum(WEIGHTS[k] * parts[k] for k in WEIGHTS)
    return parts


# ----------------------------------------------------------------- scores
@SCORES("slot_acc")
def slot_acc(guess, slot):
    return (guess == slot).float().mean()


@SCORES("page_acc")
def page_acc(guess, slot):
    return (guess == slot).all(1).float().mean()


@SCORES("kendall")
def kendall(guess, slot):
    total = 0.0
    for g, s in zip(guess.tolist(), slot.tolist()):
        for i in range(STRIPS):
            for j in range(i + 1, STRIPS):
                total += float(np.sign(g[i] - g[j]) * np.sign(s[i] - s[j]))
    return total / (len(guess) * STRIPS * (STRIPS - 1) / 2)


def greedy(log_p):
    """One-to-one assignment: repeatedly take the best remaining cell."""
    result = torch.zeros(log_p.shape[:2], dtype=torch.long)
    for b, table in enumerate(log_p.detach().clone()):
        for _ in range(STRIPS):
            i, j = divmod(int(table.argmax()), STRIPS)
            result[b, i] = j
            table[i, :] = -float("inf")
            table[:, j] = -float("inf")
    return result


def metric(outputs, labels):
    guess = greedy(outputs["log_p"])
    return {k: float(f(guess, labels["slot"])) for k, f in SCORES.items()}


# --------------------------------------------------------------- training
def build_optimizer(model):
    plain, decayed = [], []
    for p in model.parameters():
        (decayed if p.ndim > 1 and p is not model.slots else plain).append(p)
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.2},
                              {"params": plain, "weight_decay": 0.0}],
                             lr=4e-3, betas=(0.9, 0.98), eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=113, pct_start=0.25,
        div_factor=10.0, final_div_factor=50.0, cycle_momentum=False)


def train_step(model, optimizer, batch):
    model.train()
    strips, labels = batch
    optimizer.zero_grad()
    parts = loss(model(strips), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.8)
    optimizer.step()
    return {"grad_norm": norm.item(), **{k: v.item() for k, v in parts.items()}}


@torch.no_grad()
def predict(path, model):
    page = standardise(read_png(path))
    strips = torch.from_numpy(page).unfold(1, WIDTH, WIDTH).permute(1, 0, 2)
    model.eval()
    out = model(strips[None].contiguous())
    slot = greedy(out["log_p"])[0]
    confidence = out["log_p"][0].exp().gather(1, slot[:, None]).squeeze(1)
    restored = strips[slot.argsort()].permute(1, 0, 2).reshape(HEIGHT, -1)
    return {"slot": slot.numpy(), "confidence": confidence.numpy(), "restored": restored.numpy(),
            "text": "-".join(str(int(s)) for s in slot)}


def build_model():
    return Unshredder()
