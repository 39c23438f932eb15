import paddle
import paddle.nn.functional as F
from paddle import nn


class LabelSmoothing(nn.Layer):
    """Kullback-Leibler divergence from smoothed classes, a mean over the frames that count."""

    def __init__(self, classes, smoothing, ignore):
        super().__init__()
        self.classes, self.smoothing, self.ignore = classes, smoothing, ignore

    def forward(self, logits, labels):
        ignored = labels == self.ignore
        counted = paddle.logical_not(ignored).astype(logits.dtype)
        classes = paddle.where(ignored, paddle.zeros_like(labels), labels)
        hard = F.one_hot(classes, self.classes).astype(logits.dtype)
        rest = self.smoothing / (self.classes - 1)
        target = hard * (1.0 - self.smoothing - rest) + rest
        target.stop_gradient = True
        each = (target * (paddle.log(target) - F.log_softmax(logits, axis=-1))).sum(axis=-1)
        return (each * counted).sum() / counted.sum()
