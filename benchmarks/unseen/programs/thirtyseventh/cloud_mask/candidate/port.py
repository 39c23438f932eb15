"""Cloud segmentation in PaddlePaddle."""
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from PIL import Image

from .layers import Decoder, double

ROOT = Path(__file__).resolve().parent.parent / "data"
MEAN = np.float32([0.48, 0.5, 0.52])
STD = np.float32([0.2, 0.21, 0.22])
SIDE = 30


class Clouds(nn.Layer):
    def __init__(self, c=6):
        super().__init__()
        self.enc1 = double(3, c, 2)
        self.enc2 = double(c, c * 2, 3)
        self.pool = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        self.shrink = nn.AvgPool2D(2, ceil_mode=True, exclusive=True)
        self.dec = Decoder(c * 2, c)
        self.last = nn.Conv2D(c, 1, kernel_size=1)

    def forward(self, x):
        skip = self.enc1(x)
        deep = self.enc2(self.pool(skip))
        h, w = deep.shape[2:]
        wide = self.shrink(deep).repeat_interleave(2, axis=2).repeat_interleave(2, axis=3)
        deep = deep + wide[:, :, :h, :w]
        return self.last(self.dec(deep, skip))[:, 0]


def read(path):
    with Image.open(path) as picture:
        return np.array(picture.convert("RGB")).astype("float32") / 255.0


class SceneSet(paddle.io.Dataset):
    def __init__(self, split):
        self.random = split == "train"
        self.files = sorted(f for f in ROOT.glob(f"{split}_*.png") if "mask" not in f.name)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        file = self.files[i]
        picture = read(file)
        with Image.open(file.with_name(file.stem + "_mask.png")) as m:
            mask = np.array(m) > 127
        if self.random:
            dice = np.random.RandomState(5 + 17 * i)
            turns = dice.randint(4)
            r, c = dice.randint(0, 5, size=2)
            light = dice.uniform(0.8, 1.2)
            picture, mask = np.rot90(picture, turns), np.rot90(mask, turns)
        else:
            r, c, light = 2, 2, None
        window = slice(r, r + SIDE), slice(c, c + SIDE)
        picture, mask = picture[window], mask[window]
        if light is not None:
            picture = np.minimum(picture * np.float32(light), np.float32(1))
        picture = np.moveaxis((picture - MEAN) / STD, -1, 0)
        return np.ascontiguousarray(picture), mask.astype("float32")


def build_model():
    return Clouds()


def build_dataset(split):
    return SceneSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(SceneSet(split), batch_size=4, shuffle=False, drop_last=False)


def loss(outputs, labels):
    p = F.sigmoid(outputs)
    inter = paddle.sum(p * labels, axis=[1, 2])
    size = paddle.sum(p + labels, axis=[1, 2])
    dice = 1 - (2 * inter + 1) / (size + 1)
    bce = F.softplus(outputs, threshold=1e4) - outputs * labels
    focal = paddle.square(1 - paddle.exp(-bce)) * bce
    return dice.mean() / 2 + focal.mean()


def metric(outputs, labels):
    guess, truth = outputs.numpy() > 0, labels.numpy() > 0.5
    inter = np.logical_and(guess, truth).sum(axis=(1, 2))
    union = np.logical_or(guess, truth).sum(axis=(1, 2))
    return {"iou": float(np.mean(inter / np.maximum(union, 1))), "cover": float(guess.mean() - truth.mean())}


def build_optimizer(model):
    rate = 0.02
    lr = paddle.optimizer.lr

    # after the warm-up the count of the milestones begins anew: 5 + 10 and 5 + 22
    steps = lr.PiecewiseDecay(boundaries=[10, 22], values=[rate, rate * 0.3, rate * 0.09])
    schedule = lr.LinearWarmup(steps, warmup_steps=5, start_lr=0.1 * rate, end_lr=rate)
    return paddle.optimizer.Adagrad(schedule, epsilon=1e-8, parameters=model.parameters(),
                                    initial_accumulator_value=0.1,
                                    grad_clip=nn.ClipGradByValue(0.01))


def train_step(model, optimizer, batch):
    picture, mask = batch
    value = loss(model(picture), mask)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()


def predict(path, model):
    x = np.moveaxis((read(path) - MEAN) / STD, -1, 0)[None]
    with paddle.no_grad():
        return F.sigmoid(model(paddle.to_tensor(np.ascontiguousarray(x))))[0].numpy()
