import math

import numpy as np
import paddle
from paddle.io import Dataset

from process import AveragedWeights, Process

LR, FLOOR, WARM = 2e-3, 1e-4, 5


def build_model():
    return Process(steps=50)


def loss(outputs, batch):
    gap = (outputs["v"] - outputs["target"]).square().mean(axis=[1, 2, 3])
    snr = outputs["snr"]
    weight = snr.clip(max=5.0) / (snr + 1.0)
    hardness = 1.0 - paddle.exp(-gap.detach())
    return paddle.mean(weight * hardness * gap * batch["weight"])


def build_optimizer(model):
    return paddle.optimizer.AdamW(LR, beta1=0.9, beta2=0.99, parameters=model.parameters(), weight_decay=1e-2)


def build_scheduler(optimizer):
    def factor(step):
        if step < WARM:
            return 0.1 + 0.9 * step / WARM
        wave = 0.5 * (1.0 + math.cos(math.pi * (step - WARM) / 20.0))
        return (FLOOR + (LR - FLOOR) * wave) / LR
    plan = paddle.optimizer.lr.LambdaDecay(LR, factor)
    optimizer.set_lr_scheduler(plan)
    return plan


def build_ema(model):
    return AveragedWeights(model)


class BlobImages(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.RandomState(70 + index)
        centre = rng.uniform(1, 6, (2, 2))
        spread = rng.uniform(0.8, 2.0, 2)
        ys, xs = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
        planes = []
        for (cx, cy), width in zip(centre, spread):
            planes.append(np.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / (2 * width ** 2)))
        picture = (np.stack(planes) * 255).astype("uint8")
        if index % 2 == 1:
            picture = picture[:, :, ::-1]
        step = (index * 13 + 5) % 50
        return picture.astype("float32") / 127.5 - 1.0, step


def build_dataset():
    return BlobImages()


def inputs():
    r = np.random.RandomState(51)
    x0 = np.clip(r.randn(4, 2, 8, 8) * 0.5, -1, 1).astype("float32")
    return {"x0": x0, "t": np.array([0, 11, 30, 49], dtype="int64"), "noise": r.randn(4, 2, 8, 8).astype("float32")}


def labels():
    given = inputs()
    return {"weight": np.array([1.0, 0.5, 2.0, 1.5], dtype="float32"), "x0": given["x0"], "t": given["t"]}


def metric(outputs, labels):
    guess = np.clip(outputs["x0_hat"].numpy().astype("float64"), -1.0, 1.0)
    error = np.mean((guess - labels["x0"]) ** 2, axis=(1, 2, 3))
    early = labels["t"] < 25
    return {"psnr": float(np.mean(10.0 * np.log10(2.0 ** 2 / error))), "mse_early": float(error[early].mean()),
            "mse_late": float(error[~early].mean())}


# what paralign calls

_measured = metric


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
