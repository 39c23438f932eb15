import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from bijectors import Affine, MaskedAffine, Plu

CLASSES = 3


class Chain(nn.Layer):
    def __init__(self, size=6, levels=3):
        super().__init__()
        self.size = size
        self.affine = nn.LayerList([Affine(size) for _ in range(levels)])
        self.mixing = nn.LayerList([Plu(size, seed) for seed in range(levels)])
        self.coupling = nn.LayerList([MaskedAffine(size, 16, start=(i + 1) % 2) for i in range(levels)])
        self.log_prior = self.create_parameter([CLASSES], is_bias=True)
        self.register_buffer("centres", 1.5 * paddle.eye(CLASSES, size))

    def stages(self):
        for triple in zip(self.affine, self.mixing, self.coupling):
            yield from triple

    def forward(self, x):
        y = F.sigmoid(x) * 0.9 + 0.05
        log_det = -(paddle.log(y) + paddle.log(1 - y)).sum(axis=1)
        z = paddle.log(y / (1 - y))
        for f in self.stages():
            z, change = f.forward(z)
            log_det = log_det + change
        dist = paddle.square(z.unsqueeze(1) - self.centres).sum(axis=2)
        log_base = -0.5 * (dist + self.size * math.log(2 * math.pi))
        joint = log_base + log_det.unsqueeze(1) + F.log_softmax(self.log_prior, axis=-1)
        back = z
        for f in list(self.stages())[::-1]:
            back = f.backward_map(back)
        return {"z": z, "log_det": log_det, "joint": joint, "back": back}


def build_model():
    return Chain()


def bits_per_dim(joint, size=6):
    return -paddle.logsumexp(joint, axis=1) / (size * math.log(2.0))


def loss(out, y):
    joint = out["joint"]
    soft = F.label_smooth(F.one_hot(y, CLASSES).astype(joint.dtype), epsilon=0.1)
    ce = F.cross_entropy(joint, soft, soft_label=True)
    return bits_per_dim(joint).mean() + 0.3 * ce


def metric(out, y):
    p = F.softmax(out["joint"], axis=1).numpy()
    right = (p.argmax(axis=1) == y.numpy()).astype(p.dtype)
    confidence = p.max(axis=1)
    edges = np.arange(0, 1, 0.2)
    gap = 0.0
    for low in edges:
        inside = (confidence > low) & (confidence <= low + 0.2)
        if inside.sum():
            gap += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return {"acc": float(right.mean()), "ece": float(gap), "bpd": float(bits_per_dim(out["joint"]).mean())}


def build_optimizer(model):
    groups = {True: [], False: []}
    for name, p in model.named_parameters():
        groups[name.endswith(".weight")].append(p)
    return paddle.optimizer.NAdam(
        learning_rate=2e-3,
        parameters=[
            {"params": groups[True], "weight_decay": 1e-2},
            {"params": groups[False], "weight_decay": 0.0},
        ],
    )
