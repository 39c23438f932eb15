"""Linear chain: partition function, score of a path, best path."""
import numpy as np
import paddle
import paddle.nn.functional as F


def log_partition(out):
    em, mask = out["emissions"], out["mask"]
    a = out["start"].unsqueeze(0) + em[:, 0]
    for t in range(1, em.shape[1]):
        inner = a.unsqueeze(-1) + out["trans"].unsqueeze(0)
        new = paddle.logsumexp(inner, axis=1) + em[:, t]
        m = mask[:, t].unsqueeze(-1)
        a = m * new + (1 - m) * a
    return paddle.logsumexp(a + out["end"], axis=-1)


def path_score(out, gold):
    em, mask, trans = out["emissions"], out["mask"], out["trans"]
    k = em.shape[-1]
    picked = F.one_hot(gold, k).astype(em.dtype)
    unary = (em * picked).sum(-1)
    total = (unary * mask).sum(-1)
    pairs = paddle.einsum("bti,ij,btj->bt", picked[:, :-1], trans, picked[:, 1:])
    total = total + (pairs * mask[:, 1:]).sum(-1)
    last = mask - paddle.concat([mask[:, 1:], paddle.zeros_like(mask[:, :1])], axis=1)
    total = total + (picked[:, 0] * out["start"]).sum(-1)
    return total + paddle.einsum("bt,btk,k->b", last, picked, out["end"])


def best_path(scores, begin, finish, transition):
    state = begin + scores[0]
    pointers = []
    for row in scores[1:]:
        table = state[:, None] + transition
        pointers.append(table.argmax(axis=0))
        state = table.max(axis=0) + row
    tag = int(np.argmax(state + finish))
    tags = [tag]
    while pointers:
        tag = int(pointers.pop()[tag])
        tags.append(tag)
    return np.array(tags[::-1])
