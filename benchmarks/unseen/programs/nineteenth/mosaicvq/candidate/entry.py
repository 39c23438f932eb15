import numpy as np
import paddle
from PIL import Image

from . import criteria, io_patches
from .belief import Belief
from .nets import VQNet

build_model = VQNet
transforms = io_patches.augmentations
build_dataset = io_patches.Mosaic
build_dataloader = io_patches.loader


def loss(outputs, labels):
    return criteria.autoencoder_loss(outputs, labels)


def metric(outputs, labels):
    return criteria.score(outputs, labels)


def build_optimizer(model):
    rate = paddle.optimizer.lr.CosineAnnealingWarmRestarts(2e-3, T_0=6, T_mult=2, eta_min=5e-5)
    return Belief(rate, model.parameters(), beta1=0.9, beta2=0.98, epsilon=1e-6, decay=0.02, decayed=lambda p: p.ndim == 4)


def build_scheduler(optimizer):
    return optimizer.schedule


def train_step(model, optimizer, batch):
    optimizer.clear_grad()
    terms = loss(model(batch["image"]), batch["labels"])
    terms["loss"].backward()
    paddle.nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    return {name: term.detach() for name, term in terms.items()}


def fit(epochs=6):
    model = build_model()
    optimizer = build_optimizer(model)
    batches = build_dataloader("train")
    for epoch in range(epochs):
        batches.batch_sampler.sampler.epoch = epoch
        model.train()
        for batch in batches:
            train_step(model, optimizer, batch)
            optimizer.schedule.step()
        model.eval()
        with paddle.no_grad():
            rows = [metric(model(b["image"]), b["labels"]) for b in build_dataloader("val")]
        print(epoch, {k: np.mean([r[k] for r in rows]) for k in rows[0]})


def corners(extent, side, hop):
    places = list(range(0, extent - side, hop))
    return places + [extent - side]


def predict(path, model, side=24, hop=16):
    model.eval()
    picture = np.asarray(Image.open(path).convert("RGB"), dtype="float32") / np.float32(127.5) - 1
    height, width, _ = picture.shape
    tent = 1 - np.abs(np.arange(side) - (side - 1) / 2) / (side / 2)
    tent = np.outer(tent, tent).astype("float32")
    spots = [(y, x) for y in corners(height, side, hop) for x in corners(width, side, hop)]
    tiles = np.stack([picture[y : y + side, x : x + side].transpose(2, 0, 1) for y, x in spots])
    with paddle.no_grad():
        result = model(paddle.to_tensor(tiles).astype(model.expand.rgb.weight.dtype))
    total = np.zeros((3, height, width), dtype="float32")
    share = np.zeros((height, width), dtype="float32")
    for (y, x), tile in zip(spots, result["recon"].numpy()):
        total[:, y : y + side, x : x + side] += tile * tent
        share[y : y + side, x : x + side] += tent
    rebuilt = np.clip(total / share, -1, 1)
    picture = np.rint((rebuilt + 1) * 127.5).astype("uint8").transpose(1, 2, 0)
    return {"rebuilt": rebuilt, "picture": picture, "codes": result["codes"].numpy()}


if __name__ == "__main__":
    fit()
