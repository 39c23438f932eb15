"""Likelihoods of durations (all pairwise, without loops over times)."""
import paddle
import paddle.nn.functional as F

from .network import CUTS


def bins(time):
    return paddle.searchsorted(paddle.to_tensor(CUTS, dtype=time.dtype), time, right=False)


def partial_likelihood(risk, time, event):
    """Efron's form, one term per event."""
    top = paddle.max(risk).detach()
    hazard = paddle.exp(risk - top)
    happened = event > 0
    later = (time.unsqueeze(0) >= time.unsqueeze(1)).astype(risk.dtype)
    tied = paddle.logical_and(time.unsqueeze(0) == time.unsqueeze(1), happened.unsqueeze(0)).astype(risk.dtype)
    place = paddle.sum(paddle.tril(tied, diagonal=-1), axis=1)  # how many of the tied came before
    number = paddle.clip(tied.sum(axis=1), min=1.0)
    rest = paddle.matmul(later, hazard) - place / number * paddle.matmul(tied, hazard)
    terms = risk - top - paddle.log(rest)
    flags = happened.astype(risk.dtype)
    terms = paddle.where(happened, terms, paddle.zeros_like(terms))
    return -terms.sum() / paddle.clip(flags.sum(), min=1.0)


def interval_likelihood(logits, time, event):
    index = bins(time)
    log_event, log_survive = F.log_sigmoid(logits), F.log_sigmoid(-logits)
    here = F.one_hot(index, logits.shape[1]).astype(logits.dtype)
    earlier = (paddle.arange(logits.shape[1]).unsqueeze(0) < index.unsqueeze(1)).astype(logits.dtype)
    survived = paddle.sum(log_survive * earlier, axis=1)
    last = paddle.where(event > 0, paddle.sum(log_event * here, axis=1), 0.5 * paddle.sum(log_survive * here, axis=1))
    return -paddle.mean(survived + last)


def order_penalty(logits, time, event, sigma=0.2):
    incidence = 1.0 - paddle.cumprod(1.0 - F.sigmoid(logits), dim=1)
    picked = paddle.matmul(F.one_hot(bins(time), logits.shape[1]).astype(logits.dtype), incidence, transpose_y=True)
    own = paddle.diagonal(picked).unsqueeze(1)
    pairs = paddle.logical_and(time.unsqueeze(1) < time.unsqueeze(0), (event > 0).unsqueeze(1)).astype(logits.dtype)
    return paddle.sum(paddle.exp((picked - own) / sigma) * pairs) / paddle.clip(pairs.sum(), min=1.0)


def total_loss(outputs, target):
    time, event = paddle.unbind(target, axis=1)
    cox = partial_likelihood(outputs["risk"], time, event)
    nll = interval_likelihood(outputs["hazard"], time, event)
    rank = order_penalty(outputs["hazard"], time, event)
    return {"loss": cox + 0.5 * nll + 0.2 * rank, "cox": cox.detach(), "nll": nll.detach(), "rank": rank.detach()}
