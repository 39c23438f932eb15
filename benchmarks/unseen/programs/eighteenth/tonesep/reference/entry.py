"""Entry points: training step and separation of files."""
import wave

import numpy as np
import torch

from . import corpus
from .config import TrainConfig
from .criteria import best_order, evaluate, separation_loss
from .optim import build_optimizer, build_scheduler  # noqa: F401
from .separator import Separator

CFG = TrainConfig()


def build_model():
    return Separator()


def transforms(split):
    return corpus.transforms(split)


def build_dataset(split):
    return corpus.Duets(split)


def build_dataloader(split):
    return corpus.loader(split)


def loss(outputs, labels):
    return separation_loss(outputs, labels)


def metric(outputs, labels):
    return evaluate(outputs, labels)


def train_step(model, optimizer, batch):
    mix, sources = batch
    optimizer.zero_grad()
    value = separation_loss(model(mix), sources)
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CFG.clip)
    optimizer.step()
    return {"loss": value.detach(), "grad_norm": norm}


def train(epochs=2):
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    data = build_dataloader("train")
    for epoch in range(epochs):
        data.sampler.epoch = epoch
        model.train()
        for batch in data:
            stats = train_step(model, optimizer, batch)
            scheduler.step()
        print(epoch, {k: float(v) for k, v in stats.items()})
    return model


def read_wave(path):
    with wave.open(str(path), "rb") as f:
        return np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype(np.float32) / 32768.0


@torch.no_grad()
def predict(path, model):
    """Separates a file of any length: chunks overlap by half, voices are followed from chunk to chunk."""
    dtype = next(model.parameters()).dtype
    signal = torch.from_numpy(read_wave(path)).to(dtype)
    level = signal.pow(2).mean().sqrt().clamp(min=1e-5)
    size, hop = CFG.segment, CFG.segment // 2
    chunks = max(1, -(-(len(signal) - size) // hop) + 1)
    padded = torch.nn.functional.pad(signal * (0.1 / level), (0, (chunks - 1) * hop + size - len(signal)))
    taper = (torch.hann_window(size, periodic=False, dtype=torch.float64) + 1e-3).to(dtype)
    out = torch.zeros(2, len(padded), dtype=dtype)
    weight = torch.zeros(len(padded), dtype=dtype)
    last = None
    for c in range(chunks):
        part = slice(c * hop, c * hop + size)
        voices = model(padded[part].unsqueeze(0))
        if last is not None:  # the assignment that agrees best with the overlap
            _, reorder = best_order(voices[:, :, :hop], last)
            if not torch.equal(reorder, voices[:, :, :hop]):
                voices = voices.flip(1)
        last = voices[:, :, -hop:]
        out[:, part] += voices[0] * taper
        weight[part] += taper
    out = (out / weight)[:, : len(signal)] * (level / 0.1)
    peak = out.abs().max()
    if peak > 0.99:
        out = out * (0.99 / peak)
    return {"voices": out.numpy(), "levels_db": 20 * torch.log10(out.pow(2).mean(dim=1).sqrt() + 1e-8).numpy()}


if __name__ == "__main__":
    train()
