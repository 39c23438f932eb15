"""BiLSTM-CRF named entity tagger (Huang et al. 2015; Lample et al. 2016)."""
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import crf  # noqa: E402

DATA = HERE.parent / "data"
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@dataclass(frozen=True)
class Config:
    word_dim: int = 20
    shape_dim: int = 5
    hidden: int = 16
    dropout: float = 0.3
    max_len: int = 12
    batch: int = 8
    lr: float = 0.05
    crf_lr: float = 0.25
    momentum: float = 0.9
    decay: float = 1e-3
    clip: float = 2.0
    gamma: float = 0.93


cfg = Config()


def read_conll(path):
    sents, words, tags = [], [], []
    for line in open(path, encoding="utf-8"):
        line = line.strip()
        if not line:
            if words:
                sents.append((words, tags))
            words, tags = [], []
            continue
        w, t = line.split()
        words.append(w)
        tags.append(t)
    return sents


def make_vocab():
    words = sorted({w.lower() for s, _ in read_conll(DATA / "train.conll") for w in s})
    return {"<pad>": 0, "<unk>": 1, **{w: i + 2 for i, w in enumerate(words)}}


VOCAB = make_vocab()


def shape_id(w):
    if not any(c.isalpha() for c in w):
        return 3
    return 1 if w[0].isupper() else 2


def encode(words):
    n = min(len(words), cfg.max_len)
    ids = torch.zeros(cfg.max_len, dtype=torch.long)
    shapes = torch.zeros(cfg.max_len, dtype=torch.long)
    for i, w in enumerate(words[:n]):
        ids[i] = VOCAB.get(w.lower(), 1)
        shapes[i] = shape_id(w)
    return ids, shapes, torch.tensor(n)


class Conll(Dataset):
    def __init__(self, split):
        self.sents = read_conll(DATA / f"{split}.conll")

    def __len__(self):
        return len(self.sents)

    def __getitem__(self, i):
        words, tags = self.sents[i]
        ids, shapes, n = encode(words)
        y = torch.zeros(cfg.max_len, dtype=torch.long)
        y[:n] = torch.tensor([TAGS.index(t) for t in tags[: int(n)]])
        return ids, shapes, n, {"tags": y, "length": n}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(VOCAB), cfg.word_dim, padding_idx=0)
        self.shapes = nn.Embedding(4, cfg.shape_dim, padding_idx=0)
        self.drop = nn.Dropout(cfg.dropout)
        self.lstm = nn.LSTM(cfg.word_dim + cfg.shape_dim, cfg.hidden, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * cfg.hidden, len(TAGS))
        self.crf = crf.LinearChainCRF(len(TAGS))
        self.reset()

    def reset(self):
        for emb in (self.words, self.shapes):
            bound = (3.0 / emb.embedding_dim) ** 0.5
            nn.init.uniform_(emb.weight, -bound, bound)
            with torch.no_grad():
                emb.weight[0].zero_()
        for n, p in self.lstm.named_parameters():
            if "weight_ih" in n:
                nn.init.xavier_uniform_(p)
            elif "weight_hh" in n:
                nn.init.orthogonal_(p)
            else:
                nn.init.zeros_(p)
                if "bias_ih" in n:  # forget gate open at the start
                    p.data[cfg.hidden : 2 * cfg.hidden] = 1.0
        nn.init.xavier_uniform_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, ids, shapes, lengths):
        x = self.drop(torch.cat([self.words(ids), self.shapes(shapes)], dim=-1))
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = self.lstm(packed)
        h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True, total_length=ids.size(1))
        mask = (ids != 0).float()
        trans, start, end = self.crf()
        return {"emissions": self.proj(self.drop(h)) * mask.unsqueeze(-1), "mask": mask,
                "trans": trans, "start": start, "end": end}


def build_model():
    return Tagger()


def build_dataset(split):
    return Conll(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=cfg.batch, shuffle=split == "train")


def loss(outputs, labels):
    e, m = outputs["emissions"], outputs["mask"]
    pot = outputs["trans"], outputs["start"], outputs["end"]
    nll = crf.log_partition(e, m, *pot) - crf.gold_score(e, m, labels["tags"], *pot)
    return {"loss": nll.mean(), "per_token": (nll.sum() / m.sum()).detach()}


def spans(tags):
    out, start, kind = set(), None, None
    for i, t in enumerate([TAGS[k] for k in tags] + ["O"]):
        if start is not None and t != "I-" + kind:
            out.add((start, i, kind))
            start = None
        if t.startswith("B-"):
            start, kind = i, t[2:]
    return out


def decode(outputs, lengths):
    pot = outputs["trans"], outputs["start"], outputs["end"]
    return [crf.viterbi(e, n, *pot) for e, n in zip(outputs["emissions"], lengths)]


def metric(outputs, labels):
    tp = n_pred = n_gold = hit = total = 0
    for path, gold, n in zip(decode(outputs, labels["length"]), labels["tags"], labels["length"]):
        gold = gold[: int(n)].tolist()
        a, b = spans(path), spans(gold)
        tp, n_pred, n_gold = tp + len(a & b), n_pred + len(a), n_gold + len(b)
        hit += sum(x == y for x, y in zip(path, gold))
        total += len(gold)
    return {"f1": 2 * tp / max(n_pred + n_gold, 1), "accuracy": hit / total}


def build_optimizer(model):
    matrices = [p for n, p in model.named_parameters() if not n.startswith("crf.") and p.dim() > 1]
    biases = [p for n, p in model.named_parameters() if not n.startswith("crf.") and p.dim() == 1]
    return torch.optim.SGD([
        {"params": matrices, "weight_decay": cfg.decay},
        {"params": biases},
        {"params": model.crf.parameters(), "lr": cfg.crf_lr},
    ], lr=cfg.lr, momentum=cfg.momentum)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=cfg.gamma)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    out = loss(model(*inputs), labels)
    out["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
    optimizer.step()
    return {"loss": out["loss"].detach(), "per_token": out["per_token"], "grad_norm": norm}


@torch.no_grad()
def predict(path, model):
    model.eval()
    sents = [l.split() for l in open(path, encoding="utf-8") if l.strip()]
    ids, shapes, n = (torch.stack(c) for c in zip(*[encode(s) for s in sents]))
    out = model(ids, shapes, n)
    text = [" ".join(f"{w}/{TAGS[t]}" for w, t in zip(s, p)) for s, p in zip(sents, decode(out, n))]
    return {"tagged": "\n".join(text), "emissions": out["emissions"].numpy()}
