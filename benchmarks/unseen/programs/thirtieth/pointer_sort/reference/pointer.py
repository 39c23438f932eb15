"""Pointer network (Vinyals et al. 2015): visit points in angular order. PyTorch."""
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

ROOT = Path(__file__).resolve().parent.parent
MAX_LEN, HIDDEN, EMBED, BATCH = 8, 24, 16, 6
PAD = -1


class Pointer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(2, EMBED)
        self.encoder = nn.LSTM(EMBED, HIDDEN, batch_first=True, bidirectional=True)
        self.bridge_h = nn.Linear(2 * HIDDEN, HIDDEN)
        self.bridge_c = nn.Linear(2 * HIDDEN, HIDDEN)
        self.cell = nn.LSTMCell(EMBED, HIDDEN)
        self.start = nn.Parameter(torch.empty(EMBED).uniform_(-0.1, 0.1))
        self.w_ref = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.w_query = nn.Linear(HIDDEN, HIDDEN)
        self.v = nn.Linear(HIDDEN, 1, bias=False)
        self.dropout = nn.Dropout(0.1)
        for name, p in self.named_parameters():
            if "weight" in name and name.startswith(("w_", "v", "bridge", "embed")):
                nn.init.xavier_uniform_(p)
            elif "bias_hh" in name:
                nn.init.zeros_(p)
            elif "bias_ih" in name:                 # forget gate starts open
                nn.init.zeros_(p)
                p.data[HIDDEN:2 * HIDDEN] = 1.0
            elif "bias" in name:
                nn.init.zeros_(p)
            elif "weight_hh" in name:
                for gate in p.data.chunk(4):
                    nn.init.orthogonal_(gate)

    def encode(self, points, length):
        x = torch.tanh(self.embed(points))
        packed = pack_padded_sequence(x, length.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, c) = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True, total_length=points.size(1))
        h = torch.tanh(self.bridge_h(torch.cat([h[0], h[1]], -1)))
        c = self.bridge_c(torch.cat([c[0], c[1]], -1))
        return x, memory, (h, c)

    def point(self, keys, h, mask):
        score = self.v(torch.tanh(keys + self.w_query(h).unsqueeze(1))).squeeze(-1)
        return (10.0 * torch.tanh(score)).masked_fill(mask, -1e9)

    def forward(self, points, length, previous):
        x, memory, state = self.encode(points, length)
        keys = self.w_ref(self.dropout(memory))
        idx = torch.arange(points.size(1), device=points.device)
        mask = idx[None] >= length[:, None]
        rows = torch.arange(points.size(0), device=points.device)
        inp = self.start.expand(points.size(0), -1)
        logits = []
        for t in range(points.size(1)):
            if t > 0:
                last = previous[:, t - 1]
                inp = x[rows, last.clamp(min=0)]
                visited = F.one_hot(last.clamp(min=0), points.size(1)).bool() & (last >= 0)[:, None]
                mask = mask | visited
            state = self.cell(inp, state)
            logits.append(self.point(keys, state[0], mask))
        return torch.stack(logits, 1)

    @torch.no_grad()
    def decode(self, points):
        """Greedy decoding of one set."""
        n = points.size(1)
        x, memory, state = self.encode(points, torch.tensor([n]))
        keys, mask = self.w_ref(memory), torch.zeros(1, n, dtype=torch.bool)
        inp, order, logp = self.start[None], [], 0.0
        for _ in range(n):
            state = self.cell(inp, state)
            lp = F.log_softmax(self.point(keys, state[0], mask), -1)
            best = lp.argmax(-1)
            order.append(int(best))
            mask[0, best] = True
            logp += lp[0, best].item()
            inp = x[0, best]
        return order, logp


class Tours(Dataset):
    def __init__(self, split):
        lines = (ROOT / "data" / "tours.jsonl").read_text().splitlines()
        self.rows = [r for r in map(json.loads, lines) if r["fold"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        p, o = self.rows[i]["points"], self.rows[i]["order"]
        points = torch.zeros(MAX_LEN, 2)
        points[:len(p)] = torch.tensor(p)
        order = torch.full((MAX_LEN,), PAD)
        order[:len(o)] = torch.tensor(o)
        return points, len(p), order, order.clone()


class BucketSampler(Sampler):
    """Batches of similar length; order of batches drawn anew at every pass."""

    def __init__(self, lengths, batch_size, seed=0):
        self.lengths, self.batch_size, self.rng = lengths, batch_size, np.random.RandomState(seed)

    def __iter__(self):
        noise = self.rng.rand(len(self.lengths))
        order = np.lexsort((noise, self.lengths))
        batches = [order[i:i + self.batch_size].tolist() for i in range(0, len(order), self.batch_size)]
        for j in self.rng.permutation(len(batches)):
            yield batches[j]

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)


def build_model():
    return Pointer()


def build_dataset(split):
    return Tours(split)


def build_dataloader(split):
    ds = Tours(split)
    if split == "train":
        return DataLoader(ds, batch_sampler=BucketSampler([len(r["points"]) for r in ds.rows], BATCH))
    return DataLoader(ds, batch_size=12)


def loss(outputs, labels):
    return {"loss": F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=PAD)}


def metric(outputs, labels):
    hit, real = outputs.argmax(-1) == labels, labels != PAD
    return {"step_accuracy": (hit & real).sum().item() / real.sum().item(),
            "tour_accuracy": (hit | ~real).all(-1).float().mean().item()}


def build_optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, eps=1e-3, momentum=0.5)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[40, 80], gamma=0.3)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    value = loss(model(*inputs), labels)["loss"]
    value.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.25)
    optimizer.step()
    return {"loss": value.item()}


def predict(path, model):
    model.eval()
    points = torch.tensor(json.loads(Path(path).read_text())["points"])[None]
    order, logp = model.decode(points)
    tour = points[0, order + order[:1]]
    return {"order": order, "log_prob": [logp], "tour_length": [(tour[1:] - tour[:-1]).norm(dim=-1).sum().item()]}
