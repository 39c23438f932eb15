# Readmission risk from a patient's visits: bags of codes -> BiGRU over packed visits -> attention pooling.
import csv
import json
import math
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader

CSV = "data/visits.csv"
RISKS = ["low", "mid", "high"]
N_CODES = 30
EMB, GAP, HID = 12, 4, 10
SMOOTH = 0.1
CLASS_WEIGHT = [1.0, 1.5, 0.8]
ACCUM, MAX_NORM = 2, 0.5
BASE_LR, WARMUP, MIN_FACTOR = 6e-3, 8, 0.15
BATCH = 6


# ---------------------------------------------------------------- data
def make_reader(path):
    def read(split):
        patients = OrderedDict()
        with open(path) as f:
            for row in csv.DictReader(f):
                if row["split"] != split:
                    continue
                p = patients.setdefault(row["patient"], {"codes": [], "gaps": [], "risk": RISKS.index(row["risk"])})
                p["codes"].append([int(c) for c in row["codes"].split(";")] if row["codes"] else [])
                p["gaps"].append(math.log1p(float(row["gap_days"])))
        order = list(patients)
        if split == "train":
            order = [order[i] for i in np.random.RandomState(17).permutation(len(order))]
        samples = []
        for name in order:
            p = patients[name]
            width = max(1, max(len(c) for c in p["codes"]))
            codes = np.zeros((len(p["codes"]), width), dtype=np.int64)
            for t, visit in enumerate(p["codes"]):
                codes[t, :len(visit)] = visit
            samples.append((codes, np.array(p["gaps"], dtype=np.float32), p["risk"]))
        return samples
    return read


build_dataset = make_reader(CSV)


def collate(samples):
    steps = max(len(g) for _, g, _ in samples) + 1          # one column of padding always
    width = max(c.shape[1] for c, _, _ in samples)
    codes = torch.zeros(len(samples), steps, width, dtype=torch.long)
    gaps = torch.zeros(len(samples), steps)
    for i, (c, g, _) in enumerate(samples):
        codes[i, :c.shape[0], :c.shape[1]] = torch.from_numpy(c)
        gaps[i, :len(g)] = torch.from_numpy(g)
    return {"codes": codes, "gaps": gaps,
            "lengths": torch.tensor([len(g) for _, g, _ in samples]),
            "labels": torch.tensor([r for _, _, r in samples])}


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, collate_fn=collate)


# ---------------------------------------------------------------- model
class RiskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.EmbeddingBag(N_CODES, EMB, mode="mean", padding_idx=0)
        self.gap = nn.Linear(1, GAP)
        self.norm = nn.LayerNorm(EMB + GAP)
        self.rnn = nn.GRU(EMB + GAP, HID, num_layers=2, batch_first=True, bidirectional=True)
        self.att = nn.Linear(2 * HID, HID)
        self.att_v = nn.Linear(HID, 1, bias=False)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(4 * HID, len(RISKS))
        nn.init.zeros_(self.head.bias)
        for name, p in self.rnn.named_parameters():
            if "weight_hh" in name:
                nn.init.xavier_uniform_(p)

    def forward(self, codes, gaps, lengths):
        b, t, c = codes.shape
        bag = self.codes(codes.reshape(b * t, c)).reshape(b, t, EMB)
        x = self.norm(torch.cat([bag, torch.tanh(self.gap(gaps.unsqueeze(-1)))], dim=-1))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, last = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=t)
        score = self.att_v(torch.tanh(self.att(out))).squeeze(-1)
        mask = torch.arange(t, device=codes.device)[None] < lengths[:, None]
        weight = torch.softmax(score.masked_fill(~mask, float("-inf")), dim=1)
        pooled = (weight.unsqueeze(-1) * out).sum(1)
        final = torch.cat([last[-2], last[-1]], dim=-1)
        return self.head(self.drop(torch.cat([pooled, final], dim=-1)))


def build_model():
    return RiskNet()


# ---------------------------------------------------------------- loss, metric
def loss(outputs, labels):
    weight = torch.tensor(CLASS_WEIGHT, dtype=outputs.dtype, device=outputs.device)
    return F.cross_entropy(outputs, labels, weight=weight, label_smoothing=SMOOTH)


def make_metric(bins):
    def calibration(p, y):
        conf, hit = p.max(1), p.argmax(1) == y
        where = np.minimum((conf * bins).astype(int), bins - 1)
        return sum(abs(conf[where == b].mean() - hit[where == b].mean()) * (where == b).mean()
                   for b in range(bins) if (where == b).any())

    def auc(score, positive):
        pos, neg = score[positive], score[~positive]
        if not len(pos) or not len(neg):
            return 0.5
        diff = pos[:, None] - neg[None]
        return ((diff > 0) + 0.5 * (diff == 0)).mean()

    def metric(outputs, labels):
        z = outputs.detach().cpu().double().numpy()
        e = np.exp(z - z.max(1, keepdims=True))
        p, y = e / e.sum(1, keepdims=True), labels.cpu().numpy()
        return {"auc": float(np.mean([auc(p[:, k], y == k) for k in range(len(RISKS))])),
                "ece": float(calibration(p, y))}
    return metric


metric = make_metric(bins=5)


# ---------------------------------------------------------------- training
def build_optimizer(model):
    table = [model.codes.weight]
    rest = [p for n, p in model.named_parameters() if n != "codes.weight"]
    return torch.optim.AdamW([{"params": table, "lr": 2 * BASE_LR, "weight_decay": 0.0},
                              {"params": rest, "lr": BASE_LR, "weight_decay": 0.02}])


def build_scheduler(optimizer):
    def noam(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        return max(MIN_FACTOR, math.sqrt(WARMUP / (step + 1)))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, noam)


def make_step(accum, max_norm):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        total = 0.0
        for part in range(accum):
            piece = {k: v[part::accum] for k, v in batch.items()}
            labels = piece.pop("labels")
            value = loss(model(**piece), labels) / accum
            value.backward()
            total = total + value.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        return {"loss": total, "norm": norm}
    return step


train_step = make_step(ACCUM, MAX_NORM)


def predict(path, model):
    with open(path) as f:
        visits = json.load(f)
    width = max(len(v["codes"]) for v in visits)
    codes = torch.tensor([[v["codes"] + [0] * (width - len(v["codes"])) for v in visits]])
    gaps = torch.tensor([[math.log1p(v["gap"]) for v in visits]], dtype=model.head.weight.dtype)
    with torch.no_grad():
        p = torch.softmax(model(codes, gaps, torch.tensor([len(visits)])), -1)[0]
    return {"risk": RISKS[int(p.argmax())], "probabilities": p.numpy()}
