import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I

_root = os.path.dirname(os.path.abspath(__file__))
if _root not in sys.path:
    sys.path.append(_root)
from settings import DATA, LABELS, MODEL, OPTIM  # noqa: E402

LABEL_ID = {name: i for i, name in enumerate(LABELS)}


def data_file(name):
    return os.path.join(os.path.dirname(_root), "data", name)


def load_sentences(split):
    with open(data_file(split + ".conll"), encoding="utf-8") as f:
        blocks = f.read().strip().split("\n\n")
    return [tuple(zip(*(row.split() for row in b.splitlines()))) for b in blocks]


class Vocabulary:
    def __init__(self):
        tokens = set()
        for words, _ in load_sentences("train"):
            tokens.update(w.lower() for w in words)
        self.table = {t: i for i, t in enumerate(["<pad>", "<unk>"] + sorted(tokens))}

    def __len__(self):
        return len(self.table)

    def __call__(self, words):
        n = min(len(words), DATA["max_len"])
        grid = np.zeros((2, DATA["max_len"]), dtype="int64")
        for i in range(n):
            w = words[i]
            grid[0, i] = self.table.get(w.lower(), 1)
            has_letter = any(map(str.isalpha, w))
            grid[1, i] = (1 if w[0].isupper() else 2) if has_letter else 3
        return grid[0], grid[1], np.int64(n)


vocab = Vocabulary()


class NerDataset(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.rows = []
        for words, names in load_sentences(split):
            ids, shapes, n = vocab(words)
            tags = np.pad([LABEL_ID[x] for x in names[:n]], (0, DATA["max_len"] - n)).astype("int64")
            self.rows.append((ids, shapes, n, {"tags": tags, "length": n}))

    def __getitem__(self, idx):
        return self.rows[idx]

    def __len__(self):
        return len(self.rows)


def embedding(num, dim):
    k = (3.0 / dim) ** 0.5
    return nn.Embedding(num, dim, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=I.Uniform(-k, k)))


class BiLstmCrf(nn.Layer):
    def __init__(self, num_words, num_tags, word_size, shape_size, lstm_size, drop_rate):
        super().__init__()
        score_attr = paddle.ParamAttr(initializer=I.Uniform(-0.1, 0.1))
        # row: previous tag, column: next tag
        self.transitions = self.create_parameter([num_tags, num_tags], attr=score_attr)
        self.begin = self.create_parameter([num_tags], attr=score_attr)
        self.finish = self.create_parameter([num_tags], attr=score_attr)
        self.shape_emb = embedding(4, shape_size)
        self.word_emb = embedding(num_words, word_size)
        self.dropout = nn.Dropout(drop_rate)
        self.encoder = nn.LSTM(word_size + shape_size, lstm_size, direction="bidirect")
        self.fc = nn.Linear(2 * lstm_size, num_tags, weight_attr=I.XavierUniform(), bias_attr=I.Constant(0.0))
        self._init_lstm(lstm_size)

    def _init_lstm(self, size):
        forget = np.repeat([0.0, 1.0, 0.0, 0.0], size).astype("float32")
        for name, p in self.encoder.named_parameters():
            kind = name.rsplit(".", 1)[-1]
            if kind.startswith("weight"):
                # LSTM matrices are kept as [out, in] in Paddle, the reverse of Linear
                rule = I.Orthogonal() if "hh" in kind else I.XavierUniform(fan_in=p.shape[1], fan_out=p.shape[0])
                rule(p)
            else:
                p.set_value(forget if "ih" in kind else np.zeros_like(forget))

    def crf_parameters(self):
        return [self.transitions, self.begin, self.finish]

    def forward(self, ids, shapes, lengths):
        feats = paddle.concat([self.word_emb(ids), self.shape_emb(shapes)], axis=-1)
        states, _ = self.encoder(self.dropout(feats), sequence_length=lengths)
        mask = F.sequence_mask(lengths, maxlen=ids.shape[1], dtype="float32")
        scores = self.fc(self.dropout(states)) * mask.unsqueeze(-1)
        return dict(emissions=scores, mask=mask, trans=self.transitions, start=self.begin, end=self.finish)


def crf_nll(out, tags):
    e, mask = out["emissions"], out["mask"]
    num_tags = e.shape[-1]
    alpha = e[:, 0] + out["start"]
    for score, keep in zip(paddle.unbind(e, 1)[1:], paddle.unbind(mask, 1)[1:]):
        new = paddle.logsumexp(alpha.unsqueeze(-1) + out["trans"], axis=1) + score
        keep = keep.unsqueeze(-1)
        alpha = keep * new + (1.0 - keep) * alpha
    log_z = paddle.logsumexp(alpha + out["end"], axis=-1)
    hot = F.one_hot(tags, num_tags) * mask.unsqueeze(-1)
    unary = (hot * e).sum(axis=[1, 2])
    pair = (paddle.matmul(hot[:, :-1], out["trans"]) * hot[:, 1:]).sum(axis=[1, 2])
    is_last = mask - paddle.concat([mask[:, 1:], paddle.zeros_like(mask[:, :1])], axis=1)
    edge = (hot[:, 0] * out["start"]).sum(-1) + ((hot * is_last.unsqueeze(-1)).sum(1) * out["end"]).sum(-1)
    return log_z - unary - pair - edge


def build_model():
    return BiLstmCrf(len(vocab), len(LABELS), **MODEL)


def build_dataset(split):
    return NerDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(NerDataset(split), batch_size=DATA["batch_size"], shuffle=(split == "train"))


def loss(outputs, labels):
    nll = crf_nll(outputs, labels["tags"])
    return {"loss": nll.mean(), "per_token": (nll.sum() / outputs["mask"].sum()).detach()}


def best_paths(outputs, lengths):
    get = lambda k: outputs[k].numpy()  # noqa: E731
    trans, start, end = get("trans"), get("start"), get("end")
    result = []
    for e, n in zip(get("emissions"), np.asarray(lengths)):
        score, pointers = start + e[0], np.zeros((n, len(LABELS)), dtype=int)
        for t in range(1, n):
            table = score[:, None] + trans
            pointers[t] = table.argmax(0)
            score = table.max(0) + e[t]
        path = [int(np.argmax(score + end))]
        for t in range(n - 1, 0, -1):
            path.insert(0, int(pointers[t, path[0]]))
        result.append(path)
    return result


class SpanScore:
    """Counts kept over sentences; f1() at the end."""

    def __init__(self):
        self.correct = self.guessed = self.gold = self.same = self.tokens = 0

    @staticmethod
    def chunks(ids):
        found, open_ = [], None
        for i, k in enumerate(ids):
            prefix, _, kind = LABELS[k].partition("-")
            if open_ and not (prefix == "I" and kind == open_[1]):
                found.append((open_[0], i, open_[1]))
                open_ = None
            if prefix == "B":
                open_ = (i, kind)
        if open_:
            found.append((open_[0], len(ids), open_[1]))
        return set(found)

    def update(self, guess, truth):
        g, t = self.chunks(guess), self.chunks(truth)
        self.correct += len(g.intersection(t))
        self.guessed += len(g)
        self.gold += len(t)
        self.same += int(np.sum(np.array(guess) == np.array(truth)))
        self.tokens += len(truth)

    def f1(self):
        return 2 * self.correct / max(self.guessed + self.gold, 1)


def metric(outputs, labels):
    score, n = SpanScore(), labels["length"].numpy()
    for path, truth, k in zip(best_paths(outputs, n), labels["tags"].numpy(), n):
        score.update(path, truth[:k].tolist())
    return {"f1": score.f1(), "accuracy": score.same / score.tokens}


def build_optimizer(model):
    special = {id(p) for p in model.crf_parameters()}
    rest = [p for p in model.parameters() if id(p) not in special]
    groups = [
        {"params": model.crf_parameters(), "learning_rate": OPTIM["crf_lr_mult"]},
        {"params": [p for p in rest if p.ndim == 1]},
        {"params": [p for p in rest if p.ndim > 1], "weight_decay": OPTIM["l2"]},
    ]
    rate = paddle.optimizer.lr.ExponentialDecay(OPTIM["base_lr"], gamma=OPTIM["gamma"])
    return paddle.optimizer.Momentum(rate, momentum=OPTIM["momentum"], parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    labels = batch[-1]
    losses = loss(model(*batch[:-1]), labels)
    losses["loss"].backward()
    # by hand: grad_clip of an optimizer with groups would clip group by group
    norm = nn.utils.clip_grad_norm_(model.parameters(), OPTIM["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": losses["loss"].detach(), "per_token": losses["per_token"], "grad_norm": norm}


def predict(path, model):
    model.eval()
    with open(path, encoding="utf-8") as f:
        sents = [s.split() for s in f.read().splitlines() if s.strip()]
    ids, shapes, n = map(np.stack, zip(*map(vocab, sents)))
    with paddle.no_grad():
        out = model(paddle.to_tensor(ids), paddle.to_tensor(shapes), paddle.to_tensor(n))
    lines = (" ".join(f"{w}/{LABELS[t]}" for w, t in zip(s, p)) for s, p in zip(sents, best_paths(out, n)))
    return {"tagged": "\n".join(lines), "emissions": out["emissions"].numpy()}
