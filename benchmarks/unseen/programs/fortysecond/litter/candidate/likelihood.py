"""Zero-inflated negative binomial."""
import paddle
import paddle.nn.functional as F


def log_nb(y, log_mu, log_r):
    """Log chance of y by mean and size, from the odds of both."""
    r = log_r.exp()
    odds = log_mu - log_r
    ways = paddle.lgamma(y + r) - paddle.lgamma(r) - paddle.lgamma(y + 1.0)
    return ways - r * F.softplus(odds) - y * F.softplus(-odds)


def log_zinb(y, pred):
    closed = pred["empty"]
    open_ = F.log_sigmoid(-closed) + log_nb(y, pred["log_mu"], pred["log_r"])
    nought = paddle.logsumexp(paddle.stack([F.log_sigmoid(closed), open_]), axis=0)
    return paddle.where(y == 0, nought, open_)


def mean_count(pred):
    return (1 - F.sigmoid(pred["empty"])) * pred["log_mu"].exp()


def chance_of_none(pred):
    return log_zinb(paddle.zeros_like(pred["log_mu"]), pred).exp()


def split_labels(labels, like):
    counted = (labels >= 0).astype(like.dtype)
    return F.relu(labels).astype(like.dtype), counted


def criterion(pred, labels, smooth=0.02):
    y, counted = split_labels(labels, pred["log_mu"])
    surprise = -(log_zinb(y, pred) * counted).sum(axis=0)
    by_kind = surprise / paddle.clip(counted.sum(axis=0), min=1.0)
    return by_kind.mean() + smooth * paddle.mean(pred["parts"] ** 2)


def report(pred, labels):
    y, counted = split_labels(labels, pred["log_mu"])
    n = counted.sum()
    guess = mean_count(pred)
    gap = (paddle.log1p(guess) - paddle.log1p(y)) * counted
    miss = (chance_of_none(pred) - (y == 0).astype(y.dtype)) * counted
    return dict(
        rmsle=paddle.sqrt((gap ** 2).sum() / n),
        zero_brier=(miss ** 2).sum() / n,
        bias=(guess * counted).sum() / (y * counted).sum(),
    )
