"""Bahdanau-style translation with GRU cells (PyTorch), after Bahdanau et al. 2015, with the coverage penalty of See et al. 2017."""
import json
from dataclasses import dataclass
from typing import List

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    emb: int
    hidden: int
    attn: int
    readout: int
    max_words: int
    batch: int
    dev_share: float
    smoothing: float
    coverage: float
    betas: List[float]
    eps: float
    factor: float
    warmup: int
    clip: float
    beam: int
    max_len: int
    alpha: float


with open("config.json") as f:
    cfg = Config(**json.load(f))

PAD, BOS, EOS, UNK = 0, 1, 2, 3


class Vocab:
    def __init__(self, path, min_count=2):
        self.itos = ["<pad>", "<s>", "</s>", "<unk>"]
        for line in open(path, encoding="utf8"):
            word, count = line.rstrip("\n").split("\t")
            if int(count) >= min_count:
                self.itos.append(word)
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi.get(w, UNK) for w in text.lower().split()]

    def decode(self, ids):
        return " ".join(self.itos[i] for i in ids)


SRC, TGT = Vocab("vocab.en.txt"), Vocab("vocab.fr.txt")


class Pairs(Dataset):
    def __init__(self, split):
        rows = [line.rstrip("\n").split("\t") for line in open("pairs.tsv", encoding="utf8")]
        cut = int(len(rows) * (1 - cfg.dev_share))
        rows = rows[:cut] if split == "train" else rows[cut:]
        self.items = []
        for en, fr in rows:
            s = SRC.encode(en)[:cfg.max_words] + [EOS]
            t = TGT.encode(fr)[:cfg.max_words]
            self.items.append((s, [BOS] + t, t + [EOS]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return tuple(torch.tensor(x) for x in self.items[i])


def collate(batch):
    pad = nn.utils.rnn.pad_sequence
    src, tin, tout = zip(*batch)
    return {
        "src": pad(src, batch_first=True, padding_value=PAD),
        "src_len": torch.tensor([len(s) for s in src]),
        "tgt": pad(tin, batch_first=True, padding_value=PAD),
        "labels": pad(tout, batch_first=True, padding_value=PAD),
    }


def build_dataset(split):
    return Pairs(split)


def build_dataloader(split):
    return DataLoader(Pairs(split), batch_size=cfg.batch, collate_fn=collate)


# ---------------------------------------------------------------------------------------------------------- model

class Encoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, cfg.emb, padding_idx=PAD)
        self.fwd = nn.GRUCell(cfg.emb, cfg.hidden)
        self.bwd = nn.GRUCell(cfg.emb, cfg.hidden)
        self.bridge = nn.Linear(cfg.hidden, cfg.hidden)

    def scan(self, cell, x, mask, order):
        h = x.new_zeros(x.size(0), cfg.hidden)
        outs = [None] * x.size(1)
        for t in order:
            m = mask[:, t, None]
            h = m * cell(x[:, t], h) + (1 - m) * h
            outs[t] = h
        return torch.stack(outs, 1), h

    def forward(self, src, mask):
        x = self.embed(src)
        T = src.size(1)
        a, _ = self.scan(self.fwd, x, mask, range(T))
        b, last = self.scan(self.bwd, x, mask, range(T - 1, -1, -1))
        return torch.cat([a, b], -1), torch.tanh(self.bridge(last))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(cfg.hidden, cfg.attn)
        self.key = nn.Linear(2 * cfg.hidden, cfg.attn, bias=False)
        self.energy = nn.Linear(cfg.attn, 1, bias=False)

    def forward(self, h, keys, memory, mask):
        e = self.energy(torch.tanh(self.query(h).unsqueeze(1) + keys)).squeeze(-1)
        a = e.masked_fill(mask == 0, float("-inf")).softmax(-1)
        return torch.bmm(a.unsqueeze(1), memory).squeeze(1), a


class Decoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, cfg.emb, padding_idx=PAD)
        self.attention = Attention()
        self.cell = nn.GRUCell(cfg.emb + 2 * cfg.hidden, cfg.hidden)
        self.readout = nn.Linear(cfg.hidden + 2 * cfg.hidden + cfg.emb, 2 * cfg.readout)
        self.out = nn.Linear(cfg.readout, n)

    def step(self, word, h, keys, memory, mask):
        x = self.embed(word)
        ctx, a = self.attention(h, keys, memory, mask)
        h = self.cell(torch.cat([x, ctx], -1), h)
        r = self.readout(torch.cat([h, ctx, x], -1))
        r = r.view(r.size(0), cfg.readout, 2).max(-1)[0]  # maxout
        return self.out(r), h, a


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(len(SRC))
        self.decoder = Decoder(len(TGT))

    def encode(self, src, src_len):
        mask = (torch.arange(src.size(1))[None] < src_len[:, None]).to(self.decoder.out.weight.dtype)
        memory, h = self.encoder(src, mask)
        return memory, self.decoder.attention.key(memory), mask, h

    def forward(self, src, src_len, tgt):
        memory, keys, mask, h = self.encode(src, src_len)
        logits, attn = [], []
        for t in range(tgt.size(1)):
            y, h, a = self.decoder.step(tgt[:, t], h, keys, memory, mask)
            logits.append(y)
            attn.append(a)
        return {"logits": torch.stack(logits, 1), "attn": torch.stack(attn, 1)}


def build_model():
    return Translator()


# ------------------------------------------------------------------------------------------------------- training

def loss(outputs, labels):
    logp = F.log_softmax(outputs["logits"], -1)
    keep = (labels != PAD).to(logp.dtype)
    nll = -logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    smooth = -logp.mean(-1)
    token = (1 - cfg.smoothing) * nll + cfg.smoothing * smooth
    cover, penalty = torch.zeros_like(outputs["attn"][:, 0]), 0
    for t in range(labels.size(1)):
        a = outputs["attn"][:, t]
        penalty = penalty + torch.minimum(a, cover).sum(-1) * keep[:, t]
        cover = cover + a
    return ((token * keep).sum() + cfg.coverage * penalty.sum()) / keep.sum()


def metric(outputs, labels):
    logits = outputs["logits"]
    keep = labels != PAD
    hit = (logits.argmax(-1) == labels) & keep
    nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
    exact = (hit | ~keep).all(1).float().mean()
    top5 = (logits.topk(5, -1)[1] == labels.unsqueeze(-1)).any(-1) & keep
    return {"accuracy": hit.sum().item() / keep.sum().item(), "ppl": nll.exp().item(), "exact": exact.item(),
            "top5": top5.sum().item() / keep.sum().item()}


def noam(step):
    step = step + 1
    return cfg.factor * cfg.hidden ** -0.5 * min(step ** -0.5, step * cfg.warmup ** -1.5)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1.0, betas=tuple(cfg.betas), eps=cfg.eps)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, noam)


def train_step(model, optimizer, batch):
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    optimizer.zero_grad()
    value = loss(model(**inputs), batch["labels"])
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
    optimizer.step()
    return value


# ------------------------------------------------------------------------------------------------------ inference

def length_penalty(n):
    return ((5 + n) / 6) ** cfg.alpha


@torch.no_grad()
def beam_search(model, ids):
    src = torch.tensor([ids])
    memory, keys, mask, h = model.encode(src, torch.tensor([len(ids)]))
    beams, done = [([BOS], 0.0, h)], []
    for _ in range(cfg.max_len):
        grown = []
        for words, score, h in beams:
            y, h2, _ = model.decoder.step(torch.tensor(words[-1:]), h, keys, memory, mask)
            logp = F.log_softmax(y, -1)[0]
            logp[[PAD, BOS]] = float("-inf")
            top, idx = logp.topk(cfg.beam)
            for lp, w in zip(top.tolist(), idx.tolist()):
                grown.append((words + [w], score + lp, h2))
        grown.sort(key=lambda g: -g[1])
        beams = []
        for g in grown[:cfg.beam]:
            if g[0][-1] == EOS:
                done.append((g[0][1:-1], g[1] / length_penalty(len(g[0]) - 1)))
            else:
                beams.append(g)
        if not beams or len(done) >= cfg.beam:
            break
    done += [(b[0][1:], b[1] / length_penalty(len(b[0]) - 1)) for b in beams]
    return max(done, key=lambda d: d[1])


def predict(path, model):
    texts, ids, scores = [], [], []
    for line in open(path, encoding="utf8"):
        best, score = beam_search(model, SRC.encode(line)[:cfg.max_words] + [EOS])
        texts.append(TGT.decode(best))
        ids.append(best)
        scores.append(score)
    return {"text": texts, "ids": ids, "scores": scores}
