"""Conditional SN-GAN with a projection discriminator (Miyato & Koyama 2018), conditional norm by FiLM, both nets stepped at once."""
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
Z, KINDS, SIZE, BATCH = 8, 3, 12, 6


class Pictures(Dataset):
    """(picture in [-1, 1], kind, stored noise), label: kind"""

    def __init__(self, split):
        z = np.load(DATA / f"{split}.npz")
        self.image = torch.tensor(z["image"]).float().unsqueeze(1) / 127.5 - 1
        self.kind, self.noise = torch.tensor(z["kind"]), torch.tensor(z["noise"])

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.kind[i], self.noise[i], self.kind[i]


class SpectralNorm(nn.Module):
    """Wraps a layer; one power iteration per call in training."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.register_buffer("u", F.normalize(torch.ones(layer.weight.shape[0]), dim=0))

    def forward(self, x):
        w = self.layer.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(w.t() @ self.u, dim=0)
            u = F.normalize(w @ v, dim=0)
            if self.training:
                self.u.copy_(u)
        sigma = u @ w @ v
        y = self.layer._conv_forward(x, self.layer.weight / sigma, self.layer.bias) if isinstance(self.layer, nn.Conv2d) else F.linear(x, self.layer.weight / sigma, self.layer.bias)
        return y


class CondNorm(nn.Module):
    """Channel-wise standardisation, then scale and shift chosen by the kind."""

    def __init__(self, c):
        super().__init__()
        self.film = nn.Embedding(KINDS, 2 * c)
        nn.init.normal_(self.film.weight[:, :c].data, 1.0, 0.02)
        nn.init.zeros_(self.film.weight[:, c:].data)

    def forward(self, x, kind):
        gamma, beta = self.film(kind)[:, :, None, None].chunk(2, dim=1)
        return F.instance_norm(x, eps=1e-4) * gamma + beta


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(Z, 16 * 9)
        self.norm1, self.norm2 = CondNorm(16), CondNorm(12)
        self.up1 = nn.ConvTranspose2d(16, 12, 4, 2, 1, bias=False)
        self.up2 = nn.ConvTranspose2d(12, 8, 4, 2, 1)
        self.rgb = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, z, kind):
        h = self.project(z).view(-1, 16, 3, 3)
        h = F.relu(self.norm1(h, kind))
        h = F.relu(self.norm2(self.up1(h), kind))
        return torch.tanh(self.rgb(F.relu(self.up2(h))))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = SpectralNorm(nn.Conv2d(1, 8, 4, 2, 1))
        self.c2 = SpectralNorm(nn.Conv2d(8, 12, 4, 2, 1))
        self.out = SpectralNorm(nn.Linear(12, 1))
        self.kind = nn.Embedding(KINDS, 12)

    def forward(self, x, kind):
        h = F.leaky_relu(self.c1(x), 0.1)
        h = F.leaky_relu(self.c2(h), 0.1).sum((2, 3))
        return self.out(h).squeeze(1) + (self.kind(kind) * h).sum(1)


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.G, self.D = Generator(), Discriminator()
        for n, p in self.named_parameters():
            if "norm" in n:
                continue
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.1)
            else:
                nn.init.zeros_(p)

    def forward(self, image, kind, noise):
        fake = self.G(noise, kind)
        return {"real": self.D(image, kind), "fake": self.D(fake, kind), "image": fake}


def build_model():
    return GAN()


def build_dataset(split):
    return Pictures(split)


def build_dataloader(split):
    return DataLoader(Pictures(split), batch_size=BATCH, shuffle=split == "train")


def loss(outputs, labels):
    """As a report: what both players see at this point; 'loss' is their sum."""
    d = F.relu(1 - outputs["real"]).mean() + F.relu(1 + outputs["fake"]).mean()
    g = -outputs["fake"].mean()
    return {"loss": d + 0.5 * g, "d": d, "g": g}


def metric(outputs, labels):
    ok = (outputs["real"] > 0).float().mean() + (outputs["fake"] < 0).float().mean()
    return {"d_accuracy": ok.item() / 2, "gap": (outputs["real"] - outputs["fake"]).mean().item(), "spread": outputs["image"].std(0).mean().item()}


def build_optimizer(model):
    return torch.optim.Adam([{"params": model.G.parameters(), "lr": 1e-3}, {"params": model.D.parameters(), "lr": 4e-3}], betas=(0.5, 0.9))


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: max(0.0, 1 - max(0, k - 56) / 56))


def train_step(model, optimizer, batch):
    model.train()
    image, kind, noise, _ = batch
    fake = model.G(noise, kind)
    d_loss = F.relu(1 - model.D(image, kind)).mean() + F.relu(1 + model.D(fake.detach(), kind)).mean()
    optimizer.zero_grad()
    d_loss.backward()
    g_loss = -model.D(fake, kind).mean()
    params = list(model.G.parameters())
    for p, g in zip(params, torch.autograd.grad(g_loss, params)):
        p.grad = g
    optimizer.step()
    return {"loss": d_loss.item() + g_loss.item(), "d": d_loss.item(), "g": g_loss.item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    q = json.loads(Path(path).read_text())
    kind = torch.tensor(q["kind"])
    image = model.G(torch.tensor(q["noise"]), kind)
    return {"image": ((image + 1) * 127.5).numpy(), "score": model.D(image, kind).tolist()}
