"""Sums, paths and likelihoods of a linear chain; scores are [B, T, K + 1, K], the last row is the start."""
import paddle
from paddle.nn import functional as F


def walls(tags, cost=-40.0):
    """What a change from one tag to another costs: I-X must follow B-X or I-X."""
    table = []
    for before in tags + ["<start>"]:
        table.append([cost if after[0] == "I" and before[1:] != after[1:] else 0.0 for after in tags])
    return table


def forward_sum(scores, mask):
    alpha = scores[:, 0, -1, :]
    for t in range(1, scores.shape[1]):
        candidate = alpha.unsqueeze(-1) + scores[:, t, :-1, :]
        candidate = paddle.logsumexp(candidate, axis=1)
        alpha = paddle.where(mask[:, t].unsqueeze(-1), candidate, alpha)
    return paddle.logsumexp(alpha, axis=-1)


def gold_sum(scores, tags, mask):
    k = scores.shape[-1]
    tags = paddle.clip(tags, min=0)
    before = F.pad(tags[:, :-1].unsqueeze(1), [1, 0], value=k, data_format="NCL").squeeze(1)
    here = F.one_hot(tags, k).astype(scores.dtype)
    there = F.one_hot(before, k + 1).astype(scores.dtype)
    picked = paddle.einsum("btij,bti,btj->bt", scores, there, here)
    return paddle.where(mask, picked, paddle.zeros_like(picked)).sum(axis=1)


def likelihood_loss(scores, labels):
    mask = labels >= 0
    gap = forward_sum(scores, mask) - gold_sum(scores, labels, mask)
    return gap.sum() / mask.astype(scores.dtype).sum()


def best_paths(scores, mask):
    scores, mask = scores.numpy(), mask.numpy()
    paths, values = [], []
    for table, valid in zip(scores, mask):
        n = int(valid.sum())
        delta, pointers = table[0, -1], []
        for t in range(1, n):
            total = delta[:, None] + table[t, :-1]
            pointers.append(total.argmax(axis=0))
            delta = total.max(axis=0)
        path = [int(delta.argmax())]
        for pointer in pointers[::-1]:
            path.insert(0, int(pointer[path[0]]))
        paths.append(path)
        values.append(delta.max())
    return paths, values
