import paddle
import paddle.nn.functional as F

CONSISTENCY = 3.0
SHARPEN = 0.7
SMOOTH = 0.05


def smoothed_ce(logits, y, known):
    logp = F.log_softmax(logits, axis=-1)
    hard = F.one_hot(y.clip(min=0), 10)
    soft = hard * (1 - SMOOTH) + SMOOTH / 10
    per_sample = -(soft * logp).sum(-1) * known
    return per_sample.sum() / known.sum().clip(min=1.0)


def loss(outputs, labels):
    known = (labels >= 0).astype("float32")
    ce = smoothed_ce(outputs["logits"], labels, known)
    target = F.softmax(outputs["target"] / SHARPEN, axis=-1)
    sure = (target.max(axis=-1) > 0.12).astype("float32")
    gap = paddle.square(F.softmax(outputs["clean"], axis=-1) - target).sum(-1)
    consistency = (gap * sure).mean()
    total = ce + CONSISTENCY * outputs["ramp"].squeeze() * consistency
    return {"loss": total, "ce": ce, "consistency": consistency}


def metric(outputs, labels):
    y_all = labels.numpy()
    rows = [i for i, v in enumerate(y_all) if v >= 0]
    n = max(len(rows), 1)
    res = {}
    for name in ("clean", "target"):
        logp = F.log_softmax(outputs[name].detach(), axis=-1).numpy()
        top1 = top3 = 0
        nll = 0.0
        for i in rows:
            order = (-logp[i]).argsort(kind="stable")
            top1 += int(order[0] == y_all[i])
            top3 += int(y_all[i] in order[:3])
            nll -= float(logp[i, y_all[i]])
        res[name + "_top1"] = top1 / n
        res[name + "_top3"] = top3 / n
        res[name + "_nll"] = nll / n
    same = outputs["clean"].numpy().argmax(1) == outputs["target"].numpy().argmax(1)
    res["agreement"] = float(same.mean())
    return res
