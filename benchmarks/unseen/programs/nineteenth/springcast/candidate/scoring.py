import numpy as np
import paddle
import paddle.nn.functional as F


def forecast_loss(pred, labels):
    target, usable = labels[..., :2], labels[..., 2]
    weight = usable.unsqueeze(2)
    error = paddle.abs(target.unsqueeze(2) - pred["mean"])
    log_density = -(error / pred["scale"] + paddle.log(2.0 * pred["scale"])).sum(axis=-1)
    joint = F.log_softmax(pred["logit"], axis=-1) + (log_density * weight).sum(axis=-1)
    count = usable.sum(axis=-1)
    known = (count > 0).astype(joint.dtype)
    per_agent = -paddle.logsumexp(joint, axis=-1) / paddle.clip(count, min=1.0)
    nll = (per_agent * known).sum() / paddle.clip(known.sum(), min=1.0)

    with paddle.no_grad():
        length = (paddle.sqrt(error.square().sum(axis=-1)) * weight).sum(axis=-1)
        winner = F.one_hot(length.argmin(axis=-1), length.shape[-1]).astype(error.dtype)
    gap = (error * winner.unsqueeze([3, 4])).sum(axis=2)
    beta = 0.1
    bowl = paddle.where(gap < beta, 0.5 * gap.square() / beta, gap - 0.5 * beta).sum(axis=-1)
    huber = (bowl * usable).sum() / paddle.clip(usable.sum(), min=1.0)
    return {"loss": nll + 0.5 * huber, "nll": nll, "huber": huber}


def forecast_metrics(pred, labels, tolerance=0.4):
    mean, logit, labels = (x.numpy() for x in (pred["mean"], pred["logit"], labels))
    usable = labels[..., 2] > 0.5
    rows = usable.any(axis=-1)
    usable, target, mean, logit = usable[rows], labels[rows][..., :2], mean[rows], logit[rows].astype("float64")
    distance = np.linalg.norm(mean - target[:, None], axis=-1).astype("float64")  # agent, mode, step
    ade = np.array([d[:, u].mean(axis=-1).min() for d, u in zip(distance, usable)])
    final = np.array([d[:, np.flatnonzero(u)[-1]] for d, u in zip(distance, usable)])
    best = final.argmin(axis=-1)
    fde = final[np.arange(len(best)), best]
    chance = np.exp(logit - logit.max(axis=-1, keepdims=True))
    chance = (chance / chance.sum(axis=-1, keepdims=True))[np.arange(len(best)), best]
    return {"minADE": ade.mean(), "minFDE": fde.mean(), "miss": (fde > tolerance).mean(), "brier_minFDE": (fde + (1 - chance) ** 2).mean()}
