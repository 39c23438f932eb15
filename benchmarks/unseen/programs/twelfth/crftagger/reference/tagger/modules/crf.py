"""A linear chain over score tensors [B, T, K + 1, K]: from tag i at t - 1 (K: the start) to tag j at t."""
import torch
from torch import nn

FORBIDDEN = -40.0


def allowed(previous, tag):
    """BIO: I-X follows B-X or I-X only."""
    if not tag.startswith("I-"):
        return True
    return previous is not None and previous != "O" and previous[2:] == tag[2:]


class Chain(nn.Module):
    def __init__(self, dim, tags):
        super().__init__()
        self.k = len(tags)
        self.emit = nn.Linear(dim, self.k)
        self.transitions = nn.Parameter(torch.empty(self.k + 1, self.k))
        self.final = nn.Parameter(torch.empty(self.k))
        sources = list(tags) + [None]
        wall = [[0.0 if allowed(a, b) else FORBIDDEN for b in tags] for a in sources]
        self.register_buffer("wall", torch.tensor(wall), persistent=False)

    def forward(self, x, mask):
        scores = self.emit(x).unsqueeze(2) + (self.transitions + self.wall)
        following = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
        last = (mask & ~following).to(x.dtype)
        return scores + last[:, :, None, None] * self.final


def log_partition(scores, mask):
    alpha = scores[:, 0, -1]
    for t in range(1, scores.shape[1]):
        step = torch.logsumexp(alpha.unsqueeze(2) + scores[:, t, :-1], 1)
        alpha = torch.where(mask[:, t, None], step, alpha)
    return torch.logsumexp(alpha, 1)


def path_score(scores, tags, mask):
    b, t, _, k = scores.shape
    tags = tags.clamp(min=0)
    previous = torch.cat([torch.full_like(tags[:, :1], k), tags[:, :-1]], 1)
    rows = torch.arange(b)[:, None]
    steps = torch.arange(t)[None, :]
    return (scores[rows, steps, previous, tags] * mask).sum(1)


def viterbi(scores, mask):
    best = scores[:, 0, -1]
    back = []
    for t in range(1, scores.shape[1]):
        value, source = (best.unsqueeze(2) + scores[:, t, :-1]).max(1)
        best = torch.where(mask[:, t, None], value, best)
        back.append(source)
    score, tag = best.max(1)
    paths = []
    for b in range(scores.shape[0]):
        n = int(mask[b].sum())
        path = [int(tag[b])]
        for source in reversed(back[: n - 1]):
            path.append(int(source[b, path[-1]]))
        paths.append(path[::-1])
    return paths, score
