"""Functional pieces of the port: what the PyTorch program had as modules, here as functions of a parameter bag."""
import paddle
import paddle.nn.functional as F


def layer_norm(x, p, eps=1e-8):
    return F.layer_norm(x, x.shape[-1:], weight=p.weight, bias=p.bias, epsilon=eps)


def heads_apart(x, n):
    b, l, d = x.shape
    return x.reshape([b, l, n, d // n]).transpose([0, 2, 1, 3])


def heads_together(x):
    b, n, l, k = x.shape
    return x.transpose([0, 2, 1, 3]).reshape([b, l, n * k])


def multi_head(block, q, kv, visible, n, p, training):
    """visible: bool, True where a key may be seen"""
    query = heads_apart(block.q(q), n)
    key = heads_apart(block.k(kv), n)
    value = heads_apart(block.v(kv), n)
    score = paddle.matmul(query, key, transpose_y=True)
    score = score / (query.shape[-1] ** 0.5)
    low = paddle.full_like(score, -(2.0 ** 32) + 1)
    prob = F.softmax(paddle.where(visible.expand_as(score), score, low), axis=-1)
    prob = F.dropout(prob, p, training=training)
    return block.o(heads_together(paddle.matmul(prob, value)))


def feed_forward(block, x, p, training):
    y = F.dropout(block.f1(x), p, training=training)
    y = F.dropout(block.f2(F.relu(y)), p, training=training)
    return x + y


def visible_keys(seq, maxlen, diagonal=0):
    """[B, 1, L, L]: not of the future and no padding"""
    past = paddle.tril(paddle.ones([maxlen, maxlen], dtype="int32"), diagonal).astype("bool")
    known = (seq != 0).unsqueeze([1, 2])
    return paddle.logical_and(past.unsqueeze([0, 1]), known)
