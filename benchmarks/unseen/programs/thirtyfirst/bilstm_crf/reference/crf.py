import torch
from torch import nn


class LinearChainCRF(nn.Module):
    """Start, end and pairwise scores. transitions[i, j]: from tag i to tag j."""

    def __init__(self, n_tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(n_tags))
        self.end = nn.Parameter(torch.empty(n_tags))
        self.transitions = nn.Parameter(torch.empty(n_tags, n_tags))
        for p in (self.start, self.end, self.transitions):
            nn.init.uniform_(p, -0.1, 0.1)

    def forward(self):
        return self.transitions, self.start, self.end


def log_partition(emissions, mask, trans, start, end):
    alpha = start + emissions[:, 0]
    for t in range(1, emissions.size(1)):
        step = alpha.unsqueeze(2) + trans.unsqueeze(0) + emissions[:, t].unsqueeze(1)
        nxt = torch.logsumexp(step, dim=1)
        alpha = torch.where(mask[:, t].bool().unsqueeze(1), nxt, alpha)
    return torch.logsumexp(alpha + end, dim=1)


def gold_score(emissions, mask, tags, trans, start, end):
    batch = torch.arange(emissions.size(0))
    score = start[tags[:, 0]] + emissions[batch, 0, tags[:, 0]]
    for t in range(1, emissions.size(1)):
        score = score + mask[:, t] * (trans[tags[:, t - 1], tags[:, t]] + emissions[batch, t, tags[:, t]])
    last = mask.sum(1).long() - 1
    return score + end[tags[batch, last]]


@torch.no_grad()
def viterbi(emissions, length, trans, start, end):
    """One sentence: [T, K] -> list of tag ids."""
    v, back = start + emissions[0], []
    for t in range(1, int(length)):
        best, arg = (v.unsqueeze(1) + trans).max(dim=0)
        v = best + emissions[t]
        back.append(arg)
    path = [int((v + end).argmax())]
    for arg in reversed(back):
        path.append(int(arg[path[-1]]))
    return path[::-1]
