"""Deep biaffine dependency parser (Dozat & Manning, 2017)."""
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
L, BATCH = 13, 6
TAGS = ["<pad>", "ROOT", "DET", "NOUN", "VERB", "ADJ", "ADV"]
RELS = ["root", "nsubj", "obj", "det", "amod", "advmod"]


def read_conll(split):
    with open(os.path.join(DATA, split + ".conll")) as fh:
        for block in fh.read().strip().split("\n\n"):
            yield [line.split("\t") for line in block.split("\n")]


def make_vocab():
    words = sorted({tok[1] for s in read_conll("train") for tok in s})
    return {w: i for i, w in enumerate(["<pad>", "<root>", "<unk>"] + words)}


VOCAB = make_vocab()


def pad(ids, value):
    return torch.tensor(ids + [value] * (L - len(ids)))


def encode(pairs):
    words = [1] + [VOCAB.get(w, 2) for w, _ in pairs]
    tags = [1] + [TAGS.index(t) for _, t in pairs]
    return pad(words, 0), pad(tags, 0)


class Treebank(Dataset):
    def __init__(self, split):
        self.sents = list(read_conll(split))

    def __len__(self):
        return len(self.sents)

    def __getitem__(self, i):
        s = self.sents[i]
        w, t = encode([(x[1], x[2]) for x in s])
        return w, t, {"head": pad([-100] + [int(x[3]) for x in s], -100),
                      "rel": pad([-100] + [RELS.index(x[4]) for x in s], -100)}


class Biaffine(nn.Module):
    def __init__(self, n, out, bias_x=True, bias_y=True):
        super().__init__()
        self.bias_x, self.bias_y = bias_x, bias_y
        self.weight = nn.Parameter(torch.zeros(out, n + bias_x, n + bias_y))

    def forward(self, x, y):
        if self.bias_x:
            x = torch.cat([x, torch.ones_like(x[..., :1])], -1)
        if self.bias_y:
            y = torch.cat([y, torch.ones_like(y[..., :1])], -1)
        return torch.einsum("bxi,oij,byj->boxy", x, self.weight, y).squeeze(1)


class MLP(nn.Module):
    def __init__(self, i, o, p):
        super().__init__()
        self.linear = nn.Linear(i, o)
        nn.init.orthogonal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.act, self.drop = nn.LeakyReLU(0.1), nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.act(self.linear(x)))


class Parser(nn.Module):
    def __init__(self, dw=20, dt=8, h=24, arc=20, rel=12, p=0.15):
        super().__init__()
        self.word = nn.Embedding(len(VOCAB), dw, padding_idx=0)
        self.tag = nn.Embedding(len(TAGS), dt, padding_idx=0)
        self.lstm = nn.LSTM(dw + dt, h, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(p)
        self.arc_dep, self.arc_head = MLP(2 * h, arc, p), MLP(2 * h, arc, p)
        self.rel_dep, self.rel_head = MLP(2 * h, rel, p), MLP(2 * h, rel, p)
        self.arc = Biaffine(arc, 1, bias_y=False)
        self.rel = Biaffine(rel, len(RELS))

    def forward(self, words, tags):
        mask = words.ne(0)
        x = self.drop(torch.cat([self.word(words), self.tag(tags)], -1))
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.size(1))
        h = self.drop(h)
        arc = self.arc(self.arc_dep(h), self.arc_head(h))
        arc = arc.masked_fill(~mask.unsqueeze(1), -1e4)
        rel = self.rel(self.rel_dep(h), self.rel_head(h)).permute(0, 2, 3, 1)
        return arc, rel


def build_model():
    return Parser()


def build_dataset(split):
    return Treebank(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=split == "train")


def gold_rel_scores(rel, head):
    idx = head.clamp(min=0)[..., None, None].expand(-1, -1, 1, rel.size(-1))
    return rel.gather(2, idx).squeeze(2)


def loss(outputs, labels):
    arc, rel = outputs
    l_arc = F.cross_entropy(arc.flatten(0, 1), labels["head"].flatten())
    picked = gold_rel_scores(rel, labels["head"])
    l_rel = F.cross_entropy(picked.flatten(0, 1), labels["rel"].flatten(), label_smoothing=0.1)
    return {"loss": l_arc + l_rel, "arc": l_arc, "rel": l_rel}


def metric(outputs, labels):
    arc, rel = outputs
    real = labels["head"] >= 0
    head = arc.argmax(-1)
    lab = gold_rel_scores(rel, head).argmax(-1)
    ok = (head == labels["head"])[real]
    both = ok & (lab == labels["rel"])[real]
    return {"uas": ok.float().mean().item(), "las": both.float().mean().item()}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.9), eps=1e-8)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.75 ** (t / 50))


def train_step(model, optimizer, batch):
    model.train()
    words, tags, labels = batch
    parts = loss(model(words, tags), labels)
    optimizer.zero_grad(set_to_none=True)
    parts["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    with open(path) as fh:
        sents = json.load(fh)
    model.eval()
    pairs = [encode(s) for s in sents]
    arc, rel = model(torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs]))
    head = arc.argmax(-1)
    lab = gold_rel_scores(rel, head).argmax(-1)
    text = "\n".join(" ".join(f"{w}<-{head[i, j + 1].item()}:{RELS[lab[i, j + 1]]}" for j, (w, _) in enumerate(s))
                     for i, s in enumerate(sents))
    n = max(map(len, sents)) + 1
    return {"tree": text, "arc_prob": arc.softmax(-1)[:, :n, :n].numpy()}
