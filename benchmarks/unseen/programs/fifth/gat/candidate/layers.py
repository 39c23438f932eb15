import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform


def glorot(fan_in, fan_out, gain=1.414):
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return Uniform(-bound, bound)


def segment_sum(values, index, count):
    zero = paddle.zeros([count] + list(values.shape[1:]), dtype=values.dtype)
    return paddle.scatter_nd_add(zero, index.unsqueeze(-1), values)


class AttentionConv(nn.Layer):
    """one round of multi-head attention along the edges"""

    def __init__(self, n_in, n_out, heads, merge="concat", p_drop=0.1):
        super().__init__()
        self.heads, self.n_out, self.merge, self.p_drop = heads, n_out, merge, p_drop
        wide = heads * n_out
        last = wide if merge == "concat" else n_out
        make = lambda shape, init: self.create_parameter(shape, default_initializer=init)
        self.project = make([n_in, wide], glorot(n_in, wide))
        self.skip = make([n_in, last], glorot(n_in, last))
        # the fans of a [1, heads, n_out] tensor: heads * n_out inputs, n_out outputs
        self.attn_out = make([heads, n_out], glorot(heads * n_out, n_out))
        self.attn_in = make([heads, n_out], glorot(heads * n_out, n_out))
        self.attn_w = make([heads], Normal(0.0, 0.1))
        self.shift = make([last], Constant(0.0))

    def forward(self, x, edges, weight):
        n = x.shape[0]
        tail, head = edges[0], edges[1]
        z = paddle.matmul(x, self.project).reshape([n, self.heads, self.n_out])
        leaving = paddle.einsum("nhc,hc->nh", z, self.attn_out)
        entering = paddle.einsum("nhc,hc->nh", z, self.attn_in)
        score = paddle.gather(leaving, tail) + paddle.gather(entering, head)
        score = score + paddle.log(weight).unsqueeze(-1) * self.attn_w
        score = F.leaky_relu(score, negative_slope=0.2)
        # any constant per head cancels in the softmax; the global maximum is enough
        score = paddle.exp(score - score.max(axis=0, keepdim=True).detach())
        total = segment_sum(score, head, n)
        alpha = score / (paddle.gather(total, head) + 1e-16)
        alpha = F.dropout(alpha, self.p_drop, training=self.training)
        out = segment_sum(paddle.gather(z, tail) * alpha.unsqueeze(-1), head, n)
        out = out.reshape([n, -1]) if self.merge == "concat" else out.mean(axis=1)
        return out + self.shift + paddle.matmul(x, self.skip), alpha


class Network(nn.Layer):
    def __init__(self, n_in=8, width=8, heads=4, n_classes=3):
        super().__init__()
        full = width * heads
        self.first = AttentionConv(n_in, width, heads)
        self.gamma = self.create_parameter([full], default_initializer=Constant(1.0))
        self.beta = self.create_parameter([full], default_initializer=Constant(0.0))
        self.share = self.create_parameter([full], default_initializer=Constant(1.0))
        self.second = AttentionConv(full, n_classes, 2, merge="mean")
        self.pair = self.create_parameter([full, full], default_initializer=Normal(0.0, 0.02))
        self.pair_bias = self.create_parameter([1], default_initializer=Constant(0.0))

    def graph_norm(self, x):
        moved = x - self.share * x.mean(axis=0, keepdim=True)
        return self.gamma * moved * paddle.rsqrt(moved.square().mean(axis=0, keepdim=True) + 1e-5) + self.beta

    def forward(self, x, edges, weight):
        h, _ = self.first(F.dropout(x, 0.2, training=self.training), edges, weight)
        h = F.elu(self.graph_norm(h))
        logits, alpha = self.second(F.dropout(h, 0.2, training=self.training), edges, weight)
        left, right = paddle.gather(h, edges[0]), paddle.gather(h, edges[1])
        link = paddle.sum(paddle.matmul(left, self.pair) * right, axis=-1) + self.pair_bias
        return {"logits": logits, "alpha": alpha, "link": link}
