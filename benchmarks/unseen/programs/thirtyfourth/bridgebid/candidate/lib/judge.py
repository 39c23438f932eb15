"""Loss and scores."""
import paddle
import paddle.nn.functional as F

from .vocab import P

EPS, SHARE = 0.1, 0.25


def loss(outputs, labels):
    logp, bid = outputs["logp"], labels["bid"].astype("int64")
    legal = labels["legal"].astype(logp.dtype)
    hard = F.one_hot(bid, logp.shape[-1]).astype(logp.dtype)
    wanted = (1.0 - EPS) * hard + EPS * legal / legal.sum(axis=-1, keepdim=True)
    weight = 1.0 - 0.5 * (bid == P).astype(logp.dtype)
    calls = -(weight * (wanted * logp).sum(axis=-1)).sum() / weight.sum()
    logits = outputs["tricks"]
    more = (labels["tricks"].astype("int64").unsqueeze(-1) > paddle.arange(13)).astype(logits.dtype)
    tricks = (F.softplus(logits) - more * logits).sum(axis=-1).mean()
    return {"loss": calls + SHARE * tricks, "calls": calls, "tricks": tricks}


def scores(outputs, labels):
    logp, bid = outputs["logp"], labels["bid"].astype("int64").unsqueeze(-1)
    logp = paddle.where(labels["legal"], logp, paddle.full_like(logp, -1e9))
    better = (logp > paddle.take_along_axis(logp, bid, axis=1)).astype("float64").sum(axis=1)
    tricks = F.sigmoid(outputs["tricks"]).sum(axis=-1)
    return {
        "top1": float((better < 1).astype("float64").mean()),
        "top3": float((better < 3).astype("float64").mean()),
        "mrr": float((1.0 / (1.0 + better)).mean()),
        "trick_error": float((tricks - labels["tricks"].astype(tricks.dtype)).abs().mean()),
    }
