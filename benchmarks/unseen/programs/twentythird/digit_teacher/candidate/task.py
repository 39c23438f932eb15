"""Mean-teacher digits, Paddle side."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import paddle  # noqa: E402
import paddle.nn.functional as F  # noqa: E402
from criteria import loss, metric  # noqa: E402,F401
from network import MeanTeacher  # noqa: E402
from schedule import build_optimizer, build_scheduler  # noqa: E402,F401
from updating import accumulate, clip, follow  # noqa: E402
from views import Pairs, make_loader, standardise  # noqa: E402

SHIFTS = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]


def build_model():
    return MeanTeacher()


def build_dataset(split):
    return Pairs(split)


def build_dataloader(split):
    return make_loader(split)


def train_step(model, optimizer, batch):
    model.train()
    logs = accumulate(model, batch)
    logs["grad_norm"] = clip(model.student.parameters())
    optimizer.step()
    optimizer.clear_grad()
    follow(model)
    return logs


def predict(path, model):
    model.eval()
    imgs = standardise(np.load(path))
    views = np.stack([np.roll(imgs, s, axis=(1, 2)) for s in SHIFTS])
    s, n = views.shape[:2]
    with paddle.no_grad():
        logits = model.teacher(paddle.to_tensor(views.reshape(s * n, 1, 8, 8)))
        probs = F.softmax(logits, axis=-1).reshape([s, n, -1]).mean(axis=0).numpy()
    best = probs.argmax(axis=1)
    entropy = -(probs * np.log(probs + 1e-8)).sum(axis=1)
    return {"probs": probs, "entropy": entropy, "digit": best, "text": "".join(map(str, best.tolist()))}
