"""Conditional VAE on small digits."""
import csv
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")
N_CLASSES, LATENT = 5, 6


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1 + N_CLASSES, width, 4, 2, 1), nn.BatchNorm2d(width), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, width * 2, 4, 2, 1), nn.BatchNorm2d(width * 2), nn.LeakyReLU(0.2, inplace=True))
        self.fc_mu = nn.Linear(width * 2 * 16, LATENT)
        self.fc_logvar = nn.Linear(width * 2 * 16, LATENT)

    def forward(self, x, y):
        maps = y[:, :, None, None].expand(-1, -1, x.size(2), x.size(3))
        h = self.net(torch.cat([x, maps], 1)).flatten(1)
        return self.fc_mu(h), self.fc_logvar(h).clamp(-6, 6)


class Decoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(LATENT + N_CLASSES, width * 2 * 16)
        self.up1 = nn.ConvTranspose2d(width * 2, width, 4, 2, 1)
        self.bn = nn.BatchNorm2d(width)
        self.up2 = nn.ConvTranspose2d(width, 1, 4, 2, 1)

    def forward(self, z, y):
        h = F.elu(self.fc(torch.cat([z, y], 1)))
        h = h.view(h.size(0), -1, 4, 4)
        return self.up2(F.relu(self.bn(self.up1(h))))


class CVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x, label):
        y = F.one_hot(label, N_CLASSES).to(x.dtype)
        mu, logvar = self.encoder(x, y)
        z = self.reparameterize(mu, logvar)
        return {"recon": self.decoder(z, y), "mu": mu, "logvar": logvar}


def build_model():
    return CVAE()


def loss(outputs, labels):
    b = labels.size(0)
    bce = F.binary_cross_entropy_with_logits(outputs["recon"], labels, reduction="sum") / b
    mu, logvar = outputs["mu"], outputs["logvar"]
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / b
    return {"loss": bce + 0.7 * kld, "bce": bce, "kld": kld}


def metric(outputs, labels):
    rec = torch.sigmoid(outputs["recon"])
    mse = F.mse_loss(rec, labels)
    return {"psnr": float(10 * torch.log10(1 / mse)), "active_units": int((outputs["mu"].var(0) > 0.01).sum())}


class Digits(Dataset):
    def __init__(self, split):
        with open(os.path.join(ROOT, "list.csv")) as f:
            self.rows = [r for r in csv.DictReader(f) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        im = Image.open(os.path.join(ROOT, r["file"])).convert("L").resize((16, 16), Image.BILINEAR)
        x = torch.from_numpy(np.array(im, dtype=np.float32) / 255.0)[None]
        return x, int(r["label"]), x.clone()


def build_dataset(split):
    return Digits(split)


def build_dataloader(split):
    return DataLoader(Digits(split), batch_size=4, shuffle=False)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.5, 0.999))


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)


@torch.no_grad()
def predict(path, model):
    im = Image.open(path).convert("L").resize((16, 16), Image.BILINEAR)
    x = torch.from_numpy(np.array(im, dtype=np.float32) / 255.0)[None, None]
    x = x.to(next(model.parameters()).dtype).repeat(N_CLASSES, 1, 1, 1)
    out = model(x, torch.arange(N_CLASSES))
    img = torch.sigmoid(out["recon"])
    err = ((img - x) ** 2).flatten(1).mean(1)
    return {"image": img[err.argmin()], "errors": err, "best": int(err.argmin())}
