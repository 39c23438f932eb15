import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def erf_gelu(x):
    return x * (paddle.erf(x * (2.0 ** -0.5)) + 1.0) * 0.5


def relative_buckets(length, buckets, far):
    """numpy table [query, key] of bucket numbers"""
    position = np.arange(length)
    rel = position[None, :] - position[:, None]
    half = buckets // 2
    exact = half // 2
    distance = np.abs(rel)
    with np.errstate(divide="ignore"):
        logarithm = np.log(distance.astype("float32") / exact) / math.log(far / exact)
    far_away = exact + np.where(distance > 0, logarithm, 0.0).astype("float32") * (half - exact)
    far_away = np.minimum(far_away.astype("int64"), half - 1)
    number = np.where(distance < exact, distance, far_away)
    return number + half * (rel > 0)


class Embeddings(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.word = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.segment = nn.Embedding(2, cfg.hidden_size)
        self.norm = nn.LayerNorm(cfg.hidden_size, epsilon=cfg.layer_norm_eps)
        self.drop = nn.Dropout(cfg.dropout)
        self.factor = math.sqrt(cfg.hidden_size) if cfg.scale_embedding else 1.0

    def forward(self, ids, types):
        return self.drop(self.norm(self.word(ids) * self.factor + self.segment(types)))


class RelativeBias(nn.Layer):
    """one table for all layers"""

    def __init__(self, cfg, longest=64):
        super().__init__()
        self.table = nn.Embedding(cfg.relative_buckets, cfg.num_heads)
        numbers = relative_buckets(longest, cfg.relative_buckets, cfg.relative_far)
        self.register_buffer("numbers", paddle.to_tensor(numbers), persistable=False)

    def forward(self, length):
        bias = self.table(self.numbers[:length, :length])
        return bias.transpose([2, 0, 1]).unsqueeze(0)


class SelfAttention(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.num_heads
        self.size = cfg.hidden_size // cfg.num_heads
        self.query = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.key = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.value = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.out = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.drop = nn.Dropout(cfg.dropout)

    def split(self, x):
        return x.reshape([0, 0, self.heads, self.size]).transpose([0, 2, 1, 3])

    def forward(self, x, bias, penalty):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = paddle.matmul(q, k, transpose_y=True) * self.size ** -0.5
        weights = self.drop(F.softmax(scores + bias + penalty, axis=-1))
        mixed = paddle.matmul(weights, v).transpose([0, 2, 1, 3])
        return self.out(mixed.reshape([0, 0, self.heads * self.size]))


class GatedFeedForward(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.inner = nn.Linear(cfg.hidden_size, 2 * cfg.intermediate)
        self.outer = nn.Linear(cfg.intermediate, cfg.hidden_size)

    def forward(self, x):
        gate, value = paddle.chunk(self.inner(x), 2, axis=-1)
        return self.outer(erf_gelu(gate) * value)


class Block(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.norm_attn = nn.LayerNorm(cfg.hidden_size, epsilon=cfg.layer_norm_eps)
        self.attn = SelfAttention(cfg)
        self.norm_ffn = nn.LayerNorm(cfg.hidden_size, epsilon=cfg.layer_norm_eps)
        self.ffn = GatedFeedForward(cfg)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, bias, penalty):
        x = x + self.drop(self.attn(self.norm_attn(x), bias, penalty))
        return x + self.drop(self.ffn(self.norm_ffn(x)))


class LMHead(nn.Layer):
    """dense, gelu, norm, and the word table once more"""

    def __init__(self, cfg, word_weight):
        super().__init__()
        self.dense = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.norm = nn.LayerNorm(cfg.hidden_size, epsilon=cfg.layer_norm_eps)
        self.bias = self.create_parameter([cfg.vocab_size], is_bias=True)
        self._tied = [word_weight]

    def forward(self, hidden):
        x = self.norm(erf_gelu(self.dense(hidden)))
        return F.linear(x, self._tied[0].t(), self.bias)


class RelativeBertForMaskedLM(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embeddings = Embeddings(cfg)
        self.position = RelativeBias(cfg)
        self.blocks = nn.LayerList([Block(cfg) for _ in range(cfg.num_layers)])
        self.final = nn.LayerNorm(cfg.hidden_size, epsilon=cfg.layer_norm_eps)
        self.head = LMHead(cfg, self.embeddings.word.weight)

    def forward(self, input_ids, token_type_ids):
        x = self.embeddings(input_ids, token_type_ids)
        bias = self.position(input_ids.shape[1])
        padding = (input_ids == self.cfg.pad_id).astype(x.dtype)
        penalty = padding.unsqueeze([1, 2]) * -1e9
        for block in self.blocks:
            x = block(x, bias, penalty)
        x = self.final(x)
        return {"logits": self.head(x), "pooled": x[:, 0]}
