import torch
import torch.nn.functional as F

ALPHA = 0.7
N3 = 2e-3


def self_adversarial_loss(scores, labels):
    """Sun et al. 2019; negatives that are true get no share of the softmax."""
    weight, usable = labels[:, 0], labels[:, 1:]
    pos, neg = scores[:, 0], scores[:, 1:]
    logits = (ALPHA * neg.detach()).masked_fill(usable == 0, float("-inf"))
    share = F.softmax(logits, dim=1)
    positive = -F.logsigmoid(pos)
    negative = -(share * F.logsigmoid(-neg)).sum(1)
    return ((weight * positive).sum() + (weight * negative).sum()) / (2 * weight.sum())


def n3(model):
    re, im = model.entity.chunk(2, dim=-1)
    return N3 * (re ** 2 + im ** 2 + 1e-12).pow(1.5).sum(-1).mean()


@torch.no_grad()
def filtered_ranks(scores, labels):
    """Mean rank among ties."""
    usable = labels[:, 1:] > 0
    pos, neg = scores[:, :1], scores[:, 1:]
    above = ((neg > pos) & usable).sum(1)
    equal = ((neg == pos) & usable).sum(1)
    return 1 + above.to(scores.dtype) + 0.5 * equal


def ranking(scores, labels):
    rank = filtered_ranks(scores, labels)
    usable = (labels[:, 1:] > 0).sum(1)
    chance = (usable + 2) / 2                               # expected rank of a random order
    return {"mrr": (1 / rank).mean(), "hits1": (rank <= 1).to(scores.dtype).mean(),
            "hits3": (rank <= 3).to(scores.dtype).mean(),
            "amri": 1 - (rank - 1).sum() / (chance - 1).sum()}
