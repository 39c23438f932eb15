import paddle
import paddle.nn.functional as F


def _pick(logits, index):
    return paddle.take_along_axis(logits, index, axis=-1)


def _usable(target, negatives):
    same = negatives == target.unsqueeze(-1)
    return paddle.logical_not(paddle.logical_or(same, negatives == 0))


def _average(values, weight):
    return (values * weight).sum() / paddle.clip(weight.sum(), min=1.0)


def sampled_softmax(logits, labels, temperature=1.0):
    target, negatives = labels["target"], labels["negatives"]
    positive = _pick(logits, target.unsqueeze(-1))
    others = _pick(logits, negatives)
    others = paddle.where(
        _usable(target, negatives), others, paddle.full_like(others, -1e9)
    )
    scores = paddle.concat([positive, others], axis=-1) / temperature
    surprise = paddle.logsumexp(scores, axis=-1) - scores[:, :, 0]
    return _average(surprise, (target != 0).astype(surprise.dtype))


def bpr(logits, labels, temperature=1.0):
    target, negatives = labels["target"], labels["negatives"]
    margin = _pick(logits, target.unsqueeze(-1)) - _pick(logits, negatives)
    counted = paddle.logical_and(
        _usable(target, negatives), (target != 0).unsqueeze(-1)
    )
    return _average(-F.log_sigmoid(margin), counted.astype(logits.dtype))


KINDS = {"sampled_softmax": sampled_softmax, "bpr": bpr}


def objective(logits, labels, settings):
    return KINDS[settings.kind](logits, labels, temperature=settings.temperature)


def ranks(logits, labels):
    final = logits[:, -1, :]
    target = labels["target"][:, -1].unsqueeze(-1)
    negatives = labels["negatives"][:, -1, :]
    better = _pick(final, negatives) > _pick(final, target)
    counted = paddle.logical_and(better, negatives != target)
    counted = paddle.logical_and(counted, negatives != 0)
    return counted.astype("float64").sum(axis=-1)


def ranking(logits, labels, cutoff):
    with paddle.no_grad():
        rank = ranks(logits, labels)
        inside = (rank < cutoff).astype("float64")
        return {
            f"hr@{cutoff}": float(inside.mean()),
            f"ndcg@{cutoff}": float((inside / paddle.log2(rank + 2.0)).mean()),
            "mrr": float((1.0 / (rank + 1.0)).mean()),
        }
