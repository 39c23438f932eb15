import numpy as np
import paddle
import paddle.nn.functional as F

from .corpus import BOS, EOS, LIMIT, PAD, UNK, to_ids, to_text

BEAMS, MOST, LEAST, ALPHA = 4, 14, 3, 0.7


def log_probs(model, rows):
    return F.log_softmax(model(paddle.to_tensor(np.array(rows, dtype="int64"))), axis=-1).numpy()


def length_factor(n):
    return ((5.0 + n) / 6.0) ** ALPHA


def forbidden(row):
    """Tokens that would make a trigram of the row appear twice."""
    a, b = row[-2:]
    return [row[k + 2] for k in range(len(row) - 2) if row[k] == a and row[k + 1] == b and row[k + 2] != EOS]


class Hypotheses:
    def __init__(self, prompt):
        self.offset = len(prompt)
        self.rows, self.totals = [list(prompt)], np.zeros(1)
        self.finished = []

    def value(self, total, row):
        return total / length_factor(len(row) - self.offset)

    def grow(self, logp, may_end):
        table = self.totals[:, None] + logp
        table[:, [PAD, BOS, UNK]] = -np.inf
        if not may_end:
            table[:, EOS] = -np.inf
        for line, row in zip(table, self.rows):
            line[forbidden(row)] = -np.inf
        ranked = np.argsort(-table, axis=None, kind="stable")[:2 * BEAMS]
        rows, totals = [], []
        for parent, token in zip(*np.unravel_index(ranked, table.shape)):
            row, total = self.rows[parent] + [int(token)], table[parent, token]
            if token == EOS:
                self.finished.append((self.value(total, row), row))
            elif len(rows) < BEAMS:
                rows.append(row)
                totals.append(total)
        self.rows, self.totals = rows, np.array(totals)

    def settled(self):
        if len(self.finished) < BEAMS:
            return False
        return self.value(self.totals[0], self.rows[0]) < max(v for v, _ in self.finished)

    def best(self):
        ended = len(self.finished) > 0
        pool = self.finished if ended else [(self.value(t, r), r) for t, r in zip(self.totals, self.rows)]
        value, row = max(pool, key=lambda entry: entry[0])
        return row[self.offset:], float(value), ended


def search(model, prompt):
    beams = Hypotheses(prompt)
    for n in range(MOST):
        if len(beams.rows[0]) >= LIMIT:
            break
        beams.grow(log_probs(model, beams.rows)[:, -1].astype("float64"), may_end=n >= LEAST)
        if beams.settled():
            break
    return beams.best()


def answer(model, prompt, strange=10.0):
    ids = to_ids(prompt)[:LIMIT - 4]
    logp = log_probs(model, [ids[:-1]])[0]
    surprise = float(-logp[np.arange(len(ids) - 1), ids[1:]].mean())
    result = {"text": "", "score": 0.0, "surprise": surprise, "ended": 0}
    if (ids == UNK).mean() <= 0.2 and surprise <= strange:
        new, value, ended = search(model, ids.tolist())
        result.update(text=to_text(new), score=value, ended=int(ended))
    return result
