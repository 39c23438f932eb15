import math

import paddle
import paddle.nn.functional as F


def scale_by_rms(x, gain, epsilon=1e-6):
    square = paddle.mean(paddle.square(x), axis=-1, keepdim=True)
    return gain * (x / paddle.sqrt(square + epsilon))


def grouped_attention(query, key, value, past=0):
    """query (b, t, heads, d); key, value (b, s, groups, d): each group serves heads // groups heads in a row."""
    b, t, heads, d = query.shape
    s, groups = key.shape[1], key.shape[2]
    query = query.reshape([b, t, groups, heads // groups, d]).transpose([0, 2, 3, 1, 4])
    key = key.transpose([0, 2, 1, 3]).unsqueeze(2)
    value = value.transpose([0, 2, 1, 3]).unsqueeze(2)
    score = paddle.matmul(query, key, transpose_y=True) / math.sqrt(d)
    visible = paddle.tril(paddle.ones([t, s], dtype="bool"), past)
    score = paddle.where(visible, score, paddle.full_like(score, -1e9))
    mixed = paddle.matmul(F.softmax(score, axis=-1), value)
    return mixed.transpose([0, 3, 1, 2, 4]).reshape([b, t, heads * d])


def swiglu(x):
    gate, up = paddle.chunk(x, 2, axis=-1)
    return F.silu(gate) * up


def cap(x, limit):
    return paddle.tanh(x / limit) * limit
