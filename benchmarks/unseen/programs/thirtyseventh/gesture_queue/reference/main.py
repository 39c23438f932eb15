"""Gestures of a wrist sensor: contrastive learning with a momentum encoder and a queue of keys."""
import copy
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


class Encoder(nn.Module):
    def __init__(self, channels=3, hidden=10, out=8):
        super().__init__()
        self.gru = nn.GRU(channels, hidden, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * hidden, 1)
        self.project = nn.Linear(4 * hidden, out)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, last = self.gru(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        gone = torch.arange(x.shape[1])[None] >= lengths[:, None]
        weight = self.score(torch.tanh(out)).squeeze(-1).masked_fill(gone, float("-inf")).softmax(-1)
        pooled = (weight.unsqueeze(-1) * out).sum(1)
        return self.project(torch.cat([pooled, last[0], last[1]], -1))


class GestureModule(nn.Module):
    """Network, losses, optimizer and step in one class, as in Lightning."""

    def __init__(self, size=24, temperature=0.2, keep=0.9, classes=4, lr=4e-3):
        super().__init__()
        self.size, self.temperature, self.keep, self.lr = size, temperature, keep, lr
        self.encoder = Encoder()
        self.slow = copy.deepcopy(self.encoder)
        for p in self.slow.parameters():
            p.requires_grad = False
        self.probe = nn.Linear(8, classes)
        self.register_buffer("queue", F.normalize(torch.randn(size, 8), dim=1))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x, other, lengths):
        features = self.encoder(x, lengths)
        query = F.normalize(features, dim=1)
        with torch.no_grad():
            keys = F.normalize(self.slow(other, lengths), dim=1)
        positive = (query * keys).sum(1, keepdim=True)
        negative = query @ self.queue.t().clone()
        logits = torch.cat([positive, negative], 1) / self.temperature
        return {"contrast": logits, "probe": self.probe(features.detach()), "keys": keys}

    def compute_loss(self, outputs, labels):
        aim = torch.zeros(len(labels), dtype=torch.long)
        return F.cross_entropy(outputs["contrast"], aim) + 0.5 * F.cross_entropy(
            outputs["probe"], labels, label_smoothing=0.1)

    def configure_optimizers(self):
        probe = list(self.probe.parameters())
        rest = [p for p in self.encoder.parameters() if p.requires_grad]
        return torch.optim.Adam([{"params": rest, "weight_decay": 1e-3},
                                 {"params": probe, "lr": 2 * self.lr, "weight_decay": 1e-3}], lr=self.lr)

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.slow.parameters(), self.encoder.parameters()):
            slow.mul_(self.keep).add_(fast, alpha=1 - self.keep)

    @torch.no_grad()
    def enqueue(self, keys):
        where = (int(self.place) + torch.arange(len(keys))) % self.size
        self.queue[where] = keys
        self.place[0] = (int(self.place) + len(keys)) % self.size

    def training_step(self, optimizer, batch):
        self.follow()
        outputs = self(batch[0], batch[1], batch[2])
        value = self.compute_loss(outputs, batch[3])
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(self.encoder.parameters(), 0.3)
        optimizer.step()
        self.enqueue(outputs["keys"])
        return value.detach()


class Gestures(Dataset):
    def __init__(self, split):
        with np.load(os.path.join(DATA, split + ".npz")) as f:
            self.x, self.n, self.c = f["x"], f["n"], f["c"]
        self.split = split

    def __len__(self):
        return len(self.x)

    def view(self, x, n, rng):
        angle = rng.uniform(-0.4, 0.4)
        turn = np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]],
                        dtype=np.float32)
        x = x @ turn * np.float32(rng.uniform(0.9, 1.1))
        x = x + rng.normal(0, 0.05, x.shape).astype(np.float32)
        x[n:] = 0
        return x

    def __getitem__(self, i):
        x, n = self.x[i], self.n[i]
        rng = np.random.RandomState(i + (0 if self.split == "train" else 5000))
        return self.view(x, n, rng), self.view(x, n, rng), n, self.c[i]


def build_model():
    return GestureModule()


def build_dataset(split):
    return Gestures(split)


def build_dataloader(split):
    return DataLoader(Gestures(split), batch_size=10, drop_last=False)


def loss(outputs, labels):
    return GestureModule.compute_loss(None, outputs, labels)


def metric(outputs, labels):
    contrast = outputs["contrast"].detach().numpy()
    better = (contrast[:, 1:] > contrast[:, :1]).sum(1)
    guess = outputs["probe"].detach().numpy().argmax(1)
    return {"recall_at_3": float((better < 3).mean()), "probe": float((guess == labels.numpy()).mean())}


def build_optimizer(model):
    return model.configure_optimizers()


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40, eta_min=0)


def train_step(model, optimizer, batch):
    return model.training_step(optimizer, batch)
