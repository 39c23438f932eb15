"""Dice and focal terms at every scale; scores of hard masks."""
import paddle
import paddle.nn.functional as F

UNKNOWN = 255
STRIDES = ((1, 1, 1), (1, 2, 2))
CLASS_WEIGHTS = (0.5, 1.0, 2.0)
GAMMA = 2.0
SMOOTH = 1e-5


def prepare(logits, label):
    """Mask of known voxels (N, D, H, W) and one-hot labels (N, C, D, H, W), zero where unknown."""
    known = (label != UNKNOWN).astype(logits.dtype)
    filled = paddle.where(label == UNKNOWN, paddle.zeros_like(label), label)
    hot = F.one_hot(filled, logits.shape[1]).astype(logits.dtype).transpose([0, 4, 1, 2, 3])
    return known, hot * known.unsqueeze(1)


def soft_dice(logits, known, hot):
    probability = F.softmax(logits, axis=1) * known.unsqueeze(1)
    dims = [0, 2, 3, 4]
    shared = paddle.sum(probability * hot, axis=dims)
    volume = paddle.sum(paddle.square(probability), axis=dims) + paddle.sum(hot, axis=dims)
    score = (2.0 * shared + SMOOTH) / (volume + SMOOTH)
    return 1.0 - score[1:].mean()


def focal(logits, hot):
    weights = paddle.to_tensor(CLASS_WEIGHTS, dtype=logits.dtype).reshape([1, -1, 1, 1, 1])
    weighted = hot * weights
    log_p = F.log_softmax(logits, axis=1)
    terms = -weighted * (1.0 - log_p.exp()) ** GAMMA * log_p
    return terms.sum() / paddle.clip(weighted.sum(), min=1.0)


def supervise(outputs, label):
    shares = [0.5 ** k for k in range(len(STRIDES))]
    losses = []
    for logits, (d, h, w) in zip(outputs, STRIDES):
        known, hot = prepare(logits, label[:, ::d, ::h, ::w])
        losses.append((soft_dice(logits, known, hot), focal(logits, hot)))
    total = sum(share * (dice + foc) for share, (dice, foc) in zip(shares, losses)) / sum(shares)
    return {"loss": total, "dice": losses[0][0].detach(), "focal": losses[0][1].detach()}


@paddle.no_grad()
def mask_scores(outputs, label):
    full = outputs[0]
    guess = paddle.argmax(full, axis=1)
    known = label != UNKNOWN
    per_class, deviations = [], []
    for c in range(1, full.shape[1]):
        p = paddle.logical_and(guess == c, known)
        t = label == c
        n_p, n_t = int(p.sum()), int(t.sum())
        per_class.append(2.0 * int(paddle.logical_and(p, t).sum()) / (n_p + n_t) if n_p + n_t else None)
        if n_t:
            deviations.append(abs(n_p - n_t) / n_t)
    seen = [d for d in per_class if d is not None]
    right = paddle.logical_and(guess == label, known)
    return {"dice": sum(seen) / len(seen) if seen else float("nan"),
            "organ": 1.0 if per_class[0] is None else per_class[0],
            "volume_error": sum(deviations) / len(deviations) if deviations else 0.0,
            "accuracy": int(right.sum()) / int(known.sum())}
