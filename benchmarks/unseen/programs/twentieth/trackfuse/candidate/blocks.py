import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I


def fc(n_in, n_out, weight=None, bias=None):
    """Linear layer that starts as PyTorch's does unless told otherwise."""
    bound = n_in ** -0.5
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=weight or I.Uniform(-bound, bound)),
                     bias_attr=paddle.ParamAttr(initializer=bias or I.Uniform(-bound, bound)))


class Time2Vec(nn.Layer):
    def __init__(self, features, periods):
        super().__init__()
        shortest, longest = periods
        lo, hi = (math.log(2 * math.pi / p) for p in (longest, shortest))
        self.slope = self.create_parameter([1], default_initializer=I.Constant(1.0))
        self.omega_log = self.create_parameter([features - 1], default_initializer=I.Uniform(lo, hi))
        self.shift = self.create_parameter([features - 1], default_initializer=I.Uniform(-math.pi, math.pi))

    def forward(self, t):
        t = t.unsqueeze(-1)
        wave = paddle.sin(t * paddle.exp(self.omega_log) + self.shift)
        return paddle.concat([self.slope * t, wave], axis=-1)


def reset_gru(gru, width):
    """Orthogonal blocks for the three gates, no bias but 1 for the update gate."""
    blocks = []
    for _ in range(3):
        q, r = paddle.linalg.qr(paddle.randn([width, width]))
        blocks.append(q * paddle.sign(paddle.diag(r)))
    gru.weight_hh_l0.set_value(paddle.concat(blocks, axis=0))
    gru.bias_ih_l0.set_value(paddle.zeros([3 * width]))
    bias = paddle.zeros([3, width])
    bias[1] = 1.0
    gru.bias_hh_l0.set_value(bias.flatten())


class Branch(nn.Layer):
    """Encoder of one sensor."""

    def __init__(self, width, features, eps):
        super().__init__()
        self.lift = fc(features + 2, width)
        self.ln = nn.LayerNorm(width, epsilon=eps)
        self.gru = nn.GRU(width, width)
        reset_gru(self.gru, width)

    def forward(self, t, value, n, time_code):
        gap = F.relu(t[:, 1:] - t[:, :-1])
        gap = paddle.concat([paddle.zeros_like(t[:, :1]), gap], axis=1)
        x = paddle.concat([paddle.stack([value, paddle.log1p(gap * 10)], axis=-1), time_code], axis=-1)
        x = self.ln(F.silu(self.lift(x)))
        states, last = self.gru(x, sequence_length=n)
        return states, last.squeeze(0)


class AgedAttention(nn.Layer):
    """Attention from queries to readings that are not younger; every head forgets at its own rate."""

    def __init__(self, width, n_head, p_drop):
        super().__init__()
        self.n_head, self.d = n_head, width // n_head
        glorot, zero = I.XavierUniform(), I.Constant(0.0)
        self.to_q = fc(width, width, glorot, zero)
        self.to_kv = fc(width, 2 * width, glorot, zero)
        self.merge = fc(width, width, glorot, zero)
        self.forget = self.create_parameter([n_head], default_initializer=zero)
        self.none_k = self.create_parameter([n_head, 1, self.d], default_initializer=zero)
        self.none_v = self.create_parameter([n_head, 1, self.d], default_initializer=zero)
        self.dropout = nn.Dropout(p_drop)

    def heads(self, x):
        return x.reshape([x.shape[0], x.shape[1], self.n_head, self.d]).transpose([0, 2, 1, 3])

    def forward(self, q, memory, age, valid):
        n = q.shape[0]
        q = self.heads(self.to_q(q))
        k, v = map(self.heads, paddle.split(self.to_kv(memory), 2, axis=-1))
        k = paddle.concat([self.none_k.unsqueeze(0).tile([n, 1, 1, 1]), k], axis=2)
        v = paddle.concat([self.none_v.unsqueeze(0).tile([n, 1, 1, 1]), v], axis=2)
        logits = paddle.matmul(q, k, transpose_y=True) * self.d ** -0.5
        # the first key stands for "nothing seen": age 0, always visible
        age = paddle.concat([paddle.zeros_like(age[:, :, :1]), age], axis=-1).unsqueeze(1)
        logits = logits - F.softplus(self.forget).reshape([1, -1, 1, 1]) * F.relu(age)
        valid = paddle.concat([paddle.ones_like(valid[:, :1]), valid], axis=-1)[:, None, None, :]
        seen = paddle.logical_and(valid, age >= 0)
        logits = paddle.where(seen, logits, paddle.full_like(logits, float("-inf")))
        p = self.dropout(F.softmax(logits, axis=-1))
        mixed = paddle.matmul(p, v).transpose([0, 2, 1, 3])
        return self.merge(mixed.flatten(start_axis=2))
