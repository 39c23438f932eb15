"""Two-fold super-resolution of noisy photographs, Paddle."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import paddle
from paddle.io import DataLoader
from PIL import Image

import pp_patches
import pp_scores
from pp_layers import SharpNet
from pp_settings import get


def build_model():
    return SharpNet()


def build_dataset(split):
    return pp_patches.PatchSet(split)


def build_dataloader(split):
    data = build_dataset(split)
    return DataLoader(data, batch_sampler=pp_patches.Batches(split, data))


def loss(outputs, labels):
    return pp_scores.objective(outputs, labels)


def metric(outputs, labels):
    return pp_scores.report(outputs, labels)


class Cycle(paddle.optimizer.lr.CosineAnnealingWarmRestarts):
    def state_keys(self):
        self.keys = ["last_epoch", "last_lr", "T_cur", "T_i"]


def build_optimizer(model):
    main, side = [], []
    for name, p in model.named_parameters():
        (side if any(tag in name for tag in get("optim.side")) else main).append(p)
    rate = get("optim.rate")
    cycle = Cycle(
        learning_rate=rate,
        T_0=get("optim.cycle.first"),
        T_mult=get("optim.cycle.growth"),
        eta_min=rate * get("optim.cycle.lowest"),
    )
    b1, b2 = get("optim.betas")
    return paddle.optimizer.Adam(
        learning_rate=cycle,
        parameters=[
            {"params": main, "weight_decay": get("optim.l2")},
            {"params": side, "learning_rate": get("optim.side_rate"), "weight_decay": 0.0},
        ],
        beta1=b1,
        beta2=b2,
        epsilon=get("optim.epsilon"),
        grad_clip=paddle.nn.ClipGradByNorm(get("optim.tensor_norm")),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def slices(n, parts):
    size = -(-n // parts)
    return [slice(k, min(k + size, n)) for k in range(0, n, size)]


def train_step(model, optimizer, batch):
    model.train()
    *inputs, high = batch
    n = high.shape[0]
    optimizer.clear_grad()
    pieces, total = [], 0.0
    for cut in slices(n, get("optim.accumulate")):
        out = model(*(t[cut] for t in inputs))
        value = loss(out, high[cut])
        share = out.shape[0] / n
        (value * share).backward()
        total += float(value) * share
        pieces.append(out.numpy())
    largest = max(float(paddle.linalg.norm(p.grad)) for p in model.parameters())
    optimizer.step()
    seen = np.concatenate(pieces).astype("float64")
    return {"loss": total, "psnr": pp_scores.psnr(seen, high.numpy().astype("float64")), "grad_norm": largest}


def predict(path, model):
    model.eval()
    with Image.open(path) as handle:
        rgb = np.array(handle.convert("RGB"), dtype="float64") / 255.0
    x = paddle.to_tensor(pp_patches.whiten(rgb)).unsqueeze(0)
    level = paddle.to_tensor(pp_patches.level_input(get("inference.noise"))).unsqueeze(0)
    views = []
    with paddle.no_grad():
        for axes in get("inference.flips"):
            flip = (lambda t: paddle.flip(t, axis=axes)) if axes else (lambda t: t)
            views.append(flip(model(flip(x), level)).numpy()[0])
    stack = np.stack(views)
    image = np.clip(stack.mean(axis=0), 0.0, 1.0).transpose(1, 2, 0)
    return {
        "image": image,
        "disagreement": float(stack.std(axis=0, ddof=1).mean()),
        "mean_rgb": [float(v) for v in image.reshape(-1, 3).mean(axis=0)],
        "size": f"{image.shape[1]}x{image.shape[0]}",
    }
