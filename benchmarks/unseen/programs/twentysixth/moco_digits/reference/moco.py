"""Momentum contrast on the 8x8 digits of scikit-learn."""
import copy
import json

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

DIM, QUEUE, TEMP, MOMENTUM = 16, 64, 0.2, 0.99
BATCH = 16


def augment(image, rng):
    dy, dx = rng.randint(-1, 2, size=2)
    image = np.roll(image, (dy, dx), axis=(0, 1))
    gain = rng.uniform(0.7, 1.3)
    noise = rng.normal(0.0, 0.05, size=image.shape)
    image = image * gain + noise
    if rng.rand() < 0.5:
        y, x = rng.randint(0, 6, size=2)
        image[y:y + 3, x:x + 3] = 0.0
    return image.astype(np.float32)[None]


class TwoViews(Dataset):
    def __init__(self, split):
        digits = load_digits()
        lo, hi = (0, 224) if split == "train" else (300, 348)
        self.images = digits.images[lo:hi] / 16.0
        self.labels = digits.target[lo:hi]
        self.base = 1000 if split == "train" else 5000

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        rng = np.random.RandomState(self.base + i)
        a = augment(self.images[i], rng)
        b = augment(self.images[i], rng)
        return torch.from_numpy(a), torch.from_numpy(b), torch.tensor(self.labels[i], dtype=torch.long)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.GroupNorm(4, 12), nn.SiLU(),
            nn.AvgPool2d(3, stride=2, padding=1),
            nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.GroupNorm(4, 24), nn.SiLU(),
        )
        self.projector = nn.Sequential(nn.Linear(24 * 16, 32), nn.ReLU(), nn.Linear(32, DIM))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        h = self.features(2 * x - 1).flatten(1)
        return F.normalize(self.projector(h), dim=1)


class MoCo(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder_q = Encoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(DIM, QUEUE), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(MOMENTUM).add_(q, alpha=1 - MOMENTUM)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        self.queue[:, ptr:ptr + n] = keys.T
        self.queue_ptr[0] = (ptr + n) % QUEUE

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            k = self.encoder_k(im_k)
        pos = torch.einsum("nc,nc->n", q, k).unsqueeze(1)
        neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        return {"logits": torch.cat([pos, neg], dim=1) / TEMP, "query": q, "key": k}


def build_model():
    return MoCo()


def build_dataset(split):
    return TwoViews(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), BATCH, shuffle=split == "train", drop_last=True)


def loss(outputs, labels):
    logits = outputs["logits"]
    target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
    return F.cross_entropy(logits, target)


@torch.no_grad()
def metric(outputs, labels):
    q, k, logits = outputs["query"], outputs["key"], outputs["logits"]
    sim = q @ k.T
    same = labels[:, None] == labels[None, :]
    off = ~torch.eye(len(labels), dtype=torch.bool)
    dist = torch.pdist(q).pow(2)
    nearest = sim.masked_fill(~off, -2.0).argmax(1)
    return {
        "top1": (logits.argmax(1) == 0).float().mean().item(),
        "top5": (logits.topk(5, dim=1).indices == 0).any(1).float().mean().item(),
        "alignment": (q - k).norm(dim=1).pow(2).mean().item(),
        "uniformity": dist.mul(-2).exp().mean().log().item(),
        "knn": (labels[nearest] == labels).float().mean().item(),
        "same_rate": (same & off).float().mean().item(),
    }


def build_optimizer(model):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (rest if p.ndim == 1 else decay).append(p)
    return torch.optim.SGD(
        [{"params": decay, "weight_decay": 1e-3}, {"params": rest, "weight_decay": 0.0}],
        lr=0.03, momentum=0.9)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[56, 84], gamma=0.1)


def train_step(model, optimizer, batch):
    model.train()
    im_q, im_k, labels = batch
    model.momentum_update()
    outputs = model(im_q, im_k)
    value = loss(outputs, labels)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    model.enqueue(outputs["key"])
    return {"loss": value.item(), "positive": outputs["logits"][:, 0].mean().item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as handle:
        images = np.array(json.load(handle)["images"], dtype=np.float32) / 16.0
    emb = model.encoder_q(torch.from_numpy(images)[:, None])
    sim = emb @ emb.T
    order = torch.argsort(sim, dim=1, descending=True)[:, 1:4]
    return {"embedding": emb.numpy(), "similarity": sim.numpy(), "neighbours": order.tolist()}
