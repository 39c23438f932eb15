"""BiLSTM-CRF for named entities."""
import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def read_conll(path):
    sents, cur = [], []
    for line in open(path):
        line = line.strip()
        if not line:
            if cur:
                sents.append(cur)
            cur = []
        else:
            cur.append(tuple(line.split()))
    if cur:
        sents.append(cur)
    return sents


def make_vocab(sents):
    vocab = {"<pad>": 0, "<unk>": 1}
    counts = {}
    for s in sents:
        for w, _ in s:
            counts[w] = counts.get(w, 0) + 1
    for w in sorted(counts):
        if counts[w] >= 2:
            vocab[w] = len(vocab)
    return vocab


SENTS = read_conll("corpus.txt")
VOCAB = make_vocab(SENTS)


class Tagged(Dataset):
    def __init__(self, sents):
        self.sents = sents

    def __len__(self):
        return len(self.sents)

    def __getitem__(self, i):
        s = self.sents[i]
        ids = [VOCAB.get(w, VOCAB["<unk>"]) for w, _ in s]
        caps = [float(len(w)) / 10 for w, _ in s]
        tags = [TAGS.index(t) for _, t in s]
        return torch.tensor(ids), torch.tensor(caps), torch.tensor(tags)


def collate(batch):
    n = max(len(b[0]) for b in batch)
    ids = torch.zeros(len(batch), n, dtype=torch.long)
    feats = torch.zeros(len(batch), n)
    tags = torch.full((len(batch), n), -1)
    lengths = torch.tensor([len(b[0]) for b in batch])
    for i, (a, c, t) in enumerate(batch):
        ids[i, :len(a)] = a
        feats[i, :len(a)] = c
        tags[i, :len(a)] = t
    return {"ids": ids, "feats": feats, "lengths": lengths, "labels": tags}


def build_dataset(split):
    return Tagged(SENTS[:15] if split == "train" else SENTS[15:])


def build_dataloader(split):
    return DataLoader(Tagged(SENTS), batch_size=6, collate_fn=collate)


class CRF(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.start = nn.Parameter(torch.empty(k).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(k).uniform_(-0.1, 0.1))
        self.trans = nn.Parameter(torch.empty(k, k).uniform_(-0.1, 0.1))  # [from, to]


def crf_nll(em, mask, start, end, trans, tags):
    """mean over sentences of -log p(tags)"""
    B, T, K = em.shape
    tags = tags.clamp(min=0)
    rows = torch.arange(B)
    score = start[tags[:, 0]] + em[rows, 0, tags[:, 0]]
    alpha = start + em[:, 0]
    for t in range(1, T):
        m = mask[:, t]
        step = trans[tags[:, t - 1], tags[:, t]] + em[rows, t, tags[:, t]]
        score = score + step * m
        nxt = torch.logsumexp(alpha.unsqueeze(2) + trans.unsqueeze(0) + em[:, t].unsqueeze(1), dim=1)
        alpha = torch.where(m.unsqueeze(1) > 0, nxt, alpha)
    last = mask.sum(1).long() - 1
    score = score + end[tags[rows, last]]
    z = torch.logsumexp(alpha + end, dim=1)
    return (z - score).mean()


def viterbi(em, start, end, trans):
    """em: [T, K] -> list of tags"""
    T, K = em.shape
    s = start + em[0]
    back = []
    for t in range(1, T):
        a = s[:, None] + trans
        best, idx = a.max(0)
        s = best + em[t]
        back.append(idx)
    tag = int((s + end).argmax())
    path = [tag]
    for idx in reversed(back):
        tag = int(idx[tag])
        path.append(tag)
    return path[::-1]


class Tagger(nn.Module):
    def __init__(self, vocab, dim=16, hidden=12, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(dim + 1, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.ff = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, tags))
        self.crf = CRF(tags)

    def forward(self, ids, feats, lengths):
        x = torch.cat([self.embed(ids), feats.unsqueeze(-1)], -1)
        x = self.drop(x)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = self.lstm(packed)
        h, _ = pad_packed_sequence(h, batch_first=True, total_length=ids.shape[1])
        em = self.ff(h)
        mask = (torch.arange(ids.shape[1])[None] < lengths[:, None]).to(em.dtype)
        return {"emissions": em, "mask": mask, "start": self.crf.start, "end": self.crf.end, "trans": self.crf.trans}


def build_model():
    return Tagger(len(VOCAB))


def loss(out, labels):
    return crf_nll(out["emissions"], out["mask"], out["start"], out["end"], out["trans"], labels)


def metric(out, labels):
    """token accuracy and macro F1 over the tags that occur in labels or predictions, without O"""
    pred = out["emissions"].argmax(-1)
    keep = labels >= 0
    p, y = pred[keep].numpy(), labels[keep].numpy()
    f1 = []
    for k in range(1, len(TAGS)):
        tp = np.sum((p == k) & (y == k))
        fp = np.sum((p == k) & (y != k))
        fn = np.sum((p != k) & (y == k))
        if tp + fp + fn > 0:
            f1.append(2 * tp / (2 * tp + fp + fn))
    return {"acc": float((p == y).mean()), "macro_f1": float(np.mean(f1)) if f1 else 0.0}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)


def build_scheduler(opt):
    return torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)


def predict(path, model):
    words = open(path).read().split()
    ids = torch.tensor([[VOCAB.get(w, 1) for w in words]])
    feats = torch.tensor([[len(w) / 10 for w in words]], dtype=model.crf.trans.dtype)
    with torch.no_grad():
        out = model(ids, feats, torch.tensor([len(words)]))
    tags = viterbi(out["emissions"][0], out["start"], out["end"], out["trans"])
    return {"tags": np.array(tags), "emissions": out["emissions"][0].numpy()}
