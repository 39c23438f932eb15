"""Attention, functional: heads are made and undone by einsum over reshaped tensors."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .build import dense


def heads_of(x, heads):
    return x.reshape([x.shape[0], x.shape[1], heads, -1])


def attend(q, k, v, hide, extra=None):
    """q [n, t, h, e], k and v [n, s, h, e]; ``hide`` says what may not be seen."""
    score = paddle.einsum("nthe,nshe->nhts", q, k) * q.shape[-1] ** -0.5
    if extra is not None:
        score = score + extra
    score = paddle.where(hide, paddle.full_like(score, -1e9), score)
    return paddle.einsum("nhts,nshe->nthe", F.softmax(score, axis=-1), v).flatten(2)


class AuctionMixer(nn.Layer):
    def __init__(self, dim, heads, gain):
        super().__init__()
        self.heads = heads
        self.qkv = dense(dim, 3 * dim, bias=False)
        self.out = dense(dim, dim, gain=gain)
        self.side = self.create_parameter([heads, 2], default_initializer=I.Constant(0.0))
        fall = 2.0 ** (-8.0 / heads * paddle.arange(1, heads + 1, dtype="float32"))
        self.register_buffer("fall", fall, persistable=False)

    def terms(self, seats, kind):
        place = paddle.arange(seats.shape[1])
        back = place.unsqueeze(1) - place.unsqueeze(0)
        same = ((seats.unsqueeze(2) - seats.unsqueeze(1)) % 2 == 0).astype(kind)
        same = same.unsqueeze(1)
        other, mine = self.side[:, 0].reshape([1, -1, 1, 1]), self.side[:, 1].reshape([1, -1, 1, 1])
        near = self.fall.astype(kind).reshape([1, -1, 1, 1]) * F.relu(back.astype(kind))
        return mine * same + other * (1.0 - same) - near, (back < 0).unsqueeze([0, 1])

    def forward(self, x, seats, empty):
        q, k, v = [heads_of(p, self.heads) for p in paddle.split(self.qkv(x), 3, axis=-1)]
        extra, future = self.terms(seats, x.dtype)
        hide = paddle.logical_or(future, empty.unsqueeze([1, 2]))
        return self.out(attend(q, k, v, hide, extra))


class HandAsks(nn.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = dense(dim, dim)
        self.keyvalue = dense(dim, 2 * dim)

    def forward(self, hand, tokens, empty):
        k, v = paddle.split(self.keyvalue(tokens), 2, axis=-1)
        q = heads_of(self.query(hand).unsqueeze(1), self.heads)
        return attend(q, heads_of(k, self.heads), heads_of(v, self.heads), empty.unsqueeze([1, 2])).squeeze(1)
