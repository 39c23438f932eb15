import paddle
import paddle.nn.functional as F
from paddle import nn

from .options import opt
from .text import PAD, english, french


class AdditiveAttention(nn.Layer):
    def __init__(self, state, memory, width):
        super().__init__()
        self.w_state = nn.Linear(state, width)
        self.w_memory = nn.Linear(memory, width, bias_attr=False)
        self.v = nn.Linear(width, 1, bias_attr=False)

    def prepare(self, memory):
        return self.w_memory(memory)

    def forward(self, state, prepared, memory, valid):
        e = self.v(F.tanh(prepared + self.w_state(state)[:, None]))[:, :, 0]
        e = paddle.where(valid, e, paddle.full_like(e, -1e30))
        weights = F.softmax(e, axis=1)
        return paddle.einsum("bt,btd->bd", weights, memory), weights


class Seq2Seq(nn.Layer):
    def __init__(self):
        super().__init__()
        e, h = opt.emb, opt.hidden
        self.source = nn.Embedding(len(english.words), e, padding_idx=PAD)
        self.reader = nn.BiRNN(nn.GRUCell(e, h), nn.GRUCell(e, h))
        self.start = nn.Linear(h, h)
        self.target = nn.Embedding(len(french.words), e, padding_idx=PAD)
        self.attend = AdditiveAttention(h, 2 * h, opt.attn)
        self.cell = nn.GRUCell(e + 2 * h, h)
        self.mix = nn.Linear(3 * h + e, 2 * opt.readout)
        self.project = nn.Linear(opt.readout, len(french.words))

    def read(self, src, src_len):
        x = self.source(src)
        zero = paddle.zeros([src.shape[0], opt.hidden], dtype=x.dtype)
        memory, (_, backward) = self.reader(x, (zero, zero), sequence_length=src_len)
        valid = paddle.arange(src.shape[1]).unsqueeze(0) < src_len.unsqueeze(1)
        return memory, self.attend.prepare(memory), valid, F.tanh(self.start(backward))

    def advance(self, word, state, memory, prepared, valid):
        """one word further: logits, new state, attention"""
        x = self.target(word)
        context, weights = self.attend(state, prepared, memory, valid)
        _, state = self.cell(paddle.concat([x, context], axis=1), state)
        pieces = self.mix(paddle.concat([state, context, x], axis=1))
        return self.project(pieces.reshape([len(pieces), -1, 2]).max(axis=2)), state, weights

    def forward(self, src, src_len, tgt):
        memory, prepared, valid, state = self.read(src, src_len)
        steps = []
        for word in tgt.unbind(axis=1):
            logits, state, weights = self.advance(word, state, memory, prepared, valid)
            steps.append((logits, weights))
        logits, weights = zip(*steps)
        return {"logits": paddle.stack(logits, axis=1), "attn": paddle.stack(weights, axis=1)}
