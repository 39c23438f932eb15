"""End-to-end memory network (Sukhbaatar et al., 2015), adjacent tying, position encoding."""
import configparser
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
ini = configparser.ConfigParser()
ini.read(os.path.join(DATA, "memn2n.ini"))
M, T = ini["model"], ini["train"]
HOPS, DIM, MEM, LEN = (M.getint(k) for k in ("hops", "dim", "memory", "words"))


def read(split):
    with open(os.path.join(DATA, split + ".jsonl")) as fh:
        return [json.loads(line) for line in fh]


WORDS = ["<nil>"] + sorted({w for r in read("train") for s in r["story"] + [r["question"]] for w in s.split()})
W2I = {w: i for i, w in enumerate(WORDS)}
ANSWERS = sorted({r["answer"] for r in read("train")})


def vec(sentence):
    ids = [W2I.get(w, 0) for w in sentence.split()][:LEN]
    return torch.tensor(ids + [0] * (LEN - len(ids)))


def encode(r):
    mem = torch.zeros(MEM, LEN, dtype=torch.long)
    for k, s in enumerate(reversed(r["story"][-MEM:])):     # the newest first
        mem[k] = vec(s)
    return mem, vec(r["question"])


class Babi(Dataset):
    def __init__(self, split):
        self.rows = read(split)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        mem, q = encode(self.rows[i])
        return mem, q, torch.tensor(ANSWERS.index(self.rows[i]["answer"]))


def position_encoding(n, d):
    j = torch.arange(1, n + 1).float()[:, None]
    k = torch.arange(1, d + 1).float()[None, :]
    return 1 - j / n - (k / d) * (1 - 2 * j / n)


class MemN2N(nn.Module):
    """A^{k+1} = C^k, B = A^1; the table of hop k is embed[k]."""

    def __init__(self):
        super().__init__()
        std = M.getfloat("init_std")
        self.embed = nn.ModuleList(nn.Embedding(len(WORDS), DIM, padding_idx=0) for _ in range(HOPS + 1))
        self.time = nn.ParameterList(nn.Parameter(torch.empty(MEM, DIM)) for _ in range(HOPS + 1))
        for e, t in zip(self.embed, self.time):
            nn.init.normal_(e.weight, std=std)
            with torch.no_grad():
                e.weight[0].zero_()
            nn.init.normal_(t, std=std)
        self.H = nn.Linear(DIM, DIM, bias=False)
        nn.init.eye_(self.H.weight)
        self.out = nn.Linear(DIM, len(ANSWERS), bias=False)
        nn.init.normal_(self.out.weight, std=std)
        self.register_buffer("pe", position_encoding(LEN, DIM))

    def forward(self, memory, question):
        used = memory.ne(0).any(-1)
        u = (self.embed[0](question) * self.pe).sum(1)
        attention = []
        for k in range(HOPS):
            m = (self.embed[k](memory) * self.pe).sum(2) + self.time[k]
            c = (self.embed[k + 1](memory) * self.pe).sum(2) + self.time[k + 1]
            s = torch.einsum("bmd,bd->bm", m, u).masked_fill(~used, float("-inf"))
            p = s.softmax(-1)
            u = self.H(u) + torch.einsum("bm,bmd->bd", p, c)
            attention.append(p)
        return {"logits": self.out(u), "attention": torch.stack(attention, 1)}


def build_model():
    return MemN2N()


def build_dataset(split):
    return Babi(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=T.getint("batch"), shuffle=split == "train")


def loss(outputs, labels):
    """Cross-entropy; a small reward for sharp attention in the last hop."""
    ce = F.cross_entropy(outputs["logits"], labels)
    p = outputs["attention"][:, -1]
    entropy = -torch.special.xlogy(p, p.clamp(min=1e-12)).sum(-1).mean()
    return ce + 0.01 * entropy


def metric(outputs, labels):
    logits = outputs["logits"]
    rank = (logits > logits.gather(1, labels[:, None])).sum(1) + 1
    return {"acc": (rank == 1).float().mean().item(), "mrr": (1.0 / rank).mean().item()}


def build_optimizer(model):
    time = list(model.time.parameters())
    ids = {id(p) for p in time}
    rest = [p for p in model.parameters() if id(p) not in ids]
    return torch.optim.SGD([{"params": rest}, {"params": time, "lr": 2 * T.getfloat("lr")}],
                           lr=T.getfloat("lr"), momentum=T.getfloat("momentum"), nesterov=True)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / 3, 1.0, T.getint("max_lr_warm"))
    anneal = torch.optim.lr_scheduler.StepLR(optimizer, T.getint("anneal_every"), T.getfloat("anneal_gamma"))
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, anneal], [T.getint("max_lr_warm")])


def clip_each(model):
    """Every gradient by its own norm, as in the paper's code."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(torch.clamp(T.getfloat("clip") / (p.grad.norm() + 1e-12), max=1.0))


def train_step(model, optimizer, batch):
    model.train()
    memory, question, answer = batch
    out = model(memory, question)
    l = loss(out, answer)
    optimizer.zero_grad()
    l.backward()
    clip_each(model)
    optimizer.step()
    return {"loss": l.item(), **metric(out, answer)}


@torch.no_grad()
def predict(path, model):
    with open(path) as fh:
        rows = json.load(fh)
    model.eval()
    mem, q = (torch.stack(t) for t in zip(*map(encode, rows)))
    out = model(mem, q)
    prob, best = out["logits"].softmax(-1).max(-1)
    return {"answers": ",".join(ANSWERS[i] for i in best), "confidence": prob.numpy(),
            "support": out["attention"].argmax(-1).numpy()}
