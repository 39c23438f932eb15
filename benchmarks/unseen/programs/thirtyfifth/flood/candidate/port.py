"""Paddle port of the flood mapper."""
import os
import re

import numpy as np
import paddle
import paddle.nn.functional as F
from PIL import Image

from flood_pd.network import WithEMA

VOID = 255
CHANNEL_MEAN = np.float32([0.45, 0.45, 0.42]).reshape(3, 1, 1)
CHANNEL_STD = np.float32([0.2, 0.2, 0.22]).reshape(3, 1, 1)


def build_model():
    return WithEMA(decay=0.97)


def loss(outputs, labels):
    ok = (labels != VOID).astype(outputs.dtype)
    wet = (labels == 1).astype(outputs.dtype)
    # -(2.5 y log s(z) + (1 - y) log s(-z))
    pixel = -(2.5 * wet * F.log_sigmoid(outputs) + (1.0 - wet) * F.log_sigmoid(-outputs))
    bce = paddle.sum(pixel * ok) / paddle.sum(ok)
    prob = (F.sigmoid(outputs) * ok).flatten(1)
    truth = wet.flatten(1)
    top = 2.0 * paddle.sum(prob * truth, axis=1) + 1.0
    bottom = prob.sum(axis=1) + truth.sum(axis=1) + 1.0
    return bce + 0.5 * paddle.mean(1.0 - top / bottom)


def metric(outputs, labels):
    y, z = labels.numpy().ravel(), outputs.numpy().ravel()
    guess, wet = (z > 0)[y != VOID].astype(int), (y == 1)[y != VOID].astype(int)
    _, fp, fn, tp = (int(c) for c in np.bincount(2 * wet + guess, minlength=4))
    return {"iou": tp / max(tp + fp + fn, 1), "f1": 2 * tp / max(2 * tp + fp + fn, 1),
            "area_error": float(abs(guess.mean() - wet.mean()))}


def load_rgb(path):
    with Image.open(path) as im:
        return np.array(im.convert("RGB")).astype("float32") / 255


def to_chw(x):
    return ((np.moveaxis(x, -1, 0) - CHANNEL_MEAN) / CHANNEL_STD).astype("float32")


class FloodPairs(paddle.io.Dataset):
    def __init__(self, split):
        ids = sorted(m.group(1) for m in (re.fullmatch(r"(\d+)_mask\.png", f) for f in os.listdir("data")) if m)
        self.ids = ids[3::4] if split == "val" else [n for k, n in enumerate(ids) if k % 4 != 3]
        self.augment = split == "train"

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        stack = [load_rgb(f"data/{self.ids[k]}_{w}.png") for w in ("before", "after")]
        with Image.open(f"data/{self.ids[k]}_mask.png") as im:
            stack.append(np.array(im, dtype="int64"))
        if self.augment:
            rs = np.random.RandomState(300 + k)
            if rs.rand() < 0.5:
                stack = [np.fliplr(a) for a in stack]
            turns = rs.randint(4)
            stack = [np.rot90(a, turns, axes=(0, 1)) for a in stack]
            gain, shift = np.float32(rs.uniform(0.85, 1.15)), np.float32(rs.uniform(-0.05, 0.05))
            stack[1] = np.clip(gain * stack[1] + shift, 0.0, 1.0)
        return to_chw(stack[0]), to_chw(stack[1]), stack[2].copy()


def build_dataset(split):
    return FloodPairs(split)


def build_dataloader(split):
    return paddle.io.DataLoader(FloodPairs(split), batch_size=4, shuffle=False)


def poly(step, warm=4, total=36):
    return min(1.0, 0.25 + 0.75 * step / warm) * max(0.0, 1.0 - step / total) ** 0.9


def build_optimizer(model):
    head = model.net.head.parameters()
    others = [p for n, p in model.net.named_parameters() if not n.startswith("head")]
    return paddle.optimizer.Momentum(
        learning_rate=paddle.optimizer.lr.LambdaDecay(0.05, poly), momentum=0.75,
        parameters=[{"params": [p for p in others if len(p.shape) > 1], "weight_decay": 2 ** -9},
                    {"params": [p for p in others if len(p.shape) == 1]},
                    {"params": head, "learning_rate": 4.0, "weight_decay": 2 ** -9}])


def train_step(model, optimizer, batch):
    before, after, mask = batch
    value = loss(model(before, after), mask)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    model.update_shadow()
    return value


def predict(path, model):
    files = (path.replace("after", "before"), path)
    x = [paddle.to_tensor(to_chw(load_rgb(f))[None]).astype(model.net.lift.weight.dtype) for f in files]
    with paddle.no_grad():
        logits = model.shadow(*x).numpy()[0]
    return {"probability": 1 / (1 + np.exp(-logits)), "wet": float(np.mean(logits > 0))}
