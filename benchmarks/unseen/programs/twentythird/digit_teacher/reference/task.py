"""Mean-teacher digits: entry points."""
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from accumulate import accumulate, clip  # noqa: E402
from digits_io import TwoViews, loader, scale  # noqa: E402
from ema import Averager  # noqa: E402
from nets import MeanTeacher  # noqa: E402
from objective import loss, metric  # noqa: E402,F401
from optim import build_optimizer, build_scheduler  # noqa: E402,F401

averager = Averager()


def build_model():
    return MeanTeacher()


def build_dataset(split):
    return TwoViews(split)


def build_dataloader(split):
    return loader(split)


def train_step(model, optimizer, batch):
    model.train()
    optimizer.zero_grad()
    logs = accumulate(model, batch)
    logs["grad_norm"] = clip(model)
    optimizer.step()
    averager.update(model)
    return logs


@torch.no_grad()
def predict(path, model):
    """Digits of a stack of scans; the teacher answers, averaged over five shifts."""
    model.eval()
    imgs = scale(np.load(path))
    probs = 0.0
    for dy, dx in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)):
        x = torch.from_numpy(np.roll(imgs, (dy, dx), axis=(1, 2))).unsqueeze(1)
        probs = probs + torch.softmax(model.teacher(x), dim=1)
    probs = (probs / 5).numpy()
    best = probs.argmax(axis=1)
    entropy = -(probs * np.log(probs + 1e-8)).sum(axis=1)
    return {"probs": probs, "entropy": entropy, "digit": best, "text": "".join(str(d) for d in best)}
