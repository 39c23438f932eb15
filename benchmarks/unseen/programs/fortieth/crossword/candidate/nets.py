import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Constant, Normal, XavierUniform

from .factory import make, maker

A_TO_Z = 26
SPECIAL = 2  # no slot, empty slot; then the alphabet


def dense(n_in, n_out, init=None, bias=0.0):
    return nn.Linear(n_in, n_out, weight_attr=init or XavierUniform(),
                     bias_attr=False if bias is None else nn.initializer.Constant(bias))


def masked_softmax(score, keep):
    """Softmax over the last axis of what `keep` (bool, broadcast) lets through."""
    return F.softmax(paddle.where(keep, score, paddle.full_like(score, -float("inf"))), axis=-1)


@maker("glu_conv")
class GluConv(nn.Layer):
    def __init__(self, width, taps, spread, layer_scale, p_drop):
        super().__init__()
        self.ln = nn.LayerNorm(width)
        # words lie on axis 1, features last
        self.mix = nn.Conv1D(width, 2 * width, taps, padding=spread * (taps - 1) // 2, dilation=spread,
                             weight_attr=XavierUniform(), bias_attr=Constant(0.0), data_format="NCL")
        self.gamma = self.create_parameter([width], default_initializer=Constant(layer_scale))
        self.p_drop = p_drop

    def forward(self, words, keep):
        h = self.ln(words) * keep
        value, gate = paddle.split(self.mix(h.transpose([0, 2, 1])), 2, axis=1)
        h = (value * F.sigmoid(gate)).transpose([0, 2, 1])
        h = F.dropout(h, self.p_drop, training=self.training)
        return (words + self.gamma * h) * keep


@maker("distance_attention")
class DistanceAttention(nn.Layer):
    def __init__(self, width, n_heads, ffn, layer_scale, p_drop):
        super().__init__()
        self.n_heads, self.per_head, self.p_drop = n_heads, width // n_heads, p_drop
        self.ln_att, self.ln_ffn = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = dense(width, 3 * width)
        self.out = dense(width, width)
        self.pace = self.create_parameter([n_heads], default_initializer=Assign(paddle.linspace(-2.0, 1.0, n_heads)))
        self.ffn_in, self.ffn_out = dense(width, ffn), dense(ffn, width)

    def drop(self, x):
        return F.dropout(x, self.p_drop, training=self.training)

    def forward(self, x, slots):
        h = self.qkv(self.ln_att(x))
        h = h.reshape([0, 0, 3, self.n_heads, self.per_head])
        q, k, v = h.unbind(2)
        score = paddle.einsum("bihd,bjhd->bhij", q, k) * self.per_head ** -0.5
        i = paddle.arange(x.shape[1], dtype=x.dtype)
        gap = (i.unsqueeze(1) - i.unsqueeze(0)).abs()
        score = score - paddle.einsum("h,ij->hij", F.softplus(self.pace), gap)
        att = self.drop(masked_softmax(score, slots.unsqueeze([1, 2])))
        x = x + self.out(paddle.einsum("bhij,bjhd->bihd", att, v).flatten(2))
        return x + self.ffn_out(self.drop(F.gelu(self.ffn_in(self.ln_ffn(x)))))


class WordPool(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.key = dense(width, width)
        self.ask = dense(width, 1, Normal(0.0, 0.2), bias=None)

    def forward(self, words, is_word):
        share = masked_softmax(self.ask(F.tanh(self.key(words))).squeeze(-1), is_word)
        return paddle.einsum("bn,bnd->bd", share, words)


@maker("filler")
class Filler(nn.Layer):
    def __init__(self, width, p_drop, table_std, layer_scale, clue_stack, slot_stack, hash_size, max_words, max_slots):
        super().__init__()
        shared = dict(width=width, layer_scale=layer_scale, p_drop=p_drop)

        def table(rows, pad=None):
            return nn.Embedding(rows, width, padding_idx=pad, weight_attr=Normal(0.0, table_std))

        self.width = width
        self.word_table = table(hash_size + 1, pad=0)
        self.letter_table = table(SPECIAL + A_TO_Z, pad=0)
        self.head_table, self.tail_table = table(max_slots), table(max_slots)
        self.word_position = self.create_parameter([max_words, width], default_initializer=Normal(0.0, 0.02))
        self.clue_stack = nn.LayerList([make(c, **shared) for c in clue_stack])
        self.slot_stack = nn.LayerList([make(c, **shared) for c in slot_stack])
        self.word_pool = WordPool(width)
        self.condition = dense(width + 2, 2 * width, Normal(0.0, 0.05))
        self.last_ln = nn.LayerNorm(width)
        self.stars = dense(2 * width + 1, 1, bias=0.5)
        self.alphabet_bias = self.create_parameter([A_TO_Z], is_bias=True, default_initializer=Constant(0.0))
        self.reuse = self.create_parameter([A_TO_Z], default_initializer=Constant(-0.2))
        self.pad_is_zero()

    @paddle.no_grad()
    def pad_is_zero(self):
        for t in (self.word_table, self.letter_table):
            t.weight[0] = 0.0

    def meaning(self, clue):
        is_word = clue != 0
        words = self.word_table(clue)
        keep = is_word.astype(words.dtype).unsqueeze(-1)
        words = (words + self.word_position) * keep
        for layer in self.clue_stack:
            words = layer(words, keep)
        return self.word_pool(words, is_word)

    def slots(self, pattern, count):
        place = paddle.arange(pattern.shape[1]).unsqueeze(0).expand_as(pattern)
        to_end = (count - 1 - place).clip(min=0)
        return self.letter_table(pattern) + self.head_table(place) + self.tail_table(to_end)

    def forward(self, clue, pattern, flags):
        about = self.meaning(clue)
        is_slot = pattern != 0
        count = is_slot.astype("int64").sum(1, keepdim=True)
        gain, shift = self.condition(paddle.concat([about, flags], axis=-1)).unsqueeze(1).split(2, axis=-1)
        x = self.slots(pattern, count)
        x = x + x * F.tanh(gain) + shift
        for layer in self.slot_stack:
            x = layer(x, is_slot)
        x = self.last_ln(x)

        alphabet = self.letter_table.weight[SPECIAL:]
        logits = F.linear(x, alphabet.T) * self.width ** -0.5 + self.alphabet_bias
        seen = F.one_hot(pattern, SPECIAL + A_TO_Z).astype(x.dtype).sum(1)[:, SPECIAL:]
        logits = logits + (paddle.log1p(seen) * self.reuse).unsqueeze(1)

        n = count.astype(x.dtype)
        mean = paddle.einsum("bnd,bn->bd", x, is_slot.astype(x.dtype)) / n
        open_share = (pattern == 1).astype(x.dtype).sum(1, keepdim=True) / n
        stars = F.softplus(self.stars(paddle.concat([about, mean, open_share], axis=-1)))
        return {"letters": logits, "hard": stars.flatten()}
