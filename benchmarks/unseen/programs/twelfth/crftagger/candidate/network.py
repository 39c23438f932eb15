import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

from chain import walls
from options import section
from text import CHARS, TAGS, WORDS


def linear(cin, cout, bias=True):
    return nn.Linear(cin, cout, weight_attr=I.XavierUniform(), bias_attr=I.Constant(0.0) if bias else False)


def embedding(size, dim):
    bound = (3.0 / dim) ** 0.5
    return nn.Embedding(size, dim, padding_idx=0, weight_attr=I.Uniform(-bound, bound))


def gru_cell(cin, hidden):
    bound = hidden ** -0.5
    flat = I.Uniform(-bound, bound)
    return nn.GRUCell(cin, hidden, weight_ih_attr=flat, weight_hh_attr=I.XavierUniform(),
                      bias_ih_attr=flat, bias_hh_attr=flat)


class Characters(nn.Layer):
    def __init__(self, dim, filters, window):
        super().__init__()
        self.table = embedding(len(CHARS), dim)
        bound = (dim * window) ** -0.5
        self.conv = nn.Conv1D(dim, filters, window, padding="SAME", data_format="NLC",
                              weight_attr=I.Uniform(-bound, bound), bias_attr=I.Uniform(-bound, bound))

    def forward(self, chars):
        b, t, c = chars.shape
        chars = chars.reshape([-1, c])
        present = (chars != 0).unsqueeze(-1)
        x = self.conv(self.table(chars))
        x = paddle.where(present, x, paddle.full_like(x, -1e4)).max(axis=1)
        x = F.tanh(x) * present.any(axis=1).astype(x.dtype)
        return x.reshape([b, t, -1])


class Bidirectional(nn.Layer):
    """A GRU in both directions that keeps its state over padding."""

    def __init__(self, cin, hidden):
        super().__init__()
        self.right = gru_cell(cin, hidden)
        self.left = gru_cell(cin, hidden)
        self.hidden = hidden

    def run(self, cell, x, mask, order):
        state = paddle.zeros([x.shape[0], self.hidden], dtype=x.dtype)
        outputs = {}
        for t in order:
            keep = mask[:, t].unsqueeze(-1)
            new, _ = cell(x[:, t], state)
            state = keep * new + (1 - keep) * state
            outputs[t] = state * keep
        return paddle.stack([outputs[t] for t in sorted(outputs)], axis=1)

    def forward(self, x, mask):
        steps = range(x.shape[1])
        return paddle.concat([self.run(self.right, x, mask, steps), self.run(self.left, x, mask, reversed(steps))], axis=-1)


class Attention(nn.Layer):
    def __init__(self, dim, heads, reach):
        super().__init__()
        self.heads, self.reach, self.size = heads, reach, dim // heads
        self.q = linear(dim, dim)
        self.k = linear(dim, dim, bias=False)
        self.v = linear(dim, dim)
        self.o = linear(dim, dim)
        self.distance = self.create_parameter([heads, 2 * reach + 1], default_initializer=I.Normal(0.0, 0.1))

    def bias(self, length):
        at = paddle.arange(length)
        gap = paddle.clip(at.unsqueeze(0) - at.unsqueeze(1), -self.reach, self.reach) + self.reach
        return paddle.index_select(self.distance, gap.flatten(), axis=1).reshape([self.heads, length, length])

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (f(x).reshape([b, t, self.heads, self.size]) for f in (self.q, self.k, self.v))
        logits = paddle.einsum("bihd,bjhd->bhij", q * self.size ** -0.5, k) + self.bias(t)
        logits = logits + (mask.unsqueeze([1, 2]) - 1) * 1e9
        mixed = paddle.einsum("bhij,bjhd->bihd", F.softmax(logits, axis=-1), v)
        return self.o(mixed.reshape([b, t, d]))


class SequenceTagger(nn.Layer):
    def __init__(self):
        super().__init__()
        cfg = section("network")
        width, hidden = cfg["words"] + cfg["filters"], cfg["hidden"]
        self.words = embedding(len(WORDS), cfg["words"])
        self.chars = Characters(cfg["chars"], cfg["filters"], cfg["window"])
        self.gate = linear(width, width)
        self.rnn = Bidirectional(width, hidden)
        self.attention = Attention(2 * hidden, cfg["heads"], cfg["reach"])
        self.norm = nn.LayerNorm(2 * hidden, epsilon=cfg["epsilon"])
        self.drop = nn.Dropout(cfg["dropout"])
        self.emit = linear(2 * hidden, len(TAGS))
        normal = I.Normal(0.0, 0.1)
        self.transitions = self.create_parameter([len(TAGS) + 1, len(TAGS)], default_initializer=normal)
        self.final = self.create_parameter([len(TAGS)], default_initializer=normal)
        self.register_buffer("wall", paddle.to_tensor(walls(TAGS)), persistable=False)

    def forward(self, words, chars):
        x = paddle.concat([self.words(words), self.chars(chars)], axis=-1)
        x = self.drop(x * F.sigmoid(self.gate(x)))
        mask = (words != 0).astype(x.dtype)
        h = self.rnn(x, mask)
        h = self.norm(h + self.drop(self.attention(h, mask)))
        scores = self.emit(h).unsqueeze(2) + self.transitions + self.wall
        lengths = mask.sum(axis=1).astype("int64")
        last = F.one_hot(lengths - 1, words.shape[1]).astype(x.dtype)
        return scores + last.unsqueeze([2, 3]) * self.final
