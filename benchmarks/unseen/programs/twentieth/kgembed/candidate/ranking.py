"""What is minimised and what is reported."""
import paddle
import paddle.nn.functional as F

TEMPERATURE = 0.7
N3_FACTOR = 2e-3


def adversarial_share(neg, usable):
    logits = paddle.where(usable, TEMPERATURE * neg, paddle.full_like(neg, float("-inf")))
    return F.softmax(logits, axis=-1).detach()


def margin_loss(scores, labels):
    w = labels[:, 0]
    neg = scores[:, 1:]
    share = adversarial_share(neg, labels[:, 1:] > 0)
    pull = F.softplus(-scores[:, 0])
    push = (share * F.softplus(neg)).sum(axis=1)
    return (w * (pull + push)).sum() / w.sum() * 0.5


def cubic_penalty(net):
    modulus = paddle.stack(paddle.split(net.ent, 2, axis=-1)).square().sum(axis=0) + 1e-12
    return N3_FACTOR * (modulus ** 1.5).sum(axis=-1).mean()


def ranks(scores, labels):
    target = scores[:, 0:1]
    usable = (labels[:, 1:] > 0).astype(scores.dtype)
    better = (usable * (scores[:, 1:] > target).astype(scores.dtype)).sum(axis=1)
    ties = (usable * (scores[:, 1:] == target).astype(scores.dtype)).sum(axis=1)
    return better + ties / 2 + 1, usable.sum(axis=1)


def summary(scores, labels):
    with paddle.no_grad():
        rank, n = ranks(scores, labels)
        hits = {f"hits{k}": (rank <= k).astype(scores.dtype).mean() for k in (1, 3)}
        return {"mrr": paddle.reciprocal(rank).mean(), **hits,
                "amri": 1 - (rank - 1).sum() / (n / 2).sum()}
