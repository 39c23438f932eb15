"""Entry points of the Paddle port of the wing landmark trainer."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import paddle
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))

from judging import scores, total_loss  # noqa: E402
from network import WingNet  # noqa: E402
from settings import OPTIM, POINTS, SCHEDULE, SCORE, SIZE  # noqa: E402
from wings_data import Wings, contrast, loader, moved, whiten  # noqa: E402


def build_model():
    return WingNet()


def build_dataset(split):
    return Wings(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    return total_loss(outputs, labels)


def metric(outputs, labels):
    return scores(outputs, labels)


def sort_parameters(model):
    groups = {"body": [], "plain": [], "head": []}
    for name, p in model.named_parameters():
        if name.split(".")[0] in ("heat", "vis1", "vis2"):
            groups["head"].append(p)
        else:
            groups["body" if p.ndim > 1 else "plain"].append(p)
    return groups


def build_optimizer(model):
    decay = OPTIM["decay"]
    groups = []
    for kind, members in sort_parameters(model).items():
        group = {"params": members, "weight_decay": decay[kind]}
        if kind == "head":
            group["learning_rate"] = OPTIM["head_factor"]
        groups.append(group)
    steps = SCHEDULE["epochs"] * SCHEDULE["steps"] - SCHEDULE["warm"]
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(OPTIM["lr"], T_max=steps)
    rate = paddle.optimizer.lr.LinearWarmup(
        cosine, warmup_steps=SCHEDULE["warm"],
        start_lr=SCHEDULE["first"] * OPTIM["lr"], end_lr=OPTIM["lr"])
    beta1, beta2 = OPTIM["betas"]
    return paddle.optimizer.AdamW(
        learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=OPTIM["eps"], parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def clip_group(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(float((g * g).sum()) for g in grads))
    factor = min(limit / (norm + 1e-6), 1.0)
    with paddle.no_grad():
        for g in grads:
            g.scale_(factor)
    return norm


def train_step(model, optimizer, batch):
    model.train()
    image, labels = batch
    parts = loss(model(image), labels)
    optimizer.clear_grad()
    parts["loss"].backward()
    stem = list(model.stem.parameters())
    known = {id(p) for p in stem}
    stem_norm = clip_group(stem, OPTIM["clip"]["stem"])
    rest_norm = clip_group([p for p in model.parameters() if id(p) not in known], OPTIM["clip"]["rest"])
    optimizer.step()
    with paddle.no_grad():
        model.sharp.set_value(paddle.clip(model.sharp, max=math.log(OPTIM["sharp_max"])))
    return {"loss": float(parts["loss"]), "coord": float(parts["coord"]),
            "stem_norm": stem_norm, "rest_norm": rest_norm}


def predict(path, model):
    path = Path(path)
    note = json.loads(path.read_text())
    picture = Image.open(path.parent / note["image"])
    small = np.asarray(picture.resize((SIZE, SIZE), Image.BILINEAR)) / 255.0
    mirrored = note["side"] == "L"
    if mirrored:
        small = np.fliplr(small)
    small = contrast(small)
    views = ((0, 0), (2, 0), (-2, 0), (0, 2), (0, -2))
    stack = whiten(np.stack([moved(small, dx, dy, 2) for dx, dy in views]))
    before = model.training
    model.eval()
    with paddle.no_grad():
        out = model(paddle.to_tensor(stack[:, None]))
        prob = paddle.nn.functional.sigmoid(out["vis"]).mean(axis=0).numpy()
    if before:
        model.train()
    raw = out["xy"].numpy()
    back = raw.astype("float64") - np.asarray(views)[:, None, :] / SIZE
    point = np.median(back, axis=0)
    if mirrored:
        point[:, 0] = 1 - point[:, 0]
    return {"pixels": point * np.asarray(picture.size) - 0.5,
            "visible": prob,
            "names": [n for n, p in zip(POINTS, prob) if p > SCORE["visible"]],
            "spread": raw.std(axis=0)}
