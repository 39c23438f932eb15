import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import ParamAttr
from paddle.nn import Embedding, Layer, LayerList, LayerNorm, Linear
from paddle.nn.initializer import Constant, Normal, Uniform


def within(bound):
    return ParamAttr(initializer=Uniform(-bound, bound))


def dense(n_in, n_out):
    b = n_in ** -0.5
    return Linear(n_in, n_out, weight_attr=within(b), bias_attr=within(b))


def projection(width, bias=True):
    limit = (6.0 / (width + width)) ** 0.5 / 2 ** 0.5
    return Linear(width, width, weight_attr=within(limit),
                  bias_attr=ParamAttr(initializer=Constant(0.0)) if bias else False)


class TabularTransformer(Layer):
    def __init__(self, n_num, sizes, n_speed, width, n_heads, depth, hidden, p_drop):
        super().__init__()
        bound = width ** -0.5
        self.first_rows = paddle.to_tensor(np.cumsum([0] + sizes[:-1]), dtype="int64")
        self.num_scale = self.create_parameter([n_num, width], attr=within(bound))
        self.num_shift = self.create_parameter([n_num, width], attr=within(bound))
        self.num_gap = self.create_parameter([n_num, width], attr=within(bound))
        self.cat_table = Embedding(sum(sizes), width, weight_attr=within(bound))
        self.cat_shift = self.create_parameter([len(sizes), width], attr=within(bound))
        self.readout = self.create_parameter([width], attr=ParamAttr(initializer=Normal(0.0, 0.02)))
        self.layers = LayerList([
            EncoderLayer(width, n_heads, hidden, p_drop, bare=(n == 0), readout_only=(n == depth - 1))
            for n in range(depth)
        ])
        self.final_norm = LayerNorm(width)
        self.to_speed = dense(width, n_speed)
        self.to_price = dense(width, 1)
        self.balance = self.create_parameter([2], attr=ParamAttr(initializer=Constant(0.0)))

    def tokens(self, num, gaps, cats):
        scaled = paddle.einsum("bn,nd->bnd", num, self.num_scale)
        gone = gaps.unsqueeze(-1)
        num_tokens = scaled * (1.0 - gone) + self.num_gap * gone + self.num_shift
        cat_tokens = self.cat_table(cats + self.first_rows) + self.cat_shift
        head = paddle.tile(self.readout, [num.shape[0], 1]).unsqueeze(1)
        return paddle.concat([head, num_tokens, cat_tokens], axis=1)

    def forward(self, num, gaps, cats):
        h = self.tokens(num, gaps, cats)
        for layer in self.layers:
            h = layer(h)
        h = F.leaky_relu(self.final_norm(h[:, 0]), negative_slope=0.1)
        return {"speed": self.to_speed(h), "price": self.to_price(h)[:, 0], "log_vars": self.balance}


class EncoderLayer(Layer):
    def __init__(self, width, n_heads, hidden, p_drop, bare, readout_only):
        super().__init__()
        self.n_heads, self.p_drop, self.readout_only = n_heads, p_drop, readout_only
        self.pre = None if bare else LayerNorm(width)
        self.wq, self.wk, self.wv = projection(width), projection(width, bias=False), projection(width)
        self.wo = dense(width, width)
        self.mid = LayerNorm(width)
        self.ff_in = dense(width, 2 * hidden)
        self.ff_out = dense(hidden, width)

    def attend(self, target, source):
        b, m, d = target.shape
        shape = lambda t: t.reshape([b, -1, self.n_heads, d // self.n_heads]).transpose([0, 2, 1, 3])
        q, k, v = shape(self.wq(target)), shape(self.wk(source)), shape(self.wv(source))
        scores = paddle.matmul(q, k, transpose_y=True) * (d // self.n_heads) ** -0.5
        probs = F.dropout(F.softmax(scores, axis=-1), self.p_drop, training=self.training)
        mixed = paddle.matmul(probs, v).transpose([0, 2, 1, 3]).reshape([b, m, d])
        return self.wo(mixed)

    def feed(self, t):
        value, gate = paddle.split(self.ff_in(t), 2, axis=-1)
        return self.ff_out(F.dropout(value * F.gelu(gate), self.p_drop, training=self.training))

    def forward(self, h):
        normed = h if self.pre is None else self.pre(h)
        if self.readout_only:
            h = h[:, 0:1] + self.attend(normed[:, 0:1], normed)
        else:
            h = h + self.attend(normed, normed)
        return h + self.feed(self.mid(h))
