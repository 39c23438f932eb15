import numpy as np
import paddle
from paddle.nn import functional as F

from .tokens import IGNORE_INDEX


class SmoothedObjective:
    def __init__(self, smoothing=0.1, z_weight=1e-2):
        self.smoothing = smoothing
        self.z_weight = z_weight

    def __call__(self, outputs, labels):
        classes = outputs.shape[-1]
        valid = labels != IGNORE_INDEX
        mask = valid.astype(outputs.dtype)
        count = mask.sum()
        safe = paddle.where(valid, labels, paddle.zeros_like(labels))
        soft = F.label_smooth(F.one_hot(safe, classes).astype(outputs.dtype), epsilon=self.smoothing)
        per_token = F.cross_entropy(outputs, soft, soft_label=True, reduction="none").squeeze(-1)
        ce = (per_token * mask).sum() / count
        z = (paddle.logsumexp(outputs, axis=-1).square() * mask).sum() / count
        return {"loss": ce + self.z_weight * z, "ce": ce, "z": z}


def score(outputs, labels):
    logits = outputs.numpy().astype("float64")
    gold = labels.numpy()
    valid = gold != IGNORE_INDEX
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_z = np.log(np.exp(shifted).sum(axis=-1))
    nll = log_z - np.take_along_axis(shifted, np.where(valid, gold, 0)[..., None], axis=-1)[..., 0]
    total = max(int(valid.sum()), 1)
    correct = logits.argmax(axis=-1) == gold
    return {
        "perplexity": float(np.exp((nll * valid).sum() / total)),
        "accuracy": float((correct & valid).sum() / total),
        "rows": float(np.mean([c[v].all() for c, v in zip(correct, valid)])),
    }
