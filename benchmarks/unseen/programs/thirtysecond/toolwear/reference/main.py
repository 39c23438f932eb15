"""Grade of wear of a milling tool from short windows of vibration (ordinal)."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

import common
from common import CFG

NET = CFG["net"]
LIMITS = len(CFG["grades_um"])


class ChannelNorm(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.LayerNorm(ch, eps=1e-5)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class WearNet(nn.Module):
    def __init__(self):
        super().__init__()
        s, w, c, h = NET["stem"], NET["wide"], NET["context"], NET["hidden"]
        self.register_buffer("centre", torch.zeros(NET["neck"]))
        self.base = nn.Parameter(torch.tensor([-1.0]))
        self.gaps = nn.Parameter(torch.full((LIMITS - 1,), 0.5))
        self.stem = nn.Conv1d(3, s, 7, stride=2, padding=3)
        self.norm0 = ChannelNorm(s)
        self.mix = nn.Conv1d(s, w, 5, padding=2 * NET["dilation"], dilation=NET["dilation"], groups=NET["groups"])
        self.norm1 = ChannelNorm(w)
        self.short = nn.Conv1d(s, w, 1, bias=False)
        self.material = nn.Embedding(len(CFG["materials"]), c)
        self.cut = nn.Linear(2, c)
        self.film = nn.Linear(c, 2 * w)
        self.lstm = nn.LSTM(w, h, batch_first=True, bidirectional=True)
        self.look = nn.Linear(2 * h, 1, bias=False)
        self.neck = nn.Linear(6 * h, NET["neck"])
        self.grade = nn.Linear(NET["neck"], 1, bias=False)
        self.wear = nn.Linear(NET["neck"], 1)
        for m in self.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, gain=0.9)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0.01)
        nn.init.uniform_(self.material.weight, -0.2, 0.2)
        for name, p in self.lstm.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(p)
            elif name.startswith("weight_hh"):
                for gate in p.data.chunk(4, 0):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.zeros_(p)
                if name.startswith("bias_hh"):
                    p.data[h:2 * h] = 1.0

    def forward(self, signal, cutting, material):
        x = F.gelu(self.norm0(self.stem(signal)), approximate="tanh")
        ctx = torch.tanh(self.material(material) + self.cut(cutting))
        gain, shift = self.film(ctx)[..., None].chunk(2, 1)
        y = self.norm1(self.mix(x)) * (1 + gain) + shift
        y = F.gelu(y, approximate="tanh") + self.short(x)
        y = F.max_pool1d(y, 2)
        seq, (last, _) = self.lstm(y.transpose(1, 2))
        att = torch.softmax(self.look(torch.tanh(seq)), dim=1)
        mean = (att * seq).sum(1)
        std = ((att * seq ** 2).sum(1) - mean ** 2).clamp(min=1e-5).sqrt()
        feat = torch.cat([last[0], last[1], mean, std], 1)
        neck = self.neck(feat)
        z = neck - self.centre
        score = self.grade(z)
        limits = torch.cat([self.base, self.base + F.softplus(self.gaps).cumsum(0)])
        return {"above": score - limits, "score": score[:, 0], "wear": self.wear(z)[:, 0], "neck": neck}


def build_model():
    return WearNet()


class Windows(torch.utils.data.Dataset):
    def __init__(self, split):
        self.sc = common.scales()
        x = np.load(common.DATA / "windows.npy")
        self.items = [(x[i], r) for i, r in enumerate(common.runs()) if common.is_val(r) == (split == "val")]
        self.flip = split == "train"

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        x, r = self.items[i]
        if self.flip and int(r["run"]) % 3 == 1:
            x = x[:, ::-1]
        x, c = common.prepare(x, float(r["speed"]), float(r["feed"]), self.sc)
        um = float(r["wear_um"])
        return (torch.from_numpy(x.copy()), torch.from_numpy(c), torch.tensor(CFG["materials"].index(r["material"])),
                {"grade": torch.tensor(common.grade(um)), "wear": torch.tensor(um / 100.0, dtype=torch.float32)})


class Spread(torch.utils.data.Sampler):
    """Sorted by grade and dealt out, so that every batch sees all grades; shuffled within the grade."""

    def __init__(self, ds):
        self.grades = [common.grade(float(r["wear_um"])) for _, r in ds.items]
        self.turn = 0

    def __len__(self):
        return -(-len(self.grades) // CFG["batch"])

    def __iter__(self):
        rng = np.random.RandomState(CFG["order_seed"] + self.turn)
        self.turn += 1
        tie = rng.permutation(len(self.grades))
        ranked = sorted(range(len(self.grades)), key=lambda i: (self.grades[i], tie[i]))
        n = len(self)
        yield from (ranked[k::n] for k in rng.permutation(n).tolist())


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return torch.utils.data.DataLoader(ds, batch_sampler=Spread(ds))
    return torch.utils.data.DataLoader(ds, batch_size=CFG["batch"])


def loss(outputs, labels):
    cfg = CFG["loss"]
    g = labels["grade"]
    target = (g[:, None] > torch.arange(LIMITS)).float()
    weight = torch.tensor(cfg["importance"])
    ordinal = F.binary_cross_entropy_with_logits(outputs["above"], target, weight=weight)
    wear = F.mse_loss(outputs["wear"], labels["wear"])
    rank, pairs = outputs["score"].new_zeros(()), 0
    for i in range(len(g)):
        for j in range(len(g)):
            if g[i] > g[j]:
                rank = rank + F.softplus(cfg["margin"] - (outputs["score"][i] - outputs["score"][j]))
                pairs += 1
    rank = rank / max(pairs, 1)
    return {"loss": ordinal + cfg["wear"] * wear + cfg["rank"] * rank, "ordinal": ordinal, "wear": wear, "rank": rank}


def ranks(x):
    """Ranks with ties shared."""
    x = np.asarray(x, dtype=np.float64)
    return np.array([(x < v).sum() + ((x == v).sum() + 1) / 2 for v in x])


def metric(outputs, labels):
    g = labels["grade"].numpy()
    p = (outputs["above"].detach() > 0).sum(1).numpy()
    k = LIMITS + 1
    seen = np.zeros((k, k))
    for a, b in zip(g, p):
        seen[a, b] += 1
    w = (np.arange(k)[:, None] - np.arange(k)) ** 2 / (k - 1) ** 2
    chance = np.outer(seen.sum(1), seen.sum(0)) / seen.sum()
    score = outputs["score"].detach().numpy()
    r = np.corrcoef(ranks(score), ranks(labels["wear"].numpy()))[0, 1]
    worn = g >= 3
    if worn.any() and (~worn).any():
        auc = (ranks(score)[worn].sum() - worn.sum() * (worn.sum() + 1) / 2) / (worn.sum() * (~worn).sum())
    else:
        auc = 0.5
    return {"kappa": float(1 - (w * seen).sum() / max((w * chance).sum(), 1e-9)), "off": float(np.abs(g - p).mean()),
            "within_one": float((np.abs(g - p) <= 1).mean()), "spearman": float(r), "worn_auc": float(auc),
            "wear_mape": float((100 * (outputs["wear"].detach() - labels["wear"]).abs() / labels["wear"]).mean())}


def build_optimizer(model):
    o = CFG["optimiser"]
    return torch.optim.RMSprop(model.parameters(), lr=o["lr"], alpha=o["alpha"], eps=o["eps"], momentum=o["momentum"],
                               weight_decay=o["weight_decay"], centered=True)


def build_scheduler(optimizer):
    s = CFG["schedule"]
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, s["first"], s["growth"], eta_min=s["lowest"])


def train_step(model, optimizer, batch):
    model.train()
    signal, cutting, material, labels = batch
    out = model(signal, cutting, material)
    parts = loss(out, labels)
    optimizer.zero_grad()
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), CFG["clip"])
    optimizer.step()
    with torch.no_grad():
        m = CFG["centre_momentum"]
        model.centre.mul_(m).add_(out["neck"].detach().mean(0), alpha=1 - m)
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


@torch.no_grad()
def predict(path, model):
    """A whole cut: windows every hop (the last one flush with the end), median over them."""
    lines = pathlib.Path(path).read_text().splitlines()
    head = dict(re.findall(r"(\w+)=(\S+)", lines[0]))
    x = np.array([[float(v) for v in l.split(",")] for l in lines[2:]]).T
    size, hop = CFG["window"], CFG["hop"]
    starts = list(range(0, x.shape[1] - size + 1, hop))
    if starts[-1] != x.shape[1] - size:
        starts.append(x.shape[1] - size)
    sc = common.scales()
    pairs = [common.prepare(x[:, s:s + size], float(head["speed"]), float(head["feed"]), sc) for s in starts]
    sig, cut = (torch.from_numpy(np.stack(v)) for v in zip(*pairs))
    mat = torch.full((len(starts),), CFG["materials"].index(head["material"]))
    model.eval()
    out = model(sig, cut, mat)
    above = out["above"].sigmoid().numpy()
    typical = np.median(above, axis=0)
    probs = -np.diff(np.concatenate([[1.0], typical, [0.0]]))
    g = int((typical > 0.5).sum())
    return {"starts": starts, "above": above, "typical": typical, "probs": probs, "grade": [g],
            "wear_um": [float(np.median(100 * out["wear"].numpy()))],
            "advice": "replace" if g >= 3 else "watch" if g == 2 else "go on"}
