"""Number words -> digits on Paddle."""
import json
import string
from math import sqrt
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import BatchSampler, DataLoader

TSV = Path(__file__).resolve().parents[1] / "data" / "numbers.tsv"


class Vocab:
    def __init__(self, symbols, specials):
        self.itos = list(specials) + list(symbols)
        self.stoi = {s: i for i, s in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def __call__(self, text):
        return [self.stoi[c] for c in text]


LETTERS = Vocab(" " + string.ascii_lowercase, ["<pad>"])
DIGITS = Vocab(string.digits, ["<pad>", "<s>", "</s>"])
MAX_SRC, MAX_TGT = 32, 5


def pad(ids, n):
    row = np.zeros(n, dtype="int64")
    row[:len(ids)] = ids[:n]
    return row


class NumberWords(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        lines = TSV.read_text().splitlines()
        part = slice(None, 160) if split == "train" else slice(160, None)
        self.pairs = [tuple(line.split("\t")) for line in lines[part]]
        self.sizes = np.array([len(p[0]) for p in self.pairs])

    def __getitem__(self, i):
        words, number = self.pairs[i]
        letters = LETTERS(words)[:MAX_SRC]
        target = DIGITS(number) + [DIGITS.stoi["</s>"]]
        whole = pad([DIGITS.stoi["<s>"]] + target, MAX_TGT + 1)
        return pad(letters, MAX_SRC), np.int64(len(letters)), whole[:-1], whole[1:]

    def __len__(self):
        return len(self.pairs)


class CurriculumBatches(BatchSampler):
    """Batches of rising length (stable order)."""

    def __init__(self, dataset, batch_size):
        super().__init__(dataset=dataset, batch_size=batch_size)
        self.order = np.argsort(dataset.sizes, kind="stable").tolist()

    def __iter__(self):
        for k in range(0, len(self.order), self.batch_size):
            yield self.order[k:k + self.batch_size]


def u(fan):
    b = 1 / sqrt(fan)
    return paddle.ParamAttr(initializer=nn.initializer.Uniform(-b, b))


def embedding(n, dim):
    layer = nn.Embedding(n, dim, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal()))
    with paddle.no_grad():
        w = layer.weight.numpy()
        w[0] = 0
        layer.weight.set_value(w)
    return layer


class Attention(nn.Layer):
    def __init__(self, hidden):
        super().__init__()
        self.key = nn.Linear(hidden, 2 * hidden, weight_attr=u(hidden), bias_attr=False)

    def forward(self, h, memory, penalty):
        score = paddle.einsum("btd,bd->bt", memory, self.key(h)) + penalty
        return paddle.einsum("bt,btd->bd", F.softmax(score, axis=-1), memory)


class Decoder(nn.Layer):
    def __init__(self, emb, hidden, n_out):
        super().__init__()
        self.embed = embedding(n_out, emb)
        self.attend = Attention(hidden)
        self.gru = nn.GRUCell(emb + 2 * hidden, hidden)
        self.project = nn.Linear(3 * hidden, n_out, weight_attr=u(3 * hidden), bias_attr=u(3 * hidden))

    def forward(self, token, h, memory, penalty):
        context = self.attend(h, memory, penalty)
        h, _ = self.gru(paddle.concat([self.embed(token), context], -1), h)
        return self.project(paddle.concat([h, context], -1)), h


class Translator(nn.Layer):
    def __init__(self, emb=12, hidden=20, forcing=0.7, coin_seed=77):
        super().__init__()
        self.forcing = forcing
        self.rng = np.random.RandomState(coin_seed)
        self.decoder = Decoder(emb, hidden, len(DIGITS))
        self.embed = embedding(len(LETTERS), emb)
        self.encoder = nn.GRU(emb, hidden, direction="bidirect")
        self.bridge = nn.Sequential(nn.Linear(2 * hidden, hidden, weight_attr=u(2 * hidden), bias_attr=u(2 * hidden)), nn.Tanh())

    def forward(self, src, src_len, tgt_in):
        memory, final = self.encoder(self.embed(src), sequence_length=src_len)
        h = self.bridge(final.transpose([1, 0, 2]).flatten(1))
        penalty = (src == 0).astype(memory.dtype) * -1e9
        steps = tgt_in.shape[1]
        force = [False] * steps          # evaluation feeds its own guesses
        if self.training:
            force = (self.rng.uniform(size=steps) < self.forcing).tolist()
        force[0] = True
        scores, guess = [], None
        for t, forced in enumerate(force):
            logit, h = self.decoder(tgt_in[:, t] if forced else guess, h, memory, penalty)
            guess = logit.argmax(axis=-1)
            scores.append(logit)
        return paddle.stack(scores, axis=1)


def build_model():
    return Translator()


def build_dataset(split):
    return NumberWords(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_sampler=CurriculumBatches(ds, 16))
    return DataLoader(ds, batch_size=16, shuffle=False)


def loss(outputs, labels, eps=0.1):
    # F.cross_entropy cannot smooth and ignore the padding at once
    logp = F.log_softmax(outputs, axis=-1)
    keep = (labels != 0).astype("float32")
    picked = paddle.take_along_axis(logp, labels.unsqueeze(-1), axis=-1).squeeze(-1)
    token = -(1 - eps) * picked - eps * logp.mean(axis=-1)
    return (token * keep).sum() / keep.sum()


def to_text(ids):
    end = DIGITS.stoi["</s>"]
    ids = list(ids)
    ids = ids[:ids.index(end)] if end in ids else ids
    return "".join(DIGITS.itos[i] if i > end else "?" for i in ids)


def edits(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1), int)
    d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + int(a[i] != b[j]))
    return int(d[-1, -1])


def metric(outputs, labels):
    nll = F.cross_entropy(outputs, labels, ignore_index=0)
    best, y = outputs.numpy().argmax(-1), labels.numpy()
    pairs = [(to_text(g), to_text(r)) for g, r in zip(best.tolist(), y.tolist())]
    return {
        "perplexity": float(paddle.exp(nll)),
        "cer": sum(edits(*p) for p in pairs) / sum(len(r) for _, r in pairs),
        "exact": float(np.mean([g == r for g, r in pairs])),
        "token_acc": float((best == y)[y > 0].mean()),
    }


def build_optimizer(model):
    # last_epoch=0 starts the Noam count at one
    noam = paddle.optimizer.lr.NoamDecay(d_model=20, warmup_steps=30, learning_rate=0.1, last_epoch=0)
    return paddle.optimizer.Adam(noam, beta1=0.9, beta2=0.98, epsilon=1e-9, parameters=model.parameters(),
                                 grad_clip=nn.ClipGradByGlobalNorm(1.0))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    labels = batch[3]
    cost = loss(model(*batch[:3]), labels)
    optimizer.clear_grad()
    cost.backward()
    optimizer.step()
    return {"tokens": float((labels != 0).sum()), "loss": float(cost)}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    words = json.loads(Path(path).read_text())["text"]
    letters = LETTERS(words)[:MAX_SRC]
    src = paddle.to_tensor(pad(letters, MAX_SRC)).unsqueeze(0)
    memory, final = model.encoder(model.embed(src), sequence_length=paddle.to_tensor([len(letters)]))
    h = model.bridge(final.transpose([1, 0, 2]).flatten(1))
    penalty = (src == 0).astype("float32") * -1e9
    token, ids, first = DIGITS.stoi["<s>"], [], None
    while len(ids) < MAX_TGT and token != DIGITS.stoi["</s>"]:
        logit, h = model.decoder(paddle.to_tensor([token]), h, memory, penalty)
        if first is None:
            first = F.softmax(logit[0], axis=-1).numpy()
        token = int(logit[0].argmax())
        ids.append(token)
    return {"first": first, "digits": to_text(ids), "tokens": ids}
