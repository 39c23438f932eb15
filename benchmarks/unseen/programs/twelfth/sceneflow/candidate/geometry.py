"""Geometry on clouds of shape [B, N, 3]; everything here is channels last."""
import paddle


def pairwise(a, b):
    diff = a.unsqueeze(2) - b.unsqueeze(1)
    return (diff * diff).sum(axis=-1)


def nearest(query, support, k):
    return paddle.topk(pairwise(query, support), k, axis=-1, largest=False)[1]


def take(values, index):
    """values [B, N, C]; index [B, M] or [B, M, K]."""
    b, n, c = values.shape
    base = paddle.arange(b, dtype=index.dtype) * n
    flat = index + base.reshape([b] + [1] * (index.ndim - 1))
    rows = paddle.gather(values.reshape([b * n, c]), flat.flatten(), axis=0)
    return rows.reshape(list(index.shape) + [c])


def fps(cloud, count):
    with paddle.no_grad():
        b, n = cloud.shape[:2]
        spread = ((cloud - cloud.mean(axis=1, keepdim=True)) ** 2).sum(axis=-1)
        last = spread.argmax(axis=-1).unsqueeze(1)
        picks = [last]
        gap = pairwise(take(cloud, last), cloud).squeeze(1)
        while len(picks) < count:
            last = gap.argmax(axis=-1).unsqueeze(1)
            picks.append(last)
            gap = paddle.minimum(gap, pairwise(take(cloud, last), cloud).squeeze(1))
        return paddle.concat(picks, axis=1)


def spread_out(dense, sparse, values, floor=1e-2):
    """Values [B, M, C] of the sparse cloud at the points of the dense one."""
    idx = nearest(dense, sparse, 3)
    d2 = ((take(sparse, idx) - dense.unsqueeze(2)) ** 2).sum(axis=-1)
    w = 1.0 / paddle.clip(paddle.sqrt(d2), min=floor)
    w = w / w.sum(axis=2, keepdim=True)
    return paddle.einsum("bnk,bnkc->bnc", w, take(values, idx))
