import math

import numpy as np
import paddle
import paddle.nn.functional as F

from .text import PAD


def smoothed_loss(logits, targets, smoothing, z_loss):
    valid = (targets != PAD).astype(logits.dtype)
    count = valid.sum()
    log_z = paddle.logsumexp(logits, axis=-1)
    logp = logits - log_z.unsqueeze(-1)
    at_target = paddle.take_along_axis(logp, targets.unsqueeze(-1), axis=-1).squeeze(-1)
    nll = (1 - smoothing) * at_target + smoothing * logp.mean(axis=-1)
    return -(nll * valid).sum() / count + z_loss * (log_z.pow(2) * valid).sum() / count


def evaluate(logits, targets):
    logits, targets = logits.numpy().astype("float64"), targets.numpy()
    keep = targets != PAD
    logits, targets = logits[keep], targets[keep]
    rows = np.arange(len(targets))
    peak = logits.max(-1)
    log_z = peak + np.log(np.exp(logits - peak[:, None]).sum(-1))
    mine = logits[rows, targets]
    nll = float((log_z - mine).mean())
    rank = 1 + (logits > mine[:, None]).sum(-1)
    return {
        "perplexity": math.exp(nll),
        "bits": nll / math.log(2),
        "accuracy": float((rank == 1).mean()),
        "top5": float((rank <= 5).mean()),
        "mrr": float((1 / rank).mean()),
    }


@paddle.no_grad()
def mean_nll(model, sequences):
    values = []
    for ids in sequences:
        logits = model(paddle.to_tensor([ids[:-1]]))["logits"][0]
        values.append(F.cross_entropy(logits, paddle.to_tensor(ids[1:])).item())
    return np.array(values)
