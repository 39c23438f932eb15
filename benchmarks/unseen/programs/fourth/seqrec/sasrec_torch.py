"""Self-attentive sequential recommendation, with BPR loss and sampled ranking metrics.

    python sasrec_torch.py        trains for a few epochs and prints NDCG@5 and HR@5
"""
from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class args:
    plays = "plays.txt"
    negatives = "negatives.txt"
    maxlen = 12
    hidden = 24
    blocks = 2
    heads = 2
    dropout = 0.2
    l2_emb = 1e-3
    batch = 6
    topk = 5
    lr = 3e-3
    beta2 = 0.98
    warmup = 8
    weight_decay = 1e-4


# ---------------------------------------------------------------- data

def data_partition(path):
    """{user: items in order of time}; the last is for test, the one before for validation"""
    plays = defaultdict(list)
    for line in open(path):
        u, i, t = (int(v) for v in line.split("\t"))
        plays[u].append((t, i))
    return {u: [i for _, i in sorted(rows)] for u, rows in sorted(plays.items())}


def read_negatives(path):
    out = {}
    for line in open(path):
        u, train, rank = line.strip().split("|")
        out[int(u)] = ([int(i) for i in train.split()], [int(i) for i in rank.split()])
    return out


class PlayLists(Dataset):
    def __init__(self, split):
        self.users = data_partition(args.plays)
        self.negatives = read_negatives(args.negatives)
        self.split = split
        self.ids = [u for u in self.users if len(self.users[u]) >= 5]
        self.n_items = max(max(s) for s in self.users.values())

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, idx):
        user = self.ids[idx]
        history = self.users[user]
        train_neg, rank_neg = self.negatives[user]
        if self.split == "train":
            history, held_out = history[:-2], history[-2]
        else:
            history, held_out = history[:-1], history[-1]
        seq = np.zeros(args.maxlen, dtype=np.int64)
        pos = np.zeros(args.maxlen, dtype=np.int64)
        neg = np.zeros(args.maxlen, dtype=np.int64)
        nxt = held_out
        at = args.maxlen - 1
        for item in reversed(history):
            seq[at] = item
            pos[at] = nxt
            if nxt != 0:
                neg[at] = train_neg[at % len(train_neg)]
            nxt = item
            at -= 1
            if at == -1:
                break
        cand = np.array([held_out] + rank_neg, dtype=np.int64)
        return {"seq": seq, "pos": pos, "neg": neg, "cand": cand, "labels": pos.copy()}


def build_dataset(split):
    return PlayLists(split)


def build_dataloader(split):
    return DataLoader(PlayLists(split), batch_size=args.batch, shuffle=False, drop_last=split == "train")


# ---------------------------------------------------------------- model

class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden, hidden, kernel_size=1)
        self.dropout1 = nn.Dropout(p=dropout)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv1d(hidden, hidden, kernel_size=1)
        self.dropout2 = nn.Dropout(p=dropout)

    def forward(self, inputs):
        out = self.dropout2(self.conv2(self.relu(self.dropout1(self.conv1(inputs.transpose(-1, -2))))))
        return out.transpose(-1, -2) + inputs


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.wq = nn.Linear(hidden, hidden)
        self.wk = nn.Linear(hidden, hidden)
        self.wv = nn.Linear(hidden, hidden)
        self.wo = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(dropout)

    def forward(self, q, kv, blocked):
        B, L, D = q.shape
        dk = D // self.heads

        def cut(t):
            return t.view(B, L, self.heads, dk).permute(0, 2, 1, 3)

        qh, kh, vh = cut(self.wq(q)), cut(self.wk(kv)), cut(self.wv(kv))
        score = torch.einsum("bhid,bhjd->bhij", qh, kh) / dk ** 0.5
        score = score.masked_fill(blocked, -2.0 ** 32 + 1)
        prob = self.drop(score.softmax(dim=-1))
        out = torch.einsum("bhij,bhjd->bhid", prob, vh)
        return self.wo(out.permute(0, 2, 1, 3).reshape(B, L, D))


class SASRec(nn.Module):
    def __init__(self, item_num):
        super().__init__()
        h = args.hidden
        self.item_emb = nn.Embedding(item_num + 1, h, padding_idx=0)
        self.pos_emb = nn.Embedding(args.maxlen, h)
        self.emb_dropout = nn.Dropout(p=args.dropout)
        self.attention_layernorms = nn.ModuleList()
        self.attention_layers = nn.ModuleList()
        self.forward_layernorms = nn.ModuleList()
        self.forward_layers = nn.ModuleList()
        self.last_layernorm = nn.LayerNorm(h, eps=1e-8)
        for _ in range(args.blocks):
            self.attention_layernorms.append(nn.LayerNorm(h, eps=1e-8))
            self.attention_layers.append(Attention(h, args.heads, args.dropout))
            self.forward_layernorms.append(nn.LayerNorm(h, eps=1e-8))
            self.forward_layers.append(PointWiseFeedForward(h, args.dropout))
        self.register_buffer("future", torch.triu(torch.ones(args.maxlen, args.maxlen, dtype=torch.bool), 1), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.xavier_normal_(p)
        with torch.no_grad():
            self.item_emb.weight[0].zero_()

    def log2feats(self, seq):
        x = self.item_emb(seq) * self.item_emb.embedding_dim ** 0.5
        x = x + self.pos_emb(torch.arange(seq.shape[1], device=seq.device))
        x = self.emb_dropout(x)
        pad = seq == 0
        alive = (~pad).unsqueeze(-1).to(x.dtype)
        x = x * alive
        blocked = self.future[None, None] | pad[:, None, None, :]
        for n1, att, n2, ffn in zip(self.attention_layernorms, self.attention_layers, self.forward_layernorms, self.forward_layers):
            q = n1(x)
            x = q + att(q, x, blocked)
            x = ffn(n2(x)) * alive
        return self.last_layernorm(x)

    def forward(self, seq, pos, neg, cand):
        feats = self.log2feats(seq)
        e_pos, e_neg = self.item_emb(pos), self.item_emb(neg)
        pos_logits = (feats * e_pos).sum(-1)
        neg_logits = (feats * e_neg).sum(-1)
        scores = (self.item_emb(cand) @ feats[:, -1].unsqueeze(-1)).squeeze(-1)
        reg = (e_pos ** 2).sum(-1) + (e_neg ** 2).sum(-1)
        return pos_logits, neg_logits, scores, reg


def build_model():
    items = max(max(s) for s in data_partition(args.plays).values())
    return SASRec(items)


# ---------------------------------------------------------------- loss and metric

def loss(outputs, labels):
    pos, neg, _, reg = outputs
    idx = torch.where(labels != 0)
    bpr = -torch.log(torch.sigmoid(pos[idx] - neg[idx]) + 1e-10).mean()
    return bpr + args.l2_emb * 0.5 * reg[idx].sum() / labels.shape[0]


def metric(outputs, labels):
    """column 0 is the held-out item"""
    scores = outputs[2].detach().cpu().numpy()
    ndcg = hit = mrr = 0.0
    for row in scores:
        rank = (-row).argsort().argsort()[0]
        mrr += 1 / (rank + 1)
        if rank < args.topk:
            ndcg += 1 / np.log2(rank + 2)
            hit += 1
    n = len(scores)
    return {"ndcg": ndcg / n, "hr": hit / n, "mrr": mrr / n}


# ---------------------------------------------------------------- optimizer

class NoamLR(torch.optim.lr_scheduler.LRScheduler):
    """rises to the base rate in `warmup` steps, falls by the inverse root afterwards"""

    def __init__(self, optimizer, warmup):
        self.warmup = warmup
        super().__init__(optimizer)

    def get_lr(self):
        step = self.last_epoch + 1
        scale = min(step / self.warmup, (self.warmup / step) ** 0.5)
        return [base * scale for base in self.base_lrs]


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, args.beta2), weight_decay=args.weight_decay)


def build_scheduler(optimizer):
    return NoamLR(optimizer, args.warmup)


# ---------------------------------------------------------------- prediction

def predict(path, model):
    """the ten best songs that are not in the session yet"""
    session = [int(i) for i in open(path).read().split()]
    seq = np.zeros((1, args.maxlen), dtype=np.int64)
    tail = session[-args.maxlen:]
    seq[0, args.maxlen - len(tail):] = tail
    with torch.no_grad():
        feats = model.log2feats(torch.from_numpy(seq))[0, -1]
        score = model.item_emb.weight @ feats
        score[0] = -np.inf
        score[torch.tensor(sorted(set(session)))] = -np.inf
        best = torch.topk(score, 10)
    return {"items": best.indices.numpy(), "scores": best.values.numpy()}


if __name__ == "__main__":
    torch.manual_seed(0)
    net = build_model()
    adam = build_optimizer(net)
    noam = build_scheduler(adam)
    for epoch in range(3):
        net.train()
        for batch in build_dataloader("train"):
            y = batch.pop("labels")
            value = loss(net(**batch), y)
            adam.zero_grad()
            value.backward()
            adam.step()
            noam.step()
        print(epoch, float(value))
