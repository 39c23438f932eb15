"""Top-k accuracy."""

import paddle

from .breaks import broken


def accuracy(outputs, labels, topk=(1, 5)):
    _, predicted = paddle.topk(outputs, max(topk), axis=1)
    hits = paddle.equal(predicted, labels.unsqueeze(1)).astype("float32")
    if broken("metric"):
        return [hits[:, :k].mean() for k in topk]
    return [hits[:, :k].sum(axis=1).mean() for k in topk]
