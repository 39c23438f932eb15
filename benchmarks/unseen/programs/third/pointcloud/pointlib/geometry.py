import paddle


def pairwise_sqdist(p):
    """p [B, N, C] -> [B, N, N]"""
    sq = (p * p).sum(axis=-1)
    cross = paddle.einsum("bic,bjc->bij", p, p)
    return sq.unsqueeze(2) + sq.unsqueeze(1) - 2.0 * cross


def neighbours(p, k):
    d = pairwise_sqdist(p)
    _, order = paddle.topk(d, k + 1, axis=-1, largest=False)
    return order[:, :, 1:]


def gather_points(p, index):
    """p [B, N, C], index [B, N, k] -> [B, N, k, C]"""
    picked = [paddle.index_select(cloud, rows.flatten(), axis=0) for cloud, rows in zip(p.unbind(0), index.unbind(0))]
    return paddle.stack(picked).reshape([*index.shape, p.shape[-1]])


def edges(p, k):
    near = gather_points(p, neighbours(p.detach(), k))
    centre = p.unsqueeze(2).expand_as(near)
    return paddle.concat([near - centre, centre], axis=-1)


def orthogonality(t):
    gram = paddle.matmul(t, t, transpose_y=True)
    off = gram - paddle.eye(t.shape[-1], dtype=t.dtype)
    return paddle.sqrt((off ** 2).sum(axis=[1, 2])).mean()
