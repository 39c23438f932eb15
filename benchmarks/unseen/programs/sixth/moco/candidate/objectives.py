import math

import numpy as np
import paddle
import paddle.nn.functional as F

SCALE, MARGIN, SMOOTHING, SHARE = 12.0, 0.35, 0.1, 0.5


def contrastive(logits):
    """The pair stands in column 0."""
    return (paddle.logsumexp(logits, axis=1) - logits[:, 0]).mean()


def angular_margin(cosine, labels, scale=SCALE, margin=MARGIN, smoothing=SMOOTHING):
    classes = cosine.shape[1]
    truth = F.one_hot(labels, classes).astype(cosine.dtype)
    angle = paddle.acos(cosine.clip(-1 + 1e-7, 1 - 1e-7))
    pushed = paddle.cos(angle + margin)
    linear = cosine - margin * math.sin(margin)
    pushed = paddle.where(angle < math.pi - margin, pushed, linear)
    scores = scale * paddle.where(truth > 0, pushed, cosine)
    soft = F.label_smooth(truth, epsilon=smoothing)
    return F.cross_entropy(scores, soft, soft_label=True)


def objective(outputs, labels):
    labels = labels.flatten()
    return contrastive(outputs["logits"]) + SHARE * angular_margin(outputs["cosine"], labels)


def retrieval(outputs, labels):
    query, labels = outputs["q"].numpy(), labels.numpy().ravel()
    firsts, threes, precisions = [], [], []
    for i in range(len(query)):
        others = [j for j in range(len(query)) if j != i]
        others.sort(key=lambda j: -float(query[i] @ query[j]))
        hits = labels[others] == labels[i]
        if not hits.any():
            continue
        places = np.flatnonzero(hits)
        firsts.append(hits[0])
        threes.append(hits[:3].any())
        precisions.append(np.mean((np.arange(len(places)) + 1) / (places + 1)))
    return {
        "contrast_acc": float((outputs["logits"].numpy().argmax(axis=1) == 0).mean()),
        "recall1": float(np.mean(firsts)),
        "recall3": float(np.mean(threes)),
        "map": float(np.mean(precisions)),
        "center_acc": float((outputs["cosine"].numpy().argmax(axis=1) == labels).mean()),
    }
