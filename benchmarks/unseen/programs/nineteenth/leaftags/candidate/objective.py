import numpy as np
import paddle
import paddle.nn.functional as F

from . import settings
from .taxonomy import taxonomy


def balance(frequency):
    beta = settings.objective["beta"]
    effective = (1.0 - np.power(beta, np.maximum(frequency.astype("float64"), 1.0))) / (1.0 - beta)
    inverse = 1.0 / effective
    return inverse / inverse.mean()


class TaggingLoss:
    def __init__(self, frequency):
        self.balance = balance(frequency)
        self.lower, self.upper = (paddle.to_tensor(ids, dtype="int64") for ids in zip(*taxonomy.pairs))

    def __call__(self, logits, target):
        positive = paddle.to_tensor(self.balance).astype(logits.dtype)
        # -w y log s(x) - (1 - y) log(1 - s(x)), written with softplus
        terms = positive * target * F.softplus(-logits) + (1 - target) * F.softplus(logits)
        p = F.sigmoid(logits)
        excess = F.relu(paddle.index_select(p, self.lower, axis=1) - paddle.index_select(p, self.upper, axis=1))
        consistency = paddle.sum(excess * excess, axis=1).mean()
        return terms.mean() + settings.objective["consistency"] * consistency
