import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I

from .layers import LocalAttention, RMSNorm, StateSpace, linear
from .text import PAD


class FeedForward(nn.Layer):
    def __init__(self, m, out_std):
        super().__init__()
        self.gate = linear(m.dim, m.hidden)
        self.up = linear(m.dim, m.hidden)
        self.out_proj = linear(m.hidden, m.dim, out_std(m.hidden))

    def forward(self, x):
        return self.out_proj(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Layer):
    def __init__(self, mixer, m, out_std):
        super().__init__()
        self.norm1, self.mixer = RMSNorm(m.dim, m.eps), mixer
        self.norm2, self.mlp = RMSNorm(m.dim, m.eps), FeedForward(m, out_std)
        self.dropout = nn.Dropout(m.dropout)

    def forward(self, x, mask):
        h = self.mixer(self.norm1(x), mask)
        x = x + self.dropout(h)
        h = self.mlp(self.norm2(x))
        return x + self.dropout(h)


class VerseNet(nn.Layer):
    def __init__(self, m, vocabulary, max_len):
        super().__init__()
        kinds = m.mixers.split()

        def out_std(n_in):
            return n_in**-0.5 / math.sqrt(2 * len(kinds))

        def mixer(kind):
            if kind == "attention":
                return LocalAttention(m, out_std, max_len)
            return StateSpace(m, out_std)

        self.dim, self.cap = m.dim, m.soft_cap
        self.embed = nn.Embedding(
            vocabulary, m.dim,
            weight_attr=paddle.ParamAttr(initializer=I.TruncatedNormal(0.0, m.dim**-0.5, a=-0.4, b=0.4)),
        )
        self.layers = nn.LayerList([Block(mixer(kind), m, out_std) for kind in kinds])
        self.norm = RMSNorm(m.dim, m.eps)
        self.head_bias = self.create_parameter([vocabulary], is_bias=True)

    def forward(self, tokens):
        mask = tokens != PAD
        x = self.embed(tokens) * math.sqrt(self.dim)
        for layer in self.layers:
            x = layer(x, mask)
        # the embedding is the output matrix too
        scores = paddle.matmul(self.norm(x), self.embed.weight, transpose_y=True) + self.head_bias
        return {"logits": paddle.tanh(scores / self.cap) * self.cap}
