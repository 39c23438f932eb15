import numpy as np
import paddle
import paddle.nn.functional as F

from boxes import overlaps


def match(anchors, rows, classes, low=0.4, high=0.5):
    rows = rows[rows[:, 4] >= 0].astype(anchors.dtype)
    table = overlaps(anchors, rows[:, :4])
    best, which = table.max(axis=1), table.argmax(axis=1)
    label = np.where(best >= high, rows[which, 4].astype("int64"), np.where(best < low, classes, -1))
    for k, anchor in enumerate(table.argmax(axis=0)):
        label[anchor], which[anchor] = rows[k, 4], k
    return label, rows[which, :4]


def generalized_iou(a, b):
    ax1, ay1, ax2, ay2 = a.unbind(axis=1)
    bx1, by1, bx2, by2 = b.unbind(axis=1)
    inter_w = F.relu(paddle.minimum(ax2, bx2) - paddle.maximum(ax1, bx1))
    inter_h = F.relu(paddle.minimum(ay2, by2) - paddle.maximum(ay1, by1))
    inter = inter_w * inter_h
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - inter
    hull_w = paddle.maximum(ax2, bx2) - paddle.minimum(ax1, bx1)
    hull_h = paddle.maximum(ay2, by2) - paddle.minimum(ay1, by1)
    hull = hull_w * hull_h
    return inter / union - 1 + union / hull


class DetectionLoss:
    def __init__(self, classes, alpha=0.25, gamma=2, box_weight=2.0):
        self.classes, self.alpha, self.gamma, self.box_weight = classes, alpha, gamma, box_weight

    def __call__(self, out, targets):
        anchors = out["anchors"].numpy()
        pairs = [match(anchors, rows, self.classes) for rows in targets.numpy()]
        label = paddle.to_tensor(np.stack([p[0] for p in pairs]))
        wanted = paddle.to_tensor(np.stack([p[1] for p in pairs]))
        known = label >= 0
        positive = paddle.logical_and(known, label < self.classes)
        onehot = F.one_hot(label[known], self.classes + 1)[:, : self.classes].astype(out["cls"].dtype)
        cls = self.focal(out["cls"][known], onehot)
        box = (1 - generalized_iou(out["boxes"][positive], wanted[positive])).sum()
        count = max(int(positive.sum()), 1)
        return {"loss": (cls + self.box_weight * box) / count, "cls": cls / count, "box": box / count}

    def focal(self, logit, target):
        # written on the logit of the right answer
        sign = 2 * target - 1
        right = logit * sign
        weight = paddle.where(target > 0, paddle.full_like(target, self.alpha), paddle.full_like(target, 1 - self.alpha))
        return (weight * F.sigmoid(-right) ** self.gamma * F.softplus(-right)).sum()
