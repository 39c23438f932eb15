import numpy as np
import paddle
import paddle.nn.functional as F

from settings import Settings
from transformer import SparseDecoder


def build_model():
    return SparseDecoder(Settings())


def loss(out, y):
    n = out["logits"].shape[-1]
    ce = F.cross_entropy(out["logits"].reshape([-1, n]), y.flatten())
    return {"loss": ce + 0.02 * out["aux"] + 0.001 * out["z"], "ce": ce}


def metric(out, y):
    guess, gold = out["logits"].numpy().argmax(-1).ravel() // 12, y.numpy().ravel() // 12
    classes, support = np.unique(gold, return_counts=True)
    hits = np.array([np.sum((guess == c) & (gold == c)) for c in classes])
    predicted = np.array([np.sum(guess == c) for c in classes])
    f1 = 2.0 * hits / (support + predicted)
    return {"weighted_f1": float(np.average(f1, weights=support)), "acc": float(np.mean(guess == gold))}


def build_optimizer(model):
    schedule = paddle.optimizer.lr.OneCycleLR(
        max_learning_rate=2e-3, total_steps=16, phase_pct=0.25, end_learning_rate=2e-3 / 25 / 1e4)
    router = [p for n, p in model.named_parameters() if "router" in n]
    known = {id(p) for p in router}
    plain = [p for n, p in model.named_parameters() if id(p) not in known and (len(p.shape) < 2 or n.startswith("tokens"))]
    known |= {id(p) for p in plain}
    matrices = [p for p in model.parameters() if id(p) not in known]
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        beta2=0.95,
        parameters=[
            {"params": matrices, "weight_decay": 0.1},
            {"params": plain, "weight_decay": 0.0},
            {"params": router, "weight_decay": 0.0, "learning_rate": 0.2},
        ],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate
