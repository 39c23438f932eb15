import paddle
import paddle.nn.functional as F

FAR = -1e9


def heads_apart(x, n_heads):
    batch, length, width = x.shape
    x = x.reshape([batch, length, n_heads, width // n_heads])
    return x.transpose([0, 2, 1, 3])


def heads_together(x):
    batch, n_heads, length, size = x.shape
    return x.transpose([0, 2, 1, 3]).reshape([batch, length, n_heads * size])


def visible_keys(real):
    length = real.shape[1]
    past = paddle.tril(paddle.ones([length, length], dtype="int32")).astype("bool")
    return paddle.logical_and(past.unsqueeze([0, 1]), real.unsqueeze([1, 2]))


def clicks_ago(length, reach):
    steps = paddle.arange(length)
    ago = steps.unsqueeze(1) - steps.unsqueeze(0)
    return paddle.clip(ago, min=0, max=reach)


def attend(query, key, value, bias, visible, drop=0.0, training=True):
    size = query.shape[-1]
    scores = paddle.matmul(query, key, transpose_y=True) * size ** -0.5
    scores = scores + bias.unsqueeze(0)
    scores = paddle.where(visible, scores, paddle.full_like(scores, FAR))
    weights = F.dropout(F.softmax(scores, axis=-1), p=drop, training=training)
    return paddle.matmul(weights, value)
