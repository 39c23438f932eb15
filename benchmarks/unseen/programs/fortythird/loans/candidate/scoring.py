"""Likelihood, order, and the figures for the librarians."""
import paddle
import paddle.nn.functional as F

from .factory import OBJECTIVE


def week_logs(odds):
    """(log chance to stay, log chance of each end), from the odds of ends against staying."""
    nought = paddle.zeros_like(odds[..., :1])
    total = paddle.logsumexp(paddle.concat([nought, odds], axis=-1), axis=-1, keepdim=True)
    return -total[..., 0], odds - total


def gone_by(odds):
    stay, ends = week_logs(odds)
    until = stay.cumsum(axis=1) - stay
    return (until.unsqueeze(-1) + ends).exp().cumsum(axis=1)


def likelihood(odds, week, event):
    stay, ends = week_logs(odds)
    kept = (paddle.arange(odds.shape[1]) < week.unsqueeze(1)).astype(odds.dtype)
    happened = F.one_hot(week, odds.shape[1] + 1)[:, :-1, None] * F.one_hot(event, 4)[:, None, 1:]
    each = (kept * stay).sum(axis=1) + (happened.astype(odds.dtype) * ends).sum(axis=[1, 2])
    return -each.mean()


def ranking(odds, week, event):
    by = gone_by(odds)
    past = paddle.concat([by, by[:, -1:]], axis=1)          # a row for those who outlast the horizon
    at = paddle.gather(past, week, axis=1)                  # [whom, by the week of, end]
    own = paddle.diagonal(at, axis1=0, axis2=1).t()         # [by the week of, end]
    counts = F.one_hot(event, 4)[:, 1:].astype(odds.dtype)  # [by the week of, end]
    later = (week.unsqueeze(1) > week).astype(odds.dtype)
    pairs = later.unsqueeze(-1) * counts
    penalty = paddle.exp((at - own) / OBJECTIVE.getfloat("sigma"))
    return (penalty * pairs).sum() / paddle.clip(pairs.sum(), min=1.0)


def objective(odds, labels):
    week, event = labels.unbind(axis=1)
    fit = OBJECTIVE.getfloat("likelihood") * likelihood(odds, week, event)
    order = OBJECTIVE.getfloat("ranking") * ranking(odds, week, event)
    return {"loss": fit + order, "likelihood": fit, "ranking": order}


@paddle.no_grad()
def figures(odds, labels):
    by = gone_by(odds)
    week, event = labels[:, 0], labels[:, 1]
    last = odds.shape[1] - 1
    at = paddle.gather(by[:, :, 0], paddle.clip(week, max=last), axis=1)
    mine, first = paddle.diagonal(at), (event == 1).astype("float64")
    pairs = (week.unsqueeze(1) > week).astype("float64") * first
    right = (mine > at).astype("float64") + 0.5 * (mine == at).astype("float64")
    ended = event > 0
    early = paddle.logical_and(ended, week <= 3).astype(odds.dtype)
    known = paddle.logical_or(ended, week > 3).astype(odds.dtype)
    wrong = (by[:, 3].sum(axis=-1) - early).square()
    return {"concordance": float((right * pairs).sum() / paddle.clip(pairs.sum(), min=1.0)),
            "brier": float((wrong * known).sum() / known.sum())}
