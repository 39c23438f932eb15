import paddle


def segment_sum(values, index, count):
    zero = paddle.zeros([count, values.shape[1]], dtype=values.dtype)
    return paddle.scatter_nd_add(zero, index.unsqueeze(1), values)


def segment_max(values, index, count):
    """the greatest value of each segment; one column at a time would be slow, so the segments are compared as a mask"""
    member = paddle.arange(count).unsqueeze(1) == index.unsqueeze(0)
    low = paddle.full([1], -1e9, dtype=values.dtype)
    table = paddle.where(member.unsqueeze(2), values.unsqueeze(0), low)
    return table.max(axis=1)


def segment_softmax(score, index, count):
    top = paddle.gather(segment_max(score, index, count), index)
    w = paddle.exp(score - top)
    return w / (paddle.gather(segment_sum(w, index, count), index) + 1e-16)
