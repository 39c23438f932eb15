import numpy as np
import torch
from PIL import Image

from . import patches
from .adabelief import AdaBelief
from .autoencoder import MosaicVQ
from .objectives import vq_loss, vq_metrics

OPT = dict(lr=2e-3, betas=(0.9, 0.98), eps=1e-6)
DECAY, CLIP = 0.02, 0.05


def build_model():
    return MosaicVQ()


def transforms(split):
    return patches.get_transforms(split)


def build_dataset(split):
    return patches.PatchSheet(split)


def build_dataloader(split):
    return patches.get_loader(split)


def loss(outputs, labels):
    return vq_loss(outputs, labels)


def metric(outputs, labels):
    return vq_metrics(outputs, labels)


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim == 4]
    rest = [p for p in model.parameters() if p.ndim != 4]
    return AdaBelief([{"params": decay, "weight_decay": DECAY}, {"params": rest}], **OPT)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=6, T_mult=2, eta_min=5e-5)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    parts = loss(model(batch["image"]), batch["labels"])
    parts["loss"].backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), CLIP)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


def fit(epochs=6):
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(epochs):
        loader.sampler.epoch = epoch
        model.train()
        for batch in loader:
            parts = train_step(model, optimizer, batch)
            scheduler.step()
        model.eval()
        with torch.no_grad():
            scores = [metric(model(b["image"]), b["labels"]) for b in build_dataloader("val")]
        print(epoch, {k: float(v) for k, v in parts.items()}, {k: float(sum(s[k] for s in scores) / len(scores)) for k in scores[0]})


def starts(size, tile, stride):
    """First rows of tiles that cover everything; the last one ends at the border."""
    s = list(range(0, size - tile + 1, stride))
    if s[-1] != size - tile:
        s.append(size - tile)
    return s


@torch.no_grad()
def predict(path, model, tile=24, stride=16):
    """The picture rebuilt from codes: overlapping tiles, blended with a triangular window."""
    model.eval()
    x = torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1).float() / 127.5 - 1
    ramp = 1 - (torch.arange(tile) - (tile - 1) / 2).abs() / (tile / 2)
    window = ramp[:, None] * ramp[None, :]
    acc, weight, codes = torch.zeros_like(x), torch.zeros(x.shape[1:]), []
    for i in starts(x.shape[1], tile, stride):
        for j in starts(x.shape[2], tile, stride):
            out = model(x[None, :, i : i + tile, j : j + tile])
            acc[:, i : i + tile, j : j + tile] += out["recon"][0] * window
            weight[i : i + tile, j : j + tile] += window
            codes.append(out["codes"][0])
    y = (acc / weight).clamp(-1, 1)
    picture = ((y + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()
    return {"rebuilt": y.numpy(), "picture": picture, "codes": torch.stack(codes).numpy()}


if __name__ == "__main__":
    torch.manual_seed(0)
    fit()
