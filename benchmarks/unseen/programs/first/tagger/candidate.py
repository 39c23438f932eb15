import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader

from corpus import LABELS, Corpus, Sentences, pad_batch
from lattice import best_path, log_partition, path_score

CORPUS = Corpus("corpus.txt")


class EntityTagger(nn.Layer):
    def __init__(self, n_words, width=16, cells=12):
        super().__init__()
        k = len(LABELS)
        uni = nn.initializer.Uniform(-0.1, 0.1)
        self.transition = self.create_parameter([k, k], default_initializer=uni)
        self.begin = self.create_parameter([k], default_initializer=uni)
        self.finish = self.create_parameter([k], default_initializer=uni)
        self.word = nn.Embedding(n_words, width)
        self.rnn = nn.LSTM(width + 1, cells, num_layers=2, direction="bidirect", dropout=0.2)
        self.dropout = nn.Dropout(0.3)
        self.hidden = nn.Linear(2 * cells, cells)
        self.emit = nn.Linear(cells, k)

    def forward(self, ids, feats, lengths):
        x = paddle.concat((self.word(ids), feats[:, :, None]), axis=2)
        seq, _ = self.rnn(self.dropout(x), sequence_length=lengths)
        scores = self.emit(paddle.tanh(self.hidden(seq)))
        steps = paddle.arange(ids.shape[1]).unsqueeze(0)
        mask = (steps < lengths.unsqueeze(1)).astype(scores.dtype)
        return dict(emissions=scores, mask=mask, start=self.begin, end=self.finish, trans=self.transition)


def build_model():
    return EntityTagger(len(CORPUS.words))


def build_dataset(split):
    s = CORPUS.sentences
    return Sentences(CORPUS, s[:15] if split == "train" else s[15:])


def build_dataloader(split):
    return DataLoader(Sentences(CORPUS, CORPUS.sentences), batch_size=6, shuffle=False, drop_last=False, collate_fn=pad_batch)


def loss(out, labels):
    gold = paddle.where(labels < 0, paddle.zeros_like(labels), labels)
    z = log_partition(out)
    return paddle.mean(z - path_score(out, gold))


def metric(out, labels):
    guess = out["emissions"].numpy().argmax(-1)
    gold = labels.numpy()
    valid = gold != -1
    guess, gold = guess[valid], gold[valid]
    n = len(LABELS)
    table = np.bincount(gold * n + guess, minlength=n * n).reshape(n, n)
    hit = np.diag(table)[1:].astype("float64")
    denominator = (table.sum(0) + table.sum(1))[1:]
    seen = denominator > 0
    f1 = 2 * hit[seen] / denominator[seen]
    return {"acc": float(np.trace(table) / table.sum()), "macro_f1": float(f1.mean()) if seen.any() else 0.0}


def build_optimizer(model):
    rate = paddle.optimizer.lr.ExponentialDecay(learning_rate=3e-3, gamma=0.95)
    return paddle.optimizer.Adam(rate, parameters=model.parameters(), weight_decay=1e-4)


def build_scheduler(opt):
    return opt._learning_rate


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        words = f.read().split()
    ids = paddle.to_tensor([CORPUS.encode(words)])
    feats = paddle.to_tensor([CORPUS.features(words)], dtype=model.transition.dtype)
    out = model(ids, feats, paddle.to_tensor([len(words)]))
    scores = out["emissions"].squeeze(0).numpy()
    tags = best_path(scores, model.begin.numpy(), model.finish.numpy(), model.transition.numpy())
    return {"tags": tags, "emissions": scores}
