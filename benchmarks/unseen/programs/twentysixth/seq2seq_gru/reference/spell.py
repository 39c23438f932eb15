"""Spelled-out numbers to digits: GRU encoder-decoder with attention and scheduled teacher forcing."""
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAD, BOS, EOS = 0, 1, 2
SRC = {c: i + 1 for i, c in enumerate(" abcdefghijklmnopqrstuvwxyz")}
TGT = {c: i + 3 for i, c in enumerate("0123456789")}
SRC_LEN, TGT_LEN = 32, 5
EMB, HID = 12, 20
FORCE = 0.7
SMOOTH = 0.1


def encode(text):
    ids = [SRC[c] for c in text][:SRC_LEN]
    return ids + [PAD] * (SRC_LEN - len(ids)), len(ids)


class Numbers(Dataset):
    def __init__(self, split):
        with open(os.path.join(ROOT, "data", "numbers.tsv")) as f:
            rows = [line.rstrip("\n").split("\t") for line in f]
        self.rows = rows[:160] if split == "train" else rows[160:]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words, digits = self.rows[i]
        src, n = encode(words)
        out = [TGT[c] for c in digits] + [EOS]
        out = out + [PAD] * (TGT_LEN - len(out))
        return torch.tensor(src), torch.tensor(n), torch.tensor([BOS] + out[:-1]), torch.tensor(out)


class ByLength(Sampler):
    """Curriculum: short inputs first; ties stay in the order of the file."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(sorted(range(len(self.data)), key=lambda i: len(self.data.rows[i][0])))

    def __len__(self):
        return len(self.data)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_emb = nn.Embedding(len(SRC) + 1, EMB, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(len(TGT) + 3, EMB, padding_idx=PAD)
        self.encoder = nn.GRU(EMB, HID, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * HID, HID)
        self.cell = nn.GRUCell(EMB + 2 * HID, HID)
        self.attn = nn.Linear(HID, 2 * HID, bias=False)
        self.out = nn.Linear(3 * HID, len(TGT) + 3)
        self.coins = np.random.RandomState(77)

    def forward(self, src, src_len, tgt_in):
        packed = pack_padded_sequence(self.src_emb(src), src_len.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(states, batch_first=True, total_length=src.shape[1])
        h = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1)))
        blocked = src == PAD
        coins = self.coins.rand(tgt_in.shape[1]) if self.training else np.ones(tgt_in.shape[1])  # eval: own guesses
        token, logits = tgt_in[:, 0], []
        for t in range(tgt_in.shape[1]):
            if t > 0:
                token = tgt_in[:, t] if coins[t] < FORCE else logits[-1].argmax(-1)
            score = torch.bmm(memory, self.attn(h).unsqueeze(-1)).squeeze(-1)
            alpha = score.masked_fill(blocked, float("-inf")).softmax(-1)
            context = (alpha.unsqueeze(-1) * memory).sum(1)
            h = self.cell(torch.cat([self.tgt_emb(token), context], dim=-1), h)
            logits.append(self.out(torch.cat([h, context], dim=-1)))
        return torch.stack(logits, dim=1)


def build_model():
    return Seq2Seq()


def build_dataset(split):
    return Numbers(split)


def build_dataloader(split):
    data = build_dataset(split)
    sampler = ByLength(data) if split == "train" else None
    return DataLoader(data, batch_size=16, sampler=sampler)


def loss(outputs, labels):
    return F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTH)


def decode(ids):
    inverse = {v: k for k, v in TGT.items()}
    text = ""
    for i in ids:
        if i == EOS:
            break
        text += inverse.get(int(i), "?")
    return text


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    return row[-1]


@torch.no_grad()
def metric(outputs, labels):
    guess = outputs.argmax(-1)
    real = labels != PAD
    nll = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=PAD)
    hyp = [decode(g.tolist()) for g in guess]
    ref = [decode(r.tolist()) for r in labels]
    return {
        "token_acc": ((guess == labels) & real).sum().item() / real.sum().item(),
        "exact": sum(h == r for h, r in zip(hyp, ref)) / len(ref),
        "cer": sum(levenshtein(h, r) for h, r in zip(hyp, ref)) / sum(len(r) for r in ref),
        "perplexity": nll.exp().item(),
    }


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)


def build_scheduler(optimizer, d_model=HID, warmup=30):
    def noam(step):
        step += 1
        return 0.1 * d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, noam)


def train_step(model, optimizer, batch):
    model.train()
    src, n, tgt_in, labels = batch
    logits = model(src, n, tgt_in)
    value = loss(logits, labels)
    optimizer.zero_grad()
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {"loss": value.item(), "tokens": float((labels != PAD).sum())}


@torch.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as f:
        src, n = encode(json.load(f)["text"])
    src, n = torch.tensor([src]), torch.tensor([n])
    tokens = [BOS]
    for _ in range(TGT_LEN):
        logits = model(src, n, torch.tensor([tokens]))[0, -1]
        tokens.append(int(logits.argmax()))
        if tokens[-1] == EOS:
            break
    first = model(src, n, torch.tensor([[BOS]]))[0, 0].softmax(-1)
    return {"tokens": tokens[1:], "digits": decode(tokens[1:]), "first": first.numpy()}
