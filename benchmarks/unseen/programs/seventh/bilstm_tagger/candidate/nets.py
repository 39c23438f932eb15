import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Constant, Uniform, XavierUniform


def dense(n_in, n_out, bias=0.0):
    return nn.Linear(n_in, n_out, weight_attr=XavierUniform(), bias_attr=False if bias is None else paddle.ParamAttr(initializer=Constant(bias)))


def lookup(rows, width):
    bound = (3.0 / width) ** 0.5
    table = nn.Embedding(rows, width, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=Uniform(-bound, bound)))
    with paddle.no_grad():
        table.weight[0] = 0.0
    return table


class Spelling(nn.Layer):
    """What a word looks like: n-gram filters over its letters."""

    def __init__(self, letters, width, filters, spans=(2, 3)):
        super().__init__()
        self.table = lookup(letters, width)
        self.filters = nn.LayerList([nn.Conv1D(width, filters, s, padding=s // 2, weight_attr=XavierUniform(),
                                               bias_attr=paddle.ParamAttr(initializer=Constant(0.0))) for s in spans])
        self.size = filters * len(spans)
        self.project = dense(self.size, self.size)
        self.carry = dense(self.size, self.size, bias=-2.0)

    def forward(self, letters):
        shape = letters.shape
        letters = letters.reshape([-1, shape[-1]])
        x = self.table(letters).transpose([0, 2, 1])
        used = (letters != 0).astype(x.dtype).unsqueeze(1)
        grams = [f(x)[:, :, :shape[-1]] * used - (1 - used) * 1e4 for f in self.filters]
        y = F.tanh(paddle.concat([g.max(axis=-1) for g in grams], axis=-1))
        share = F.sigmoid(self.carry(y))
        y = y + share * (F.relu(self.project(y)) - y)
        return y.reshape(shape[:2] + [self.size])


class LookAround(nn.Layer):
    def __init__(self, width, inner):
        super().__init__()
        self.q, self.k, self.v = dense(width, inner), dense(width, inner, bias=None), dense(width, width)
        self.ln = nn.LayerNorm(width, epsilon=1e-6)
        self.temperature = inner ** -0.5

    def forward(self, x, valid):
        logits = paddle.matmul(self.q(x) * self.temperature, self.k(x), transpose_y=True)
        logits = paddle.where(valid.unsqueeze(1).expand_as(logits), logits, paddle.full_like(logits, -1e9))
        return self.ln(x + paddle.matmul(F.softmax(logits, axis=-1), self.v(x)))


def glorot_cells(rnn, forget=None):
    """Xavier for the matrices, zeros for the biases; `forget` is the initial bias of an LSTM's forget gate."""
    for name, p in rnn.named_parameters():
        if p.ndim == 2:
            XavierUniform()(p)
        else:
            values = paddle.zeros_like(p)
            if forget is not None and "bias_ih" in name:
                quarter = p.shape[0] // 4
                values[quarter:2 * quarter] = forget
            Assign(values)(p)


class SequenceLabeller(nn.Layer):
    def __init__(self, tokens, letters, tags, width=20, letter_width=10, filters=12, units=24, inner=32, drop=0.3):
        super().__init__()
        self.tokens = lookup(tokens, width)
        self.spelling = Spelling(letters, letter_width, filters)
        self.drop = nn.Dropout(drop)
        self.first = nn.LSTM(width + self.spelling.size, units, direction="bidirect")
        self.second = nn.GRU(2 * units, units, direction="bidirect")
        glorot_cells(self.first, forget=1.0)
        glorot_cells(self.second)
        self.summary = dense(4 * units, 2 * units)
        self.around = LookAround(2 * units, inner)
        self.squeeze = dense(2 * units, units)
        self.classify = dense(units, tags)

    def encode(self, x, lengths):
        low, (last, _) = self.first(self.drop(x), sequence_length=lengths)
        high, _ = self.second(self.drop(low), sequence_length=lengths)
        return low + high, paddle.concat([last[0], last[1]], axis=-1)

    def forward(self, ids, letters, lengths):
        valid = F.sequence_mask(lengths, maxlen=ids.shape[1], dtype="bool")
        x = paddle.concat([self.tokens(ids), self.spelling(letters)], axis=-1)
        h, last = self.encode(x, lengths)
        weight = valid.astype(h.dtype).unsqueeze(-1)
        mean = (h * weight).sum(axis=1) / weight.sum(axis=1)
        h = h * F.sigmoid(self.summary(paddle.concat([mean, last], axis=-1))).unsqueeze(1)
        h = self.around(h, valid)
        h = F.gelu(self.squeeze(self.drop(h)))
        return self.classify(self.drop(h)) * weight
