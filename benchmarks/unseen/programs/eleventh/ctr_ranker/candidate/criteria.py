# -*- coding: utf-8 -*-
import paddle
from paddle import nn
from paddle.nn import functional as F


class ListwiseSoftmax(nn.Layer):
    """Which of the batch's items belongs to this user? Corrected for popular items."""

    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, user, item, target):
        logits = paddle.matmul(user, item, transpose_y=True) / self.temperature
        logits = logits - target["logq"].astype(logits.dtype).unsqueeze(0)
        n = logits.shape[0]
        ids = target["item"]
        twin = paddle.logical_and(ids.unsqueeze(1) == ids.unsqueeze(0), paddle.eye(n) == 0)
        logits = paddle.where(twin, paddle.full_like(logits, -1e4), logits)
        picked = paddle.diagonal(F.log_softmax(logits, axis=1))
        click = target["click"].astype(logits.dtype)
        return -paddle.sum(picked * click) / paddle.clip(click.sum(), min=1.0)


class PairwiseRanking(nn.Layer):
    def forward(self, score, target):
        click, session = target["click"], target["session"]
        inside = session.unsqueeze(1) == session.unsqueeze(0)
        better = click.unsqueeze(1) > click.unsqueeze(0)
        weight = paddle.logical_and(inside, better).astype(score.dtype)
        cost = F.softplus(score.unsqueeze(0) - score.unsqueeze(1))
        return (cost * weight).sum() / paddle.clip(weight.sum(), min=1.0)


class RankerLoss(nn.Layer):
    def __init__(self, pos_weight, softmax, temperature, bpr, l2):
        super().__init__()
        self.pos_weight = pos_weight
        self.listwise = ListwiseSoftmax(temperature)
        self.pairwise = PairwiseRanking()
        self.scale = dict(softmax=softmax, bpr=bpr, l2=l2)

    def forward(self, outputs, target):
        score = outputs["logit"]
        terms = {
            "click": F.binary_cross_entropy_with_logits(
                score,
                target["click"].astype(score.dtype),
                pos_weight=paddle.full([1], self.pos_weight, dtype=score.dtype),
            ),
            "softmax": self.listwise(outputs["user"], outputs["item"], target),
            "bpr": self.pairwise(score, target),
            "l2": paddle.mean(outputs["norm"]),
        }
        terms["loss"] = terms["click"] + sum(self.scale[k] * terms[k] for k in self.scale)
        return terms
