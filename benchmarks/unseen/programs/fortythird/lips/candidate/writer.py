"""Letter after letter, with an eye on the frames."""
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Assign, Constant, Normal

from . import alphabet
from .plain import conv1d, linear

STATE, ROOM, LETTER = 20, 16, 12


class Gaze(nn.Layer):
    """Where to look: by what is asked, what is there, and where one has looked."""

    def __init__(self, seen):
        super().__init__()
        self.question, self.answer = linear(STATE, ROOM), linear(seen, ROOM, bias=False)
        self.trail = conv1d(2, 4, 5, bias=False)
        self.spot = linear(4, ROOM, bias=False)
        self.worth = self.create_parameter([ROOM], default_initializer=Normal(0.0, ROOM ** -0.5))
        self.focus = self.create_parameter([], default_initializer=Constant(0.0))

    def forward(self, h, answers, last, total, shut):
        trail = self.trail(paddle.stack([last, total], axis=1)).transpose([0, 2, 1])
        mixed = paddle.tanh(self.question(h)[:, None] + answers + self.spot(trail))
        return F.softmax(paddle.einsum("btr,r->bt", mixed, self.worth) * self.focus.exp() + shut, axis=-1)


class Writer(nn.Layer):
    def __init__(self, seen):
        super().__init__()
        remember = np.repeat(np.array([0.0, 1.0, 0.0, 0.0], "float32"), STATE)
        self.signs = nn.Embedding(len(alphabet.SIGNS), LETTER, padding_idx=alphabet.NOTHING,
                                  weight_attr=Normal(0.0, LETTER ** -0.5))
        self.wake = linear(seen, 2 * STATE)
        self.hand = nn.LSTMCell(LETTER + seen, STATE, bias_ih_attr=Assign(remember), bias_hh_attr=Constant(0.0))
        self.gaze = Gaze(seen)
        self.sketch = linear(STATE + seen, LETTER)
        self.liking = self.create_parameter([len(alphabet.SIGNS)], is_bias=True)

    def open(self, seen, there):
        mean = paddle.einsum("bt,btc->bc", there, seen) / there.sum(axis=1, keepdim=True)
        h, c = self.wake(mean).tanh().split(2, axis=1)
        none = paddle.zeros_like(there)
        return {"hand": (h, c), "view": paddle.zeros_like(mean), "last": none, "total": none,
                "answers": self.gaze.answer(seen), "shut": (there - 1) * 1e9, "seen": seen}

    def write(self, now, sign):
        word = paddle.concat([self.signs(sign), now["view"]], axis=-1)
        h, hand = self.hand(word, now["hand"])
        gaze = self.gaze(h, now["answers"], now["last"], now["total"], now["shut"])
        view = paddle.einsum("bt,btc->bc", gaze, now["seen"])
        drawn = paddle.tanh(self.sketch(paddle.concat([h, view], axis=-1)))
        odds = F.linear(drawn, self.signs.weight.t(), self.liking)
        return dict(now, hand=hand, view=view, last=gaze, total=now["total"] + gaze), odds

    def forward(self, seen, there, given):
        now, odds, gazes = self.open(seen, there), [], []
        for sign in given.unbind(axis=1):
            now, each = self.write(now, sign)
            odds.append(each)
            gazes.append(now["last"])
        return paddle.stack(odds, axis=1), paddle.stack(gazes, axis=1)

    def spell(self, seen, there):
        """Greedily: codes, how sure of each, and the mean frame looked at."""
        now, sign = self.open(seen, there), paddle.full([1], alphabet.OPEN, dtype="int64")
        place = paddle.arange(there.shape[1]).astype(seen.dtype)
        codes, sure, places = [], [], []
        while len(codes) < alphabet.SLOTS and alphabet.CLOSE not in codes:
            now, odds = self.write(now, sign)
            logs = F.log_softmax(odds[:, alphabet.CLOSE:], axis=-1)
            sign = logs.argmax(axis=-1) + alphabet.CLOSE
            codes.append(sign.item())
            sure.append(float(logs.max()))
            places.append((now["last"][0] * place).sum())
        return codes, sure, paddle.stack(places)
