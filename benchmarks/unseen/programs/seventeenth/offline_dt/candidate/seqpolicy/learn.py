"""What is optimised, and how well it is met."""

import paddle
import paddle.nn.functional as F

from .opts import opts


def over_steps(values, mask):
    return (values * mask).sum() / mask.sum()


def awr(rtg, mask):
    gap = rtg - over_steps(rtg, mask)
    w = paddle.clip(paddle.exp(gap / opts.beta_awr), max=opts.clip_awr)
    return w / over_steps(w, mask)


def huber(error, delta):
    """PyTorch's smooth_l1_loss: quadratic within delta, slope one outside."""
    size = error.abs()
    return paddle.where(size < delta, 0.5 * size * size / delta, size - 0.5 * delta)


def criterion(out, goal):
    mask = goal["mask"]
    squared = paddle.square(out["actions"] - goal["actions"]).mean(axis=2)
    action = over_steps(squared * awr(goal["returns"], mask), mask)
    future = over_steps(huber(out["returns"] - goal["following"], opts.delta), mask)
    return {"loss": action + opts.rtg_coef * future, "action": action, "return": future}


@paddle.no_grad()
def report(out, goal):
    mask = goal["mask"]
    rows = paddle.nonzero(mask.flatten() > 0).flatten()
    a = paddle.gather(out["actions"].flatten(0, 1), rows)
    b = paddle.gather(goal["actions"].flatten(0, 1), rows)
    spread = paddle.square(b - b.mean(axis=0, keepdim=True)).sum(axis=0)
    missed = paddle.square(a - b).sum(axis=0)
    absolute = (out["actions"] - goal["actions"]).abs().mean(axis=2)
    cosine = F.cosine_similarity(a, b, axis=1, eps=1e-6)
    return {
        "mae": (a - b).abs().mean(),
        "mae_window": ((absolute * mask).sum(axis=1) / mask.sum(axis=1)).mean(),
        "r2": paddle.mean(1 - missed / spread),
        "direction": cosine.mean(),
        "return_rmse": paddle.sqrt(over_steps(paddle.square(out["returns"] - goal["following"]), mask)),
    }
