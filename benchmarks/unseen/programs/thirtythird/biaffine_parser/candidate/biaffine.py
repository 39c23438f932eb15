"""Biaffine parser in Paddle: arcs and labels from one projection."""
import json
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Orthogonal

DIR = Path(__file__).absolute().parent.parent / "data"
IGNORE = -100
POS = {t: i for i, t in enumerate("<pad> ROOT DET NOUN VERB ADJ ADV".split())}
LABELS = "root nsubj obj det amod advmod".split()


class Vocab:
    specials = ("<pad>", "<root>", "<unk>")

    def __init__(self, tokens):
        self.itos = [*self.specials, *sorted(set(tokens))]
        self.stoi = dict(zip(self.itos, range(len(self.itos))))

    def __len__(self):
        return len(self.itos)

    def __call__(self, token):
        return self.stoi.get(token, self.stoi["<unk>"])


def load(split):
    sents, cur = [], []
    for line in (DIR / f"{split}.conll").read_text().splitlines() + [""]:
        if line:
            cur.append(line.split("\t")[1:])
        elif cur:
            sents.append(cur)
            cur = []
    return sents


vocab = Vocab(tok[0] for s in load("train") for tok in s)


def row(first, rest, fill, width=13):
    out = np.full(width, fill, dtype="int64")
    out[0] = first
    out[1:1 + len(rest)] = rest
    return out


def inputs_of(sent):
    return row(1, [vocab(t[0]) for t in sent], 0), row(POS["ROOT"], [POS[t[1]] for t in sent], 0)


class Conll(paddle.io.Dataset):
    def __init__(self, split):
        self.items = [(*inputs_of(s), {"head": row(IGNORE, [int(t[2]) for t in s], IGNORE),
                                       "rel": row(IGNORE, [LABELS.index(t[3]) for t in s], IGNORE)})
                      for s in load(split)]

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


class BiaffineScorer(nn.Layer):
    def __init__(self, dim, classes, bias=(True, True)):
        super().__init__()
        self.bias = bias
        self.U = self.create_parameter([classes, dim + bias[0], dim + bias[1]], default_initializer=Constant(0.0))

    def forward(self, dep, head):
        dep, head = (paddle.concat([t, paddle.ones([*t.shape[:2], 1], t.dtype)], -1) if b else t
                     for t, b in zip((dep, head), self.bias))
        b, n, _ = dep.shape
        c, i, j = self.U.shape
        left = paddle.matmul(dep, self.U.transpose([1, 0, 2]).reshape([i, c * j]))
        both = paddle.bmm(left.reshape([b, n * c, j]), head.transpose([0, 2, 1]))
        return both.reshape([b, n, c, n]).transpose([0, 1, 3, 2])       # b, dep, head, class


class BiaffineParser(nn.Layer):
    ROLES = (("arc", 20), ("rel", 12))

    def __init__(self, dim_word=20, dim_tag=8, hidden=24, dropout=0.15):
        super().__init__()
        normal = nn.initializer.Normal()
        self.emb_tag = nn.Embedding(len(POS), dim_tag, padding_idx=0, weight_attr=normal)
        self.emb_word = nn.Embedding(len(vocab), dim_word, padding_idx=0, weight_attr=normal)
        self.encoder = nn.LSTM(dim_word + dim_tag, hidden, direction="bidirect")
        self.proj = nn.LayerDict({f"{role}_{side}": nn.Linear(2 * hidden, n, weight_attr=Orthogonal())
                                  for role, n in self.ROLES for side in ("head", "dep")})
        self.score_rel = BiaffineScorer(12, len(LABELS))
        self.score_arc = BiaffineScorer(20, 1, (True, False))
        self.dropout = nn.Dropout(dropout)

    def mlp(self, key, h):
        return self.dropout(F.leaky_relu(self.proj[key](h), negative_slope=0.1))

    def forward(self, words, tags):
        mask = words != 0
        x = paddle.concat([self.emb_word(words), self.emb_tag(tags)], axis=-1)
        h, _ = self.encoder(self.dropout(x), sequence_length=mask.astype("int64").sum(-1))
        h = self.dropout(h)
        arc = self.score_arc(self.mlp("arc_dep", h), self.mlp("arc_head", h))[..., 0]
        arc = paddle.where(mask.unsqueeze(1), arc, paddle.full_like(arc, -1e4))
        rel = self.score_rel(self.mlp("rel_dep", h), self.mlp("rel_head", h))
        return arc, rel


def build_model():
    return BiaffineParser()


def build_dataset(split):
    return Conll(split)


def build_dataloader(split):
    ds = build_dataset(split)
    sampler = paddle.io.BatchSampler(ds, batch_size=6, shuffle=(split == "train"))
    return paddle.io.DataLoader(ds, batch_sampler=sampler)


def at_head(rel, head):
    """rel: b, dep, head, class -> scores of the labels at the given heads."""
    onehot = F.one_hot(paddle.clip(head, min=0), rel.shape[2]).unsqueeze(-1)
    return (rel * onehot).sum(axis=2)


def loss(outputs, labels):
    arc, rel = outputs
    # the mean of cross_entropy counts ignored places when ignore_index < 0: mask by hand
    known = (labels["head"] != IGNORE).astype(arc.dtype)
    nll = F.cross_entropy(arc, labels["head"], ignore_index=IGNORE, reduction="none").reshape(known.shape)
    ce_arc = (nll * known).sum() / known.sum()
    logp = F.log_softmax(at_head(rel, labels["head"]), axis=-1)
    target = F.label_smooth(F.one_hot(paddle.clip(labels["rel"], min=0), len(LABELS)), epsilon=0.1)
    ce_rel = (-(target * logp).sum(-1) * known).sum() / known.sum()
    return {"arc": ce_arc, "rel": ce_rel, "loss": paddle.add_n([ce_arc, ce_rel])}


def decode(arc, rel):
    head = arc.argmax(axis=-1)
    return head.numpy(), at_head(rel, head).argmax(axis=-1).numpy()


def metric(outputs, labels):
    head, lab = decode(*outputs)
    gold, gold_rel = labels["head"].numpy(), labels["rel"].numpy()
    total = (gold != IGNORE).sum()
    right = head == gold
    return {"uas": float(right.sum() / total), "las": float((right & (lab == gold_rel)).sum() / total)}


def build_optimizer(model):
    lr = paddle.optimizer.lr.ExponentialDecay(learning_rate=0.004, gamma=0.75 ** (1 / 50))
    return paddle.optimizer.Adam(learning_rate=lr, beta2=0.9, parameters=model.parameters(),
                                 grad_clip=paddle.nn.ClipGradByGlobalNorm(clip_norm=0.5))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *x, y = batch
    parts = loss(model(*x), y)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(parts[k]) for k in ("loss", "arc", "rel")}


def predict(path, model):
    sents = json.loads(Path(path).read_text())
    words, tags = (paddle.to_tensor(np.stack(c)) for c in zip(*map(inputs_of, sents)))
    model.eval()
    with paddle.no_grad():
        arc, rel = model(words, tags)
    head, lab = decode(arc, rel)
    lines = []
    for s, h, l in zip(sents, head, lab):
        lines.append(" ".join("{}<-{}:{}".format(t[0], a, LABELS[b]) for t, a, b in zip(s, h[1:], l[1:])))
    keep = 1 + max(len(s) for s in sents)
    return {"tree": "\n".join(lines), "arc_prob": F.softmax(arc).numpy()[:, :keep, :keep]}
