import math

import paddle
import paddle.nn.functional as F


def dense_attention(q, k, v, causal=False):
    score = paddle.matmul(q, k, transpose_y=True) / math.sqrt(q.shape[-1])
    if causal:
        n = q.shape[2]
        score = score + paddle.triu(paddle.full([n, n], -1e30, dtype=score.dtype), 1)
    return paddle.matmul(F.softmax(score, axis=-1), v)


def sparse_attention(q, k, v, factor=1):
    """queries whose scores on a random sample of keys stand out attend; the others get the mean of the values"""
    n, m = q.shape[2], k.shape[2]
    samples = min(2 * factor * math.ceil(math.log(m)), m)
    active = min(2 * factor * math.ceil(math.log(n)), n)
    drawn = paddle.randint(0, m, [n, samples])
    every = paddle.matmul(q, k, transpose_y=True)
    index = paddle.broadcast_to(drawn, every.shape[:2] + [n, samples])
    sampled = paddle.take_along_axis(every, index, axis=3)
    measure = sampled.max(axis=-1) - sampled.sum(axis=-1) / m
    chosen = paddle.topk(measure, active, axis=-1, sorted=False)[1]
    mask = F.one_hot(chosen, n).sum(axis=2).unsqueeze(-1).astype(v.dtype)
    attended = paddle.matmul(F.softmax(every / math.sqrt(q.shape[3]), axis=-1), v)
    return mask * attended + (1 - mask) * v.mean(axis=2, keepdim=True)
