"""CapsNet with dynamic routing (Sabour, Frosst, Hinton 2017) on small glyphs. PyTorch."""
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
NAMES = ["square", "plus", "cross", "corner"]
NUM_CLASSES = 4
M_PLUS, M_MINUS, DOWN = 0.9, 0.1, 0.5
RECON_WEIGHT = 0.0005


def squash(s, dim=-1):
    sq = (s ** 2).sum(dim=dim, keepdim=True)
    return sq / (1.0 + sq) * s / torch.sqrt(sq + 1e-8)


class PrimaryCaps(nn.Module):
    def __init__(self, in_ch, num_maps, dim):
        super().__init__()
        self.dim = dim
        self.conv = nn.Conv2d(in_ch, num_maps * dim, kernel_size=5, stride=2)

    def forward(self, x):
        u = self.conv(x)                                   # B, maps*dim, H, W
        b, _, h, w = u.shape
        u = u.view(b, -1, self.dim, h, w).permute(0, 1, 3, 4, 2)
        return squash(u.reshape(b, -1, self.dim))


class RoutingCaps(nn.Module):
    def __init__(self, n_in, d_in, n_out, d_out, iterations=3):
        super().__init__()
        self.iterations = iterations
        self.W = nn.Parameter(0.1 * torch.randn(1, n_in, n_out, d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(1, n_out, d_out))

    def forward(self, u):
        u_hat = torch.matmul(self.W, u[:, :, None, :, None]).squeeze(-1)   # B, I, O, D
        fixed = u_hat.detach()
        logits = torch.zeros(u.size(0), self.W.size(1), self.W.size(2), 1, device=u.device)
        for it in range(self.iterations):
            c = F.softmax(logits, dim=2)
            if it == self.iterations - 1:
                v = squash((c * u_hat).sum(dim=1) + self.bias)
            else:
                v = squash((c * fixed).sum(dim=1) + self.bias.detach())
                logits = logits + (fixed * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v


class CapsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, kernel_size=5)
        self.primary = PrimaryCaps(16, num_maps=4, dim=6)
        self.digits = RoutingCaps(4 * 4 * 4, 6, NUM_CLASSES, 8)
        self.decoder = nn.Sequential(
            nn.Linear(NUM_CLASSES * 8, 48), nn.ReLU(inplace=True),
            nn.Linear(48, 96), nn.ReLU(inplace=True),
            nn.Linear(96, 256), nn.Sigmoid(),
        )

    def forward(self, x):
        v = self.digits(self.primary(F.relu(self.stem(x))))
        length = v.norm(dim=-1)
        mask = F.one_hot(length.argmax(dim=1), NUM_CLASSES).to(v.dtype)
        recon = self.decoder((v * mask.unsqueeze(-1)).flatten(1))
        return {"length": length, "recon": recon.view(-1, 1, 16, 16)}


class Glyphs(Dataset):
    def __init__(self, split):
        with np.load(DATA / "glyphs.npz") as z:
            keep = z["is_val"] == (split == "val")
            self.images, self.labels = z["images"][keep], z["labels"][keep]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = torch.from_numpy(self.images[i]).float().div(255.0).unsqueeze(0)
        return img, {"digit": int(self.labels[i]), "image": img.clone()}


def build_model():
    return CapsNet()


def build_dataset(split):
    return Glyphs(split)


def build_dataloader(split):
    return DataLoader(Glyphs(split), batch_size=6, shuffle=split == "train")


def loss(outputs, labels):
    t = F.one_hot(labels["digit"], NUM_CLASSES).float()
    n = outputs["length"]
    margin = t * F.relu(M_PLUS - n) ** 2 + DOWN * (1 - t) * F.relu(n - M_MINUS) ** 2
    margin = margin.sum(1).mean()
    recon = F.mse_loss(outputs["recon"], labels["image"], reduction="sum") / n.size(0)
    return {"loss": margin + RECON_WEIGHT * recon, "margin": margin, "recon": recon}


def metric(outputs, labels):
    pred = outputs["length"].argmax(1)
    err = (outputs["recon"] - labels["image"]).abs().mean()
    return {"accuracy": (pred == labels["digit"]).float().mean().item(), "recon_mae": err.item()}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)


def train_step(model, optimizer, batch):
    images, labels = batch
    model.train()
    optimizer.zero_grad()
    parts = loss(model(images), labels)
    parts["loss"].backward()
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    px = json.loads(Path(path).read_text())["pixels"]
    x = torch.tensor(px, dtype=torch.float32).div(255.0)[None, None]
    out = model(x)
    best = int(out["length"][0].argmax())
    return {"length": out["length"][0].numpy(), "recon": out["recon"][0, 0].numpy(), "name": NAMES[best]}
