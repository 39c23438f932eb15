import torch
import torch.nn.functional as F

from .config import CFG
from .data import TREE


def class_balanced_weights(counts, beta):
    """Effective number of samples (Cui et al., 2019), mean one."""
    counts = torch.as_tensor(counts, dtype=torch.float64).clamp(min=1)
    w = (1 - beta) / (1 - beta**counts)
    return w / w.sum() * len(w)


class HierarchicalBCE:
    def __init__(self, counts, beta=CFG.train.cb_beta, violation=CFG.train.violation):
        self.weight = class_balanced_weights(counts, beta)
        self.child = [i for i, p in enumerate(TREE.parent) if p >= 0]
        self.up = [TREE.parent[i] for i in self.child]
        self.violation = violation

    def __call__(self, logits, labels):
        w = self.weight.to(logits)
        bce = F.binary_cross_entropy_with_logits(logits, labels, pos_weight=w)
        prob = torch.sigmoid(logits)
        gap = F.relu(prob[:, self.child] - prob[:, self.up])
        return bce + self.violation * gap.pow(2).sum(1).mean()
