"""AC-GAN on glyphs with PaddlePaddle."""
import json

import numpy as np
import paddle
import paddle.nn.functional as F

from pd.config import CFG
from pd.images import GlyphImages
from pd.nets import GlyphGAN
from pd.solver import Solver, critic_update, follow, painter_update

build_dataset = GlyphImages
build_model = GlyphGAN
build_optimizer = Solver


def build_dataloader(split):
    return paddle.io.DataLoader(GlyphImages(split), batch_size=CFG.batch, drop_last=True)


def loss(out, labels):
    real, fake = out["real_adv"], out["fake_adv"]
    adversarial = paddle.log1p(paddle.exp(-real)).mean() + paddle.log1p(paddle.exp(fake)).mean()
    return adversarial + CFG.solver.aux * F.cross_entropy(out["real_aux"], labels)


def sliced_distance(a, b, directions=32):
    d = np.random.RandomState(0).randn(a.shape[1], directions)
    d = d / np.sqrt((d ** 2).sum(0))
    return np.mean(np.abs(np.sort(a @ d, axis=0) - np.sort(b @ d, axis=0)))


def metric(out, labels):
    flat = lambda x: x.numpy().reshape(len(x), -1).astype("float64")
    right = np.concatenate([out["real_adv"].numpy() > 0, out["fake_adv"].numpy() <= 0])
    return {
        "verdict": right.mean(),
        "aux": (out["real_aux"].numpy().argmax(1) == labels.numpy()).mean(),
        "swd": sliced_distance(flat(out["fake"]), flat(out["real"])),
    }


def train_step(model, optimizer, batch):
    noise, wanted, image, labels = batch
    d = critic_update(model, optimizer, noise, wanted, image, labels)
    g = painter_update(model, optimizer, noise, wanted, image)
    follow(model.average, model.painter)
    return d.detach() + g.detach()


def predict(path, model):
    with open(path) as f:
        request = json.load(f)
    noise = paddle.to_tensor(request["noise"], dtype=model.painter.seed.weight.dtype)
    noise = noise.clip(-CFG.truncation, CFG.truncation)
    with paddle.no_grad():
        images = model.average(noise, paddle.to_tensor(request["classes"]))
        verdict, aux, _ = model.critic(images)
    return {
        "images": ((images.squeeze(1) + 1.0) * 127.5).numpy(),
        "score": F.sigmoid(verdict).numpy(),
        "seen_as": aux.argmax(axis=1).tolist(),
    }
