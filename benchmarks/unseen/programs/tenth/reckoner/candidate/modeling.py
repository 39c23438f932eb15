import math
from dataclasses import dataclass

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


@dataclass
class DecoderConfig:
    vocab_size: int
    hidden_size: int = 36
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 12
    rotary_dim: int = 8
    rope_base: float = 500.0
    intermediate_size: int = 56
    rms_eps: float = 1e-6
    sliding_window: int = 9
    attention_cap: float = 8.0
    final_cap: float = 15.0
    dropout: float = 0.1
    initializer_range: float = 0.08

    @property
    def residual_std(self):
        return self.initializer_range / math.sqrt(2 * self.num_layers)


def linear(n_in, n_out, std):
    attr = paddle.ParamAttr(initializer=nn.initializer.Normal(mean=0.0, std=std))
    return nn.Linear(n_in, n_out, weight_attr=attr, bias_attr=False)


def soft_cap(x, cap):
    return paddle.tanh(x / cap) * cap


class UnitRMSNorm(nn.Layer):
    """The scale is stored as its distance from one."""

    def __init__(self, size, eps):
        super().__init__()
        self.eps = eps
        self.weight = self.create_parameter([size], default_initializer=nn.initializer.Constant(0.0))

    def forward(self, x):
        variance = paddle.mean(paddle.square(x), axis=-1, keepdim=True)
        return x / paddle.sqrt(variance + self.eps) * (self.weight + 1.0)


class RotaryEmbedding(nn.Layer):
    def __init__(self, dim, base):
        super().__init__()
        inv_freq = np.power(base, -np.arange(0, dim, 2, dtype="float64") / dim)
        self.register_buffer("inv_freq", paddle.to_tensor(inv_freq, dtype=paddle.get_default_dtype()), persistable=False)

    def forward(self, position_ids):
        angle = position_ids.astype(self.inv_freq.dtype).unsqueeze(-1) * self.inv_freq
        angle = paddle.repeat_interleave(angle, 2, axis=-1).unsqueeze(2)      # [B, T, 1, dim], each angle twice
        return paddle.cos(angle), paddle.sin(angle)


def swap_pairs(x):
    """(a, b, c, d) becomes (-b, a, -d, c)."""
    pairs = x.reshape(x.shape[:-1] + [-1, 2])
    a, b = paddle.unbind(pairs, axis=-1)
    return paddle.stack([-b, a], axis=-1).reshape(x.shape)


def apply_rotary(x, cos, sin):
    dim = cos.shape[-1]
    rotated, passed = paddle.split(x, [dim, x.shape[-1] - dim], axis=-1)
    rotated = rotated * cos + swap_pairs(rotated) * sin
    return paddle.concat([rotated, passed], axis=-1)


class GroupedQueryAttention(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = linear(c.hidden_size, c.num_heads * c.head_dim, c.initializer_range)
        self.kv_proj = linear(c.hidden_size, 2 * c.num_kv_heads * c.head_dim, c.initializer_range)
        self.o_proj = linear(c.num_heads * c.head_dim, c.hidden_size, c.residual_std)
        self.q_norm = UnitRMSNorm(c.head_dim, c.rms_eps)
        self.k_norm = UnitRMSNorm(c.head_dim, c.rms_eps)

    def forward(self, x, rotary, bias):
        c = self.c
        batch, length = x.shape[0], x.shape[1]
        q = self.q_proj(x).reshape([batch, length, c.num_heads, c.head_dim])
        k, v = paddle.chunk(self.kv_proj(x), 2, axis=-1)
        k = k.reshape([batch, length, c.num_kv_heads, c.head_dim])
        v = v.reshape([batch, length, c.num_kv_heads, c.head_dim])
        q = apply_rotary(self.q_norm(q), *rotary)
        k = apply_rotary(self.k_norm(k), *rotary)
        repeats = c.num_heads // c.num_kv_heads
        k = paddle.repeat_interleave(k, repeats, axis=2)
        v = paddle.repeat_interleave(v, repeats, axis=2)
        q, k, v = (t.transpose([0, 2, 1, 3]) for t in (q, k, v))
        weights = paddle.matmul(q, k, transpose_y=True) * c.head_dim ** -0.5
        weights = F.softmax(soft_cap(weights, c.attention_cap) + bias, axis=-1)
        merged = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, -1])
        return self.o_proj(merged)


class GatedMLP(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = linear(c.hidden_size, c.intermediate_size, c.initializer_range)
        self.up_proj = linear(c.hidden_size, c.intermediate_size, c.initializer_range)
        self.down_proj = linear(c.intermediate_size, c.hidden_size, c.residual_std)

    def forward(self, x):
        return self.down_proj(F.swish(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.input_norm = UnitRMSNorm(c.hidden_size, c.rms_eps)
        self.attention = GroupedQueryAttention(c)
        self.post_norm = UnitRMSNorm(c.hidden_size, c.rms_eps)
        self.mlp = GatedMLP(c)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, rotary, bias):
        h = self.attention(self.input_norm(x), rotary, bias)
        x = x + self.dropout(h)
        h = self.mlp(self.post_norm(x))
        return x + self.dropout(h)


class DecoderLM(nn.Layer):
    def __init__(self, config):
        super().__init__()
        c = self.config = config
        attr = paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, c.initializer_range), learning_rate=0.5)
        self.embeddings = nn.Embedding(c.vocab_size, c.hidden_size, weight_attr=attr)
        self.rotary = RotaryEmbedding(c.rotary_dim, c.rope_base)
        self.layers = nn.LayerList([DecoderLayer(c) for _ in range(c.num_layers)])
        self.final_norm = UnitRMSNorm(c.hidden_size, c.rms_eps)

    def attention_bias(self, segments, dtype):
        length = segments.shape[1]
        ones = paddle.ones([length, length], dtype="int32")
        band = paddle.tril(ones) - paddle.tril(ones, diagonal=-self.config.sliding_window)
        same = paddle.equal(segments.unsqueeze(2), segments.unsqueeze(1))
        allowed = paddle.logical_and(band.astype("bool").unsqueeze(0), same)
        return (1.0 - allowed.astype(dtype)).unsqueeze(1) * -1e9

    def forward(self, tokens, segments, positions):
        x = self.embeddings(tokens) * self.config.hidden_size ** 0.5
        bias = self.attention_bias(segments, x.dtype)
        rotary = self.rotary(positions)
        for layer in self.layers:
            x = layer(x, rotary, bias)
        logits = paddle.matmul(self.final_norm(x), self.embeddings.weight, transpose_y=True)
        return soft_cap(logits, self.config.final_cap)
