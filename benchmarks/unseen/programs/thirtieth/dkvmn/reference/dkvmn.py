"""Dynamic key-value memory network for knowledge tracing (Zhang et al. 2017). PyTorch."""
import csv
import json
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent.parent / "data"
args = Namespace(skills=15, slots=6, key_dim=10, value_dim=14, hidden=12, window=16, min_len=5,
                 batch=8, lr=8e-3, init_std=0.1, l2=1e-5, max_norm=1.0, l1_mem=1e-3, dropout=0.15)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Parameter(torch.randn(args.slots, args.key_dim) * args.init_std)
        self.value = nn.Parameter(torch.randn(args.slots, args.value_dim) * args.init_std)
        self.erase = nn.Linear(args.value_dim, args.value_dim)
        self.add = nn.Linear(args.value_dim, args.value_dim)
        for layer in (self.erase, self.add):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def address(self, q):
        return F.softmax(q @ self.key.t(), dim=-1)

    @staticmethod
    def read(state, w):
        return torch.bmm(w.unsqueeze(1), state).squeeze(1)

    def write(self, state, w, v):
        e = torch.sigmoid(self.erase(v)).unsqueeze(1)
        a = torch.tanh(self.add(v)).unsqueeze(1)
        w = w.unsqueeze(-1)
        return state * (1 - w * e) + w * a


class DKVMN(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_embed = nn.Embedding(args.skills + 1, args.key_dim, padding_idx=0)
        self.qa_embed = nn.Embedding(2 * args.skills + 1, args.value_dim, padding_idx=0)
        for emb in (self.q_embed, self.qa_embed):
            nn.init.kaiming_normal_(emb.weight)
            with torch.no_grad():
                emb.weight[0].zero_()
        self.memory = Memory()
        self.summary = nn.Linear(args.value_dim + args.key_dim, args.hidden)
        self.drop = nn.Dropout(args.dropout)
        self.out = nn.Linear(args.hidden, 1)
        nn.init.kaiming_normal_(self.summary.weight)
        nn.init.kaiming_normal_(self.out.weight)
        nn.init.zeros_(self.summary.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, skill, answered):
        q = self.q_embed(skill)
        v = self.qa_embed(answered)
        state = self.memory.value.unsqueeze(0).repeat(skill.size(0), 1, 1)
        reads = []
        for t in range(skill.size(1)):
            w = self.memory.address(q[:, t])
            reads.append(self.memory.read(state, w))
            new = self.memory.write(state, w, v[:, t])
            alive = (skill[:, t] > 0)[:, None, None]
            state = torch.where(alive, new, state)
        f = torch.tanh(self.summary(torch.cat([torch.stack(reads, 1), q], -1)))
        logit = self.out(self.drop(f)).squeeze(-1)
        return {"logit": logit, "state": state}


def read_log(split):
    students = OrderedDict()
    with open(ROOT / "log.csv", newline="") as f:
        for row in csv.DictReader(f):
            if row["part"] == split:
                students.setdefault(row["student"], []).append((int(row["skill"]), int(row["correct"])))
    return students


class Log(Dataset):
    """Windows of at most `window` answers; shorter remainders than `min_len` are dropped."""

    def __init__(self, split):
        self.parts = []
        for answers in read_log(split).values():
            for i in range(0, len(answers), args.window):
                part = answers[i:i + args.window]
                if len(part) >= args.min_len:
                    self.parts.append(part)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, i):
        part = self.parts[i]
        skill = np.zeros(args.window, np.int64)
        answered = np.zeros(args.window, np.int64)
        correct = np.full(args.window, -1.0, np.float32)
        for t, (s, a) in enumerate(part):
            skill[t], answered[t], correct[t] = s, s + a * args.skills, a
        return skill, answered, correct


def build_model():
    return DKVMN()


def build_dataset(split):
    return Log(split)


def build_dataloader(split):
    return DataLoader(Log(split), batch_size=args.batch, shuffle=split == "train", drop_last=False)


def loss(outputs, labels):
    mask = labels >= 0
    bce = F.binary_cross_entropy_with_logits(outputs["logit"][mask], labels[mask])
    sparsity = outputs["state"].abs().mean()
    return {"loss": bce + args.l1_mem * sparsity, "bce": bce}


def auc(score, truth):
    """Rank statistic with ties counted half."""
    pos, neg = score[truth == 1], score[truth == 0]
    if len(pos) == 0 or len(neg) == 0:
        return 0.5
    d = pos[:, None] - neg[None]
    return float((d > 0).mean() + 0.5 * (d == 0).mean())


def metric(outputs, labels):
    mask = (labels >= 0).numpy()
    score = outputs["logit"].detach().numpy()[mask]
    truth = labels.numpy()[mask]
    return {"auc": auc(score, truth), "accuracy": float(((score > 0) == (truth > 0.5)).mean())}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.l2, eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=28, gamma=0.6667)


def train_step(model, optimizer, batch):
    model.train()
    skill, answered, correct = batch
    out = model(skill, answered)
    parts = loss(out, correct)
    optimizer.zero_grad()
    parts["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    d = json.loads(Path(path).read_text())
    s, a = torch.tensor(d["skills"]), torch.tensor(d["correct"])
    out = model(s[None], (s + a * args.skills)[None])
    # mastery: how well each skill would be answered next
    every = torch.arange(1, args.skills + 1)
    q = model.q_embed(every)
    r = model.memory.address(q) @ out["state"][0]
    mastery = torch.sigmoid(model.out(torch.tanh(model.summary(torch.cat([r, q], -1)))))
    return {"probability": torch.sigmoid(out["logit"][0]).numpy(), "mastery": mastery[:, 0].numpy()}
