import torch
import torch.nn.functional as F

CONSISTENCY = 3.0
SHARPEN = 0.7


def loss(outputs, labels):
    known = labels >= 0
    ce = F.cross_entropy(outputs["logits"], labels, ignore_index=-1, reduction="sum", label_smoothing=0.05)
    ce = ce / known.sum().clamp(min=1)
    target = F.softmax(outputs["target"] / SHARPEN, dim=1)
    sure = (target.max(dim=1).values > 0.12).float()
    gap = (F.softmax(outputs["clean"], dim=1) - target).pow(2).sum(dim=1)
    consistency = (gap * sure).mean()
    total = ce + CONSISTENCY * outputs["ramp"].squeeze() * consistency
    return {"loss": total, "ce": ce, "consistency": consistency}


@torch.no_grad()
def metric(outputs, labels):
    known = labels >= 0
    y = labels[known]
    n = max(int(known.sum()), 1)
    res = {}
    for name in ("clean", "target"):
        lg = outputs[name][known]
        top = lg.topk(3, dim=1).indices
        res[name + "_top1"] = float((top[:, 0] == y).sum()) / n
        res[name + "_top3"] = float((top == y[:, None]).sum()) / n
        res[name + "_nll"] = float(F.nll_loss(F.log_softmax(lg, 1), y, reduction="sum")) / n
    agree = outputs["clean"].argmax(1) == outputs["target"].argmax(1)
    res["agreement"] = float(agree.float().mean())
    return res
