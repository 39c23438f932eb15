import math

import paddle
from paddle import nn
from paddle.nn.initializer import Constant, Normal

from .ops import cap, grouped_attention, scale_by_rms, swiglu
from .rotary import Rotary, rotate


def dense(inner, outer, std):
    return nn.Linear(inner, outer, weight_attr=paddle.ParamAttr(initializer=Normal(std=std)), bias_attr=False)


class Gain(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.gain = self.create_parameter([size], default_initializer=Constant(1.0))

    def forward(self, x):
        return scale_by_rms(x, self.gain)


class SelfAttention(nn.Layer):
    def __init__(self, hp):
        super().__init__()
        self.shape = hp.heads, hp.groups, hp.size // hp.heads
        heads, groups, d = self.shape
        self.query = dense(hp.size, heads * d, hp.std)
        self.key = dense(hp.size, groups * d, hp.std)
        self.value = dense(hp.size, groups * d, hp.std)
        self.merge = dense(heads * d, hp.size, hp.std / math.sqrt(2 * hp.depth))
        self.query_gain = Gain(d)
        self.key_gain = Gain(d)

    def forward(self, x, table, memory=None):
        heads, groups, d = self.shape
        query = self.query_gain(self.query(x).reshape([0, 0, heads, d]))
        key = self.key_gain(self.key(x).reshape([0, 0, groups, d]))
        value = self.value(x).reshape([0, 0, groups, d])
        query, key = rotate(query, *table), rotate(key, *table)
        past = 0
        if memory is not None:
            past = memory.length
            key, value = memory.extend(key, value)
        return self.merge(grouped_attention(query, key, value, past))


class DecoderLayer(nn.Layer):
    def __init__(self, hp):
        super().__init__()
        self.before_attention = Gain(hp.size)
        self.attention = SelfAttention(hp)
        self.before_mlp = Gain(hp.size)
        self.expand_gate = dense(hp.size, hp.hidden, hp.std)
        self.expand_up = dense(hp.size, hp.hidden, hp.std)
        self.contract = dense(hp.hidden, hp.size, hp.std / math.sqrt(2 * hp.depth))

    def forward(self, x, table, memory=None):
        x = x + self.attention(self.before_attention(x), table, memory)
        normed = self.before_mlp(x)
        both = paddle.concat([self.expand_gate(normed), self.expand_up(normed)], axis=-1)
        return x + self.contract(swiglu(both))


class Memory:
    """What a layer remembers of earlier positions while text is generated."""

    def __init__(self):
        self.key = self.value = None

    @property
    def length(self):
        return 0 if self.key is None else self.key.shape[1]

    def extend(self, key, value):
        if self.key is not None:
            key = paddle.concat([self.key, key], axis=1)
            value = paddle.concat([self.value, value], axis=1)
        self.key, self.value = key, value
        return key, value


class Decoder(nn.Layer):
    def __init__(self, hp):
        super().__init__()
        self.hp = hp
        self.bytes = nn.Embedding(hp.symbols, hp.size, weight_attr=paddle.ParamAttr(initializer=Normal(std=hp.std)))
        self.layers = nn.LayerList([DecoderLayer(hp) for _ in range(hp.depth)])
        self.final = Gain(hp.size)
        self.rotary = Rotary(hp.size // hp.heads, hp.positions, hp.base)

    def forward(self, symbols, memories=None):
        begin = memories[0].length if memories else 0
        x = self.bytes(symbols) * self.hp.size**0.5
        table = self.rotary.rows(begin, begin + symbols.shape[1], x.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x, table, memories[i] if memories else None)
        # the embedding is the classifier, too
        scores = paddle.matmul(self.final(x), self.bytes.weight, transpose_y=True)
        return cap(scores, self.hp.cap)

    @paddle.no_grad()
    def complete(self, symbols, count):
        memories = [Memory() for _ in self.layers]
        piece = symbols
        for _ in range(count):
            piece = self(piece, memories)[:, -1:].argmax(axis=-1)
            symbols = paddle.concat([symbols, piece], axis=1)
        return symbols
