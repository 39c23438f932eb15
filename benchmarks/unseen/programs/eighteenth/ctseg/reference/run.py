import itertools

import numpy as np
import torch
from scipy import ndimage

from . import data, solver, unet  # noqa: F401
from .losses import hard_scores
from .registry import CONFIG, build

criterion = build("loss")
INFER = CONFIG["inference"]


def build_model():
    return build("network")


def build_dataset(split):
    return data.Patches(split)


def build_dataloader(split):
    return data.loader(split)


def transforms(split):
    return data.transforms(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return hard_scores(outputs, labels)


build_optimizer = solver.build_optimizer
build_scheduler = solver.build_scheduler


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    result = criterion(model(batch["image"]), batch["label"])
    result["loss"].backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), solver.CFG["clip"])
    optimizer.step()
    optimizer.ema.update(model)
    return {**{k: v.detach() for k, v in result.items()}, "ema_distance": optimizer.ema.distance(model)}


def gaussian_map(patch):
    peak = np.zeros(patch)
    peak[tuple(p // 2 for p in patch)] = 1
    weight = ndimage.gaussian_filter(peak, [p * INFER["sigma"] for p in patch], mode="constant")
    weight /= weight.max()
    return np.maximum(weight, weight[weight > 0].min())


def steps(n, p):
    """Starts of windows: evenly spread, at most (1 - overlap) of a patch apart."""
    count = int(np.ceil((n - p) / (p * (1 - INFER["overlap"])))) + 1
    return np.round(np.linspace(0, n - p, count)).astype(int).tolist()


def clean(mask):
    """Largest organ component, with its holes filled; small lesions go."""
    parts, count = ndimage.label(mask > 0)
    if count:
        sizes = np.bincount(parts.ravel())[1:]
        keep = parts == 1 + int(np.argmax(sizes))
        mask = np.where(keep, mask, 0)
        filled = ndimage.binary_fill_holes(keep)
        mask = np.where(filled & (mask == 0), 1, mask)
    parts, count = ndimage.label(mask == 2, structure=np.ones((3, 3, 3)))
    for i in range(1, count + 1):
        if (parts == i).sum() < INFER["smallest"]:
            mask = np.where(parts == i, 1, mask)
    return mask


@torch.no_grad()
def predict(path, model):
    case = np.load(path)
    image = case["image"].astype(np.float64)
    low, high = CONFIG["data"]["window"]
    inside = image[(image > low) & (image < high)]
    image = (image.clip(low, high) - inside.mean()) / max(inside.std(ddof=1), 1.0)
    patch = CONFIG["data"]["patch"]
    margins = [max(0, p - n) for p, n in zip(patch, image.shape)]
    before = [m // 2 for m in margins]
    image = np.pad(image, [(b, m - b) for b, m in zip(before, margins)], mode="edge")
    dtype = next(model.parameters()).dtype
    volume = torch.from_numpy(image).to(dtype)[None, None]
    weight = torch.from_numpy(gaussian_map(patch)).to(dtype)
    total = torch.zeros(CONFIG["network"]["classes"], *image.shape, dtype=dtype)
    norm = torch.zeros(image.shape, dtype=dtype)
    for start in itertools.product(*(steps(n, p) for n, p in zip(image.shape, patch))):
        box = tuple(slice(s, s + p) for s, p in zip(start, patch))
        x = volume[(..., *box)]
        probs = (model(x)[0].softmax(1) + model(x.flip(-1))[0].softmax(1).flip(-1)) / 2
        total[(slice(None), *box)] += probs[0] * weight
        norm[box] += weight
    probs = (total / norm).numpy()
    inner = tuple(slice(b, b + n) for b, n in zip(before, case["image"].shape))
    probs = probs[(slice(None), *inner)]
    mask = probs.argmax(0)
    mask[(mask > 0) & (probs[2] > INFER["lesion_threshold"])] = 2
    mask = clean(mask)
    ml = np.bincount(mask.ravel(), minlength=3)[1:] * float(np.prod(case["spacing"])) / 1000.0
    return {"probabilities": probs, "mask": mask.astype(np.int64), "ml": ml}
