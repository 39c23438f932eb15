import paddle
import paddle.nn.functional as F

from .catalogue import SETTINGS, offers

FAR = 1e7


@offers("criterion", "circle")
def circle(scores, truth):
    """log(1 + sum of exp) over wrong spans, and over true ones with the sign turned."""
    s, t = scores.flatten(2), truth.flatten(2)
    nought = paddle.zeros_like(s[:, :, :1])
    wrong = paddle.where(t > 0, -s - FAR, s)
    true = paddle.where(t > 0, -s, s - FAR)
    push = paddle.logsumexp(paddle.concat([nought, wrong], axis=2), axis=2)
    pull = paddle.logsumexp(paddle.concat([nought, true], axis=2), axis=2)
    return paddle.mean(push + pull)


def one_at_least(x):
    return paddle.clip(x, min=1.0)


def figures(scores, truth):
    s, t = scores.flatten(2), truth.flatten(2)
    chosen = (s > 0).astype(s.dtype)
    right, wanted = (chosen * t).sum(axis=[0, 2]), t.sum(axis=[0, 2])
    top = F.one_hot(paddle.argmax(s, axis=2), s.shape[2]).astype(s.dtype)
    hit = (top * t).sum()
    there = t.max(axis=2).sum()
    result = dict(
        f1=2 * right.sum() / one_at_least(chosen.sum() + wanted.sum()),
        best=hit / one_at_least(there),
        margin=(s * t).sum() / one_at_least(wanted.sum()),
    )
    for name, value in zip(SETTINGS["fields"], right / one_at_least(wanted)):
        result[f"recall_{name}"] = value
    return result
