"""Deep-Speech-like CTC recogniser."""
import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = "_abcdefg "


class MaskConv(nn.Module):
    """convolutions whose padding frames are put back to zero after every layer"""

    def __init__(self, seq):
        super().__init__()
        self.seq = seq

    def forward(self, x, lengths):
        for m in self.seq:
            x = m(x)
            mask = torch.arange(x.size(3), device=x.device)[None, :] >= lengths[:, None]
            x = x.masked_fill(mask[:, None, None, :], 0)
        return x


class SequenceWise(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        t, n = x.size(0), x.size(1)
        return self.module(x.reshape(t * n, -1)).view(t, n, -1)


class BatchRNN(nn.Module):
    def __init__(self, n_in, n_hidden, norm=True):
        super().__init__()
        self.batch_norm = SequenceWise(nn.BatchNorm1d(n_in)) if norm else None
        self.rnn = nn.GRU(n_in, n_hidden, bidirectional=True, bias=True)

    def forward(self, x, lengths):
        if self.batch_norm is not None:
            x = self.batch_norm(x)
        x = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        x, _ = self.rnn(x)
        x, _ = pad_packed_sequence(x)
        return x.view(x.size(0), x.size(1), 2, -1).sum(2)


class Lookahead(nn.Module):
    def __init__(self, n_features, context=3):
        super().__init__()
        self.context = context
        self.conv = nn.Conv1d(n_features, n_features, context, groups=n_features, bias=False)

    def forward(self, x):
        x = x.permute(1, 2, 0)
        x = F.pad(x, (0, self.context - 1))
        return self.conv(x).permute(2, 0, 1).contiguous()


class DeepSpeech(nn.Module):
    def __init__(self, n_mels=12, hidden=16, layers=2):
        super().__init__()
        self.conv = MaskConv(nn.Sequential(
            nn.Conv2d(1, 4, (5, 3), stride=(2, 2), padding=(2, 1)), nn.BatchNorm2d(4), nn.Hardtanh(0, 20, inplace=True)))
        width = 4 * ((n_mels + 1) // 2)
        self.rnns = nn.Sequential(*[BatchRNN(width if i == 0 else hidden, hidden, norm=i > 0) for i in range(layers)])
        self.lookahead = nn.Sequential(Lookahead(hidden), nn.Hardtanh(0, 20, inplace=True))
        self.fc = nn.Sequential(SequenceWise(nn.Sequential(nn.BatchNorm1d(hidden), nn.Linear(hidden, len(VOCAB), bias=False))))

    def forward(self, feats, lengths):
        out_len = torch.div(lengths - 1, 2, rounding_mode="floor") + 1
        x = self.conv(feats.transpose(1, 2).unsqueeze(1), out_len)
        n, c, f, t = x.shape
        x = x.view(n, c * f, t).permute(2, 0, 1).contiguous()
        for rnn in self.rnns:
            x = rnn(x, out_len)
        x = self.fc(self.lookahead(x))
        return F.log_softmax(x, dim=-1), out_len


def build_model():
    return DeepSpeech()


def inputs():
    g = np.random.default_rng(3)
    x = g.standard_normal((4, 21, 12)).astype("float32")
    lengths = np.array([21, 15, 18, 12])
    for i, l in enumerate(lengths):
        x[i, l:] = 0
    return {"feats": x, "lengths": lengths}


def labels():
    return {"targets": np.array([[1, 2, 2, 5], [3, 4, 0, 0], [7, 8, 1, 0], [6, 1, 0, 0]]), "target_lengths": np.array([4, 2, 3, 2])}


def loss(outputs, labels):
    log_probs, lengths = outputs
    return F.ctc_loss(log_probs, labels["targets"], lengths, labels["target_lengths"], blank=0, reduction="mean", zero_infinity=False)


def greedy(log_probs, lengths):
    res = []
    for path, l in zip(log_probs.argmax(-1).T.tolist(), lengths.tolist()):
        path = path[:l]
        res.append([p for i, p in enumerate(path) if p != 0 and (i == 0 or p != path[i - 1])])
    return res


def levenshtein(a, b):
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return d[-1]


def metric(outputs, labels):
    log_probs, lengths = outputs
    errors = total = 0
    for hyp, ref, n in zip(greedy(log_probs, lengths), labels["targets"].tolist(), labels["target_lengths"].tolist()):
        errors += levenshtein(hyp, ref[:n])
        total += n
    return {"cer": errors / total}


class ClippedAdamW(torch.optim.AdamW):
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.5)
        return super().step(closure)


def build_optimizer(model):
    return ClippedAdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=1e-2, eps=1e-9)


def build_scheduler(optimizer):
    warm = 2
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: math.sqrt(warm) * min((s + 1) ** -0.5, (s + 1) * warm ** -1.5))


class Utterances(torch.utils.data.Dataset):
    def __init__(self, split):
        with open(os.path.join(HERE, "feats", "manifest.jsonl")) as f:
            self.entries = [e for e in map(json.loads, f) if e["split"] == split]

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        e = self.entries[i]
        x = torch.from_numpy(np.load(os.path.join(HERE, "feats", e["file"])))
        x = torch.log1p(x)
        x = (x - x.mean()) / (x.std() + 1e-5)
        return x, torch.tensor([VOCAB.index(c) for c in e["text"]])


def build_dataset(split):
    return Utterances(split)


@torch.no_grad()
def predict(path, model):
    x = torch.log1p(torch.from_numpy(np.load(path)))
    x = ((x - x.mean()) / (x.std() + 1e-5)).to(next(model.parameters()).dtype)
    lp, n = model(x[None], torch.tensor([x.size(0)]))
    return {"text": "".join(VOCAB[i] for i in greedy(lp, n)[0]), "score": lp.max(-1).values.sum()}
