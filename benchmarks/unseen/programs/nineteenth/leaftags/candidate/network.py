import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I

from . import settings
from .corpus import PAD_ID, VOCAB_SIZE
from .taxonomy import taxonomy


def uniform_fan(fan_in):
    bound = fan_in**-0.5
    return paddle.ParamAttr(initializer=I.Uniform(-bound, bound))


def dense(n_in, n_out, bias=True):
    return nn.Linear(n_in, n_out, weight_attr=uniform_fan(n_in), bias_attr=uniform_fan(n_in) if bias else False)


class DilatedGate(nn.Layer):
    """Channels last."""

    def __init__(self, width, window, rate, drop):
        super().__init__()
        fan = width * window
        self.ln = nn.LayerNorm(width, epsilon=1e-6)
        self.mix = nn.Conv1D(width, width * 2, window, padding=rate * (window - 1) // 2, dilation=rate, weight_attr=uniform_fan(fan), bias_attr=uniform_fan(fan), data_format="NLC")
        self.dropout = nn.Dropout(drop)

    def forward(self, x, valid):
        y = self.mix(self.ln(x) * valid)
        value, gate = paddle.chunk(y, 2, axis=-1)
        return x + self.dropout(value * F.sigmoid(gate))


class Tagger(nn.Layer):
    def __init__(self, width, window, rates, drop, share):
        super().__init__()
        n = taxonomy.size
        self.word_table = nn.Embedding(VOCAB_SIZE, width, padding_idx=PAD_ID, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.5)))
        with paddle.no_grad():
            self.word_table.weight[PAD_ID] = 0.0
        self.encoder = nn.LayerList([DilatedGate(width, window, r, drop) for r in rates])
        self.att_proj = dense(width, width)
        self.att_query = self.create_parameter([n, width], default_initializer=I.XavierUniform(fan_in=width, fan_out=n))
        self.from_children = dense(width, width, bias=False)
        self.from_parent = dense(width, width, bias=False)
        self.tree_ln = nn.LayerNorm(width, epsilon=1e-6)
        edges = taxonomy.edges
        average = edges / np.clip(edges.sum(axis=1, keepdims=True), 1, None)
        self.register_buffer("down_avg", paddle.to_tensor(average), persistable=False)
        self.register_buffer("up_pick", paddle.to_tensor(edges.T.copy()), persistable=False)
        self.head = self.create_parameter([n, width], default_initializer=I.Normal(0.0, width**-0.5))
        share = np.clip(share.astype("float64"), 0.01, 0.99)
        self.offset = self.create_parameter([n], default_initializer=I.Assign(np.log(share / (1 - share)).astype("float32")))

    def attend(self, x, valid):
        energy = paddle.matmul(self.att_query, F.tanh(self.att_proj(x)), transpose_y=True)  # B L T
        blocked = valid.squeeze(-1).unsqueeze(1) == 0
        energy = paddle.where(blocked, paddle.full_like(energy, -1e4), energy)
        return paddle.matmul(F.softmax(energy, axis=-1), x)

    def spread(self, v):
        below = self.from_children(paddle.matmul(self.down_avg, v))
        above = self.from_parent(paddle.matmul(self.up_pick, v))
        return self.tree_ln(v + F.gelu(below + above, approximate=True))

    def forward(self, tokens):
        valid = (tokens != PAD_ID).astype(self.head.dtype).unsqueeze(-1)
        x = self.word_table(tokens)
        for layer in self.encoder:
            x = layer(x, valid)
        v = self.spread(self.attend(x, valid))
        return paddle.sum(v * self.head, axis=-1) + self.offset


def create_network(share):
    return Tagger(share=share, **settings.network)
