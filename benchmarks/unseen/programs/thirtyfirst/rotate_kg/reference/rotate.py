"""RotatE (Sun et al. 2019): relations are rotations in the complex plane; self-adversarial negatives."""
import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
DIM, GAMMA, EPSILON, N_NEG, ADV_T = 8, 4.0, 2.0, 6, 1.0
N_STEPS = 14


def read(split):
    return [tuple(line.split("\t")) for line in (DATA / f"{split}.tsv").read_text().splitlines()]


_all = read("train") + read("val")
ENTITY = {e: i for i, e in enumerate(sorted({t[0] for t in _all} | {t[2] for t in _all}))}
RELATION = {r: i for i, r in enumerate(sorted({t[1] for t in _all}))}
KNOWN = {(ENTITY[h], RELATION[r], ENTITY[t]) for h, r, t in _all}


class Triples(Dataset):
    """(triple, negative entities, corrupts-head flag); labels: weight by frequency and true tail."""

    def __init__(self, split):
        self.triples = [(ENTITY[h], RELATION[r], ENTITY[t]) for h, r, t in read(split)]
        self.count = {}
        for h, r, t in self.triples:
            for key in ((h, r), (t, -r - 1)):
                self.count[key] = self.count.get(key, 4) + 1

    def __len__(self):
        return len(self.triples)

    def __getitem__(self, i):
        h, r, t = self.triples[i]
        head_mode = i % 2
        rng = random.Random(1000 + i)  # fixed negatives, filtered
        neg = []
        while len(neg) < N_NEG:
            e = rng.randrange(len(ENTITY))
            if ((e, r, t) if head_mode else (h, r, e)) not in KNOWN:
                neg.append(e)
        weight = (self.count[(h, r)] + self.count[(t, -r - 1)]) ** -0.5
        labels = {"weight": torch.tensor(weight, dtype=torch.float32), "tail": torch.tensor(t)}
        return torch.tensor([h, r, t]), torch.tensor(neg), torch.tensor(head_mode), labels


class RotatE(nn.Module):
    def __init__(self):
        super().__init__()
        self.range = (GAMMA + EPSILON) / DIM
        self.entity = nn.Parameter(torch.empty(len(ENTITY), 2 * DIM).uniform_(-self.range, self.range))
        self.relation = nn.Parameter(torch.empty(len(RELATION), DIM).uniform_(-self.range, self.range))
        self.modulus = nn.Parameter(torch.tensor([0.5 * self.range]), requires_grad=False)

    def score(self, head, relation, tail, head_mode):
        re_h, im_h = head.chunk(2, dim=-1)
        re_t, im_t = tail.chunk(2, dim=-1)
        phase = relation / (self.range / torch.pi)
        re_r, im_r = torch.cos(phase), torch.sin(phase)
        forward = torch.stack([re_h * re_r - im_h * im_r - re_t, re_h * im_r + im_h * re_r - im_t])
        backward = torch.stack([re_r * re_t + im_r * im_t - re_h, re_r * im_t - im_r * re_t - im_h])
        diff = torch.where(head_mode.bool().view(1, -1, 1, 1), backward, forward)
        return GAMMA - (diff.pow(2).sum(0) + 1e-9).sqrt().sum(-1)

    def forward(self, triple, negatives, head_mode):
        h, r, t = self.entity[triple[:, :1]], self.relation[triple[:, 1:2]], self.entity[triple[:, 2:]]
        n = self.entity[negatives]
        flag = head_mode.bool().view(-1, 1, 1)
        pos = self.score(h, r, t, head_mode).squeeze(1)
        neg = self.score(torch.where(flag, n, h), r, torch.where(flag, t, n), head_mode)
        return pos, neg, self.entity

    def rank_tails(self, head, relation):
        B = len(head)
        h, r = self.entity[head].unsqueeze(1), self.relation[relation].unsqueeze(1)
        return self.score(h, r, self.entity.unsqueeze(0).expand(B, -1, -1), torch.zeros(B))


def build_model():
    return RotatE()


def build_dataset(split):
    return Triples(split)


def build_dataloader(split):
    ds = build_dataset(split)
    size = -(-len(ds) // N_STEPS) if split == "train" else 9
    return DataLoader(ds, batch_size=size, shuffle=split == "train")


def loss(outputs, labels, reg=1e-4):
    pos, neg, entity = outputs
    w = labels["weight"]
    adversarial = F.softmax(neg.detach() * ADV_T, dim=1)
    negative = -((adversarial * F.logsigmoid(-neg)).sum(1) * w).sum() / w.sum()
    positive = -(F.logsigmoid(pos) * w).sum() / w.sum()
    l3 = reg * entity.norm(p=3) ** 3
    return {"loss": (positive + negative) / 2 + l3, "positive": positive, "negative": negative}


def metric(outputs, labels):
    pos, neg, _ = outputs
    rank = 1 + (neg > pos.unsqueeze(1)).sum(1).float()
    return {"mrr": (1 / rank).mean().item(), "hits@1": (rank <= 1).float().mean().item(), "margin": (pos - neg.mean(1)).mean().item()}


def build_optimizer(model):
    return torch.optim.Adagrad([p for p in model.parameters() if p.requires_grad], lr=0.1, initial_accumulator_value=0.01, eps=1e-8)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [3 * N_STEPS, 6 * N_STEPS], gamma=0.2)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    out = loss(model(*inputs), labels)
    optimizer.zero_grad()
    out["loss"].backward()
    optimizer.step()
    with torch.no_grad():  # phases live on a circle
        full = 2 * model.range
        model.relation.copy_(torch.remainder(model.relation + model.range, full) - model.range)
    return {k: v.item() for k, v in out.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    q = json.loads(Path(path).read_text())
    s = model.rank_tails(torch.tensor([ENTITY[x["head"]] for x in q]), torch.tensor([RELATION[x["relation"]] for x in q]))
    names = list(ENTITY)
    best = [" ".join(names[k] for k in row.topk(3).indices) for row in s]
    return {"scores": s.numpy(), "best": best}
