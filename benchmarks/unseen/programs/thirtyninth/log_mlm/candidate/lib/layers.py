import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal

STD = 0.08


def fc(n_in, n_out, bias=True):
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, STD)),
                     bias_attr=paddle.ParamAttr(initializer=Constant(0.0)) if bias else False)


class ShawAttention(nn.Layer):
    def __init__(self, dim, n_head, max_dist, p):
        super().__init__()
        self.n_head, self.max_dist, self.head_dim = n_head, max_dist, dim // n_head
        self.qkv = fc(dim, 3 * dim, bias=False)
        self.out = fc(dim, dim)
        shape, init = [2 * max_dist + 1, self.head_dim], Normal(0.0, 0.05)
        self.key_rel = self.create_parameter(shape, default_initializer=init)
        self.val_rel = self.create_parameter(shape, default_initializer=init)
        self.drop = nn.Dropout(p)

    def relative(self, table, length):
        pos = paddle.arange(length)
        offset = paddle.clip(pos.unsqueeze(0) - pos.unsqueeze(1), -self.max_dist, self.max_dist) + self.max_dist
        return F.embedding(offset, table)                      # query, key, dim

    def forward(self, x, is_pad):
        batch, length, dim = x.shape
        qkv = self.qkv(x).reshape([batch, length, 3, self.n_head, self.head_dim])
        q, k, v = [t.transpose([0, 2, 1, 3]) for t in paddle.unbind(qkv, axis=2)]
        logits = paddle.matmul(q, k, transpose_y=True)
        logits = logits + paddle.einsum("bhid,ijd->bhij", q, self.relative(self.key_rel, length))
        logits = logits * self.head_dim ** -0.5
        blocked = is_pad.unsqueeze([1, 2]).expand_as(logits)
        logits = paddle.where(blocked, paddle.full_like(logits, paddle.finfo(logits.dtype).min), logits)
        weight = self.drop(F.softmax(logits, axis=-1))
        mixed = paddle.matmul(weight, v)
        mixed = mixed + paddle.einsum("bhij,ijd->bhid", weight, self.relative(self.val_rel, length))
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, dim]))


class GegluMlp(nn.Layer):
    def __init__(self, dim, hidden):
        super().__init__()
        self.wide = fc(dim, 2 * hidden)
        self.back = fc(hidden, dim)

    def forward(self, x):
        value, gate = paddle.chunk(self.wide(x), 2, axis=-1)
        return self.back(value * F.gelu(gate, approximate=True))


class EncoderLayer(nn.Layer):
    def __init__(self, dim, n_head, max_dist, p):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=1e-6)
        self.norm2 = nn.LayerNorm(dim, epsilon=1e-6)
        self.attention = ShawAttention(dim, n_head, max_dist, p)
        self.mlp = GegluMlp(dim, 2 * dim)
        self.drop = nn.Dropout(p)

    def forward(self, x, is_pad):
        x = x + self.drop(self.attention(self.norm1(x), is_pad))
        x = x + self.drop(self.mlp(self.norm2(x)))
        return x


class WordTable(nn.Layer):
    """The embedding. The row of the padding is read as it is but never learns from being read."""

    def __init__(self, n_words, dim, pad):
        super().__init__()
        self.pad = pad
        self.weight = self.create_parameter([n_words, dim], default_initializer=Normal(0.0, STD))

    def forward(self, ids):
        live = (ids != self.pad).unsqueeze(-1).astype(self.weight.dtype)
        frozen = F.embedding(ids, self.weight.detach())
        return F.embedding(ids, self.weight) * live + frozen * (1 - live)


class WordScores(nn.Layer):
    def __init__(self, table):
        super().__init__()
        n_words, dim = table.weight.shape
        self.transform = fc(dim, dim)
        self.norm = nn.LayerNorm(dim, epsilon=1e-6)
        self.bias = self.create_parameter([n_words], is_bias=True)

    def forward(self, x, table):
        h = self.norm(paddle.tanh(self.transform(x)))
        return paddle.matmul(h, table.weight, transpose_y=True) + self.bias
