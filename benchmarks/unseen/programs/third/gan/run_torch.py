"""AC-GAN on 12 x 12 glyphs: spectral norm, R1 penalty, two optimizers, averaged generator."""
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from glyphgan.data import Glyphs
from glyphgan.networks import GAN
from glyphgan.optim import AdaBelief, GanOptimizers

LR_G, LR_D, BETAS, DECAY_D = 2e-3, 4e-3, (0.5, 0.99), 1e-2
R1, AUX, EMA = 0.4, 0.5, 0.9
TRUNCATE = 1.5


def build_dataset(split):
    return Glyphs(split)


def build_dataloader(split):
    return DataLoader(Glyphs(split), batch_size=6, shuffle=False, drop_last=True)


def build_model():
    return GAN()


def loss(out, labels):
    adv = F.softplus(-out["real_adv"]).mean() + F.softplus(out["fake_adv"]).mean()
    return adv + AUX * F.cross_entropy(out["real_aux"], labels)


def metric(out, labels):
    """share of right verdicts, accuracy of the classifier, sliced Wasserstein distance of fake and real images"""
    verdict = torch.cat([out["real_adv"] > 0, out["fake_adv"] <= 0]).float().mean().item()
    aux = (out["real_aux"].argmax(1) == labels).float().mean().item()
    dirs = np.random.RandomState(0).randn(144, 32)
    dirs /= np.linalg.norm(dirs, axis=0, keepdims=True)
    a = np.sort(out["fake"].flatten(1).numpy().astype(np.float64) @ dirs, axis=0)
    b = np.sort(out["real"].flatten(1).numpy().astype(np.float64) @ dirs, axis=0)
    return {"verdict": verdict, "aux": aux, "swd": float(np.abs(a - b).mean())}


def build_optimizer(model):
    g = torch.optim.Adam(model.generator.parameters(), lr=LR_G, betas=BETAS)
    d = AdaBelief(model.discriminator.parameters(), lr=LR_D, betas=BETAS, weight_decay=DECAY_D)
    return GanOptimizers(g, d)


def gradient_penalty(model, image):
    image = image.clone().requires_grad_(True)
    adv, _, _ = model.discriminator(image)
    grad, = torch.autograd.grad(adv.sum(), image, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


def train_step(model, optimizer, batch):
    noise, wanted, image, labels = batch

    # discriminator
    with torch.no_grad():
        fake = model.generator(noise, wanted)
    real_adv, real_aux, _ = model.discriminator(image)
    fake_adv, _, _ = model.discriminator(fake)
    d_loss = F.softplus(-real_adv).mean() + F.softplus(fake_adv).mean() + AUX * F.cross_entropy(real_aux, labels)
    d_loss = d_loss + 0.5 * R1 * gradient_penalty(model, image)
    optimizer.d.zero_grad()
    d_loss.backward()
    optimizer.d.step()

    # generator
    fake = model.generator(noise, wanted)
    fake_adv, fake_aux, feature = model.discriminator(fake)
    with torch.no_grad():
        _, _, target = model.discriminator(image)
    matching = F.l1_loss(feature.mean(0), target.mean(0))
    g_loss = F.softplus(-fake_adv).mean() + AUX * F.cross_entropy(fake_aux, wanted) + 0.1 * matching
    optimizer.g.zero_grad()
    g_loss.backward()
    optimizer.g.step()

    with torch.no_grad():
        for a, p in zip(model.ema.parameters(), model.generator.parameters()):
            a.lerp_(p, 1 - EMA)
        for a, b in zip(model.ema.buffers(), model.generator.buffers()):
            a.copy_(b)
    return d_loss.detach() + g_loss.detach()


@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        request = json.load(f)
    dtype = model.generator.fc.weight.dtype
    noise = torch.tensor(request["noise"], dtype=dtype).clamp(-TRUNCATE, TRUNCATE)
    images = model.ema(noise, torch.tensor(request["classes"]))
    adv, aux, _ = model.discriminator(images)
    images = (images + 1) * 127.5
    return {"images": images[:, 0].numpy(), "score": torch.sigmoid(adv).numpy(), "seen_as": aux.argmax(1).tolist()}
