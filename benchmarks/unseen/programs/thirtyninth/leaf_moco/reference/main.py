"""Leaf shapes: contrast of two views against a queue of earlier keys, with a small head for species.

`LitLeaf` holds the networks, the losses and the optimizer, after the manner of Lightning modules.
"""
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES = 4


class LeafViews(Dataset):
    def __init__(self, split, size=20):
        pack = np.load("data/leaves.npz")
        self.images, self.species = pack[split + "_x"], pack[split + "_y"]
        self.size, self.train = size, split == "train"

    def view(self, image, rng):
        room = image.shape[0] - self.size + 1
        top, left = (rng.randint(room), rng.randint(room)) if self.train else (room // 2, room // 2)
        x = image[top:top + self.size, left:left + self.size].astype(np.float32) / 255.0
        if self.train:
            if rng.uniform() < 0.5:
                x = x[:, ::-1]
            x = x * np.float32(rng.uniform(0.7, 1.3)) + np.float32(rng.uniform(-0.1, 0.1))
            y0, x0 = rng.randint(0, self.size - 5, size=2)
            x = x.copy()
            x[y0:y0 + 5, x0:x0 + 5] = x.mean()
        return torch.from_numpy(np.ascontiguousarray((x - 0.4) / 0.25)).unsqueeze(0)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        rng = np.random.RandomState((77 * i + 5) % 10007)
        return self.view(self.images[i], rng), self.view(self.images[i], rng), self.species[i]


class GeM(nn.Module):
    """Generalised mean over the plane; the exponent is learned."""

    def __init__(self, p=3.0, eps=1e-4):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([p]))
        self.eps = eps

    def forward(self, x):
        return x.clamp(min=self.eps).pow(self.p).mean(dim=(2, 3)).pow(1.0 / self.p)


class Encoder(nn.Module):
    def __init__(self, width=16, out=12):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.InstanceNorm2d(8, affine=True)
        self.depth = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False)
        self.point = nn.Conv2d(8, width, 1)
        self.norm2 = nn.GroupNorm(4, width)
        self.down = nn.Conv2d(width, width, 4, stride=2, padding=1, groups=4)
        self.pool = GeM()
        self.proj = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))

    def features(self, x):
        x = F.leaky_relu(self.norm1(self.stem(x)), 0.1)
        x = F.mish(self.norm2(self.point(self.depth(x))))
        return self.pool(F.softplus(self.down(x)))

    def forward(self, x):
        h = self.features(x)
        return F.normalize(self.proj(h), dim=1), h


class LitLeaf(nn.Module):
    def __init__(self, queue=24, dim=12, temperature=0.2, momentum=0.9, lr=2e-3, weight_decay=1e-2, clip=0.8):
        super().__init__()
        self.temperature, self.momentum = temperature, momentum
        self.lr, self.weight_decay, self.clip = lr, weight_decay, clip
        self.encoder_q = Encoder(out=dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.classify = nn.Linear(16, SPECIES)
        start = np.random.RandomState(1).randn(dim, queue).astype(np.float32)
        self.register_buffer("queue", F.normalize(torch.from_numpy(start), dim=0))
        self.register_buffer("cursor", torch.zeros(1, dtype=torch.long))

    def forward(self, view_q, view_k):
        q, h = self.encoder_q(view_q)
        with torch.no_grad():
            k, _ = self.encoder_k(view_k)
        positive = torch.einsum("nd,nd->n", q, k).unsqueeze(1)
        negative = torch.einsum("nd,dm->nm", q, self.queue.clone())
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        return {"contrast": logits, "species": self.classify(h), "key": k}

    @staticmethod
    def criterion(outputs, labels):
        first = torch.zeros(len(labels), dtype=torch.long, device=labels.device)
        return (F.cross_entropy(outputs["contrast"], first)
                + 0.3 * F.cross_entropy(outputs["species"], labels, label_smoothing=0.05))

    @torch.no_grad()
    def follow(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.copy_(k * self.momentum + q * (1.0 - self.momentum))

    @torch.no_grad()
    def enqueue(self, keys):
        size, at = self.queue.shape[1], int(self.cursor)
        places = (at + torch.arange(len(keys))) % size
        self.queue[:, places] = keys.t()
        self.cursor[0] = (at + len(keys)) % size

    def training_step(self, batch):
        view_q, view_k, species = batch
        self.follow()
        outputs = self(view_q, view_k)
        return self.criterion(outputs, species), outputs["key"]

    def configure_optimizers(self):
        live = [(n, p) for n, p in self.named_parameters() if p.requires_grad]
        return torch.optim.AdamW([
            {"params": [p for _, p in live if p.ndim > 1]},
            {"params": [p for n, p in live if p.ndim == 1 and "pool" not in n], "weight_decay": 0.0},
            {"params": [p for n, p in live if "pool" in n], "weight_decay": 0.0, "lr": 10 * self.lr},
        ], lr=self.lr, weight_decay=self.weight_decay)

    @staticmethod
    def configure_schedule(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=9, T_mult=2, eta_min=0.0)


def build_model():
    return LitLeaf()


def loss(outputs, labels):
    return LitLeaf.criterion(outputs, labels)


def metric(outputs, labels):
    logits = outputs["contrast"].detach().cpu().numpy()
    species, keys = outputs["species"].detach().cpu().numpy(), outputs["key"].cpu().numpy()
    labels = labels.cpu().numpy()
    near = keys @ keys.T - 10 * np.eye(len(keys))
    return {"instance_top1": float((logits.argmax(1) == 0).mean()),
            "species_accuracy": float((species.argmax(1) == labels).mean()),
            "neighbour": float((labels[near.argmax(1)] == labels).mean()) if len(labels) > 1 else 0.0}


def build_dataset(split):
    return LeafViews(split)


def build_dataloader(split):
    return DataLoader(LeafViews(split), batch_size=6, drop_last=split == "train")


def build_optimizer(model):
    return model.configure_optimizers()


def build_scheduler(optimizer):
    return LitLeaf.configure_schedule(optimizer)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    value, keys = model.training_step(batch)
    value.backward()
    nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], model.clip)
    optimizer.step()
    model.enqueue(keys)
    return value.detach()


def predict(path, model):
    x = torch.from_numpy(np.load(path)[:, 2:22, 2:22].astype(np.float32) / 255.0).unsqueeze(1)
    x = ((x - 0.4) / 0.25).to(model.queue.dtype)
    with torch.no_grad():
        z, h = model.encoder_q(x)
        return {"embedding": z.cpu().numpy(), "species": model.classify(h).softmax(1).cpu().numpy()}
