import math

import torch
import torch.nn.functional as F


def info_nce(logits):
    return F.cross_entropy(logits, torch.zeros(logits.size(0), dtype=torch.long, device=logits.device))


def arcface(cosine, labels, s, m, smoothing):
    """Additive angular margin (Deng et al., 2019), monotonic beyond pi - m."""
    sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(1e-9, 1))
    phi = cosine * math.cos(m) - sine * math.sin(m)
    phi = torch.where(cosine > math.cos(math.pi - m), phi, cosine - math.sin(math.pi - m) * m)
    one_hot = torch.zeros_like(cosine).scatter_(1, labels.view(-1, 1), 1)
    return F.cross_entropy(s * (one_hot * phi + (1 - one_hot) * cosine), labels, label_smoothing=smoothing)


def total_loss(outputs, labels, opts):
    arc = arcface(outputs["cosine"], labels, opts.scale, opts.margin, opts.smoothing)
    return info_nce(outputs["logits"]) + opts.arc_weight * arc


@torch.no_grad()
def retrieval_metric(outputs, labels):
    """Each query looks for its class among the other queries of the batch."""
    q = outputs["q"]
    sim = q @ q.t()
    sim.fill_diagonal_(-2.0)
    order = sim.argsort(dim=1, descending=True)[:, :-1]
    hit = (labels[order] == labels[:, None]).to(q.dtype)
    has = hit.sum(1) > 0
    precision = hit.cumsum(1) / torch.arange(1, hit.size(1) + 1)
    ap = (precision * hit).sum(1)[has] / hit.sum(1)[has]
    return {
        "contrast_acc": (outputs["logits"].argmax(1) == 0).float().mean(),
        "recall1": hit[has, 0].mean(),
        "recall3": hit[has, :3].amax(1).mean(),
        "map": ap.mean(),
        "center_acc": (outputs["cosine"].argmax(1) == labels).float().mean(),
    }
