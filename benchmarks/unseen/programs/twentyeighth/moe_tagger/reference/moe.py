"""Sequence tagger with a top-2 mixture of experts (Shazeer 2017, Switch load loss), tied embeddings."""
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent.parent
CONF = json.loads((ROOT / "data" / "moe.json").read_text())
TAGS = CONF["tags"]
PAD = 0


class HookedNorm(nn.LayerNorm):
    """Layer norm which remembers the mean activation size for logging."""

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.size = 0.0
        self.register_forward_hook(self._note)

    @staticmethod
    def _note(module, args, output):
        module.size = output.detach().abs().mean().item()


class Experts(nn.Module):
    def __init__(self, n, dim, hidden):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(n, hidden, dim))
        self.b1 = nn.Parameter(torch.zeros(n, hidden))
        self.w2 = nn.Parameter(torch.empty(n, dim, hidden))
        self.b2 = nn.Parameter(torch.zeros(n, dim))
        for w in (self.w1, self.w2):
            for e in w:
                nn.init.trunc_normal_(e, std=1 / math.sqrt(e.shape[1]), a=-2 / math.sqrt(e.shape[1]),
                                      b=2 / math.sqrt(e.shape[1]))

    def forward(self, x):                                     # [N, D] -> [N, E, D]
        h = F.gelu(torch.einsum("nd,ehd->neh", x, self.w1) + self.b1, approximate="tanh")
        return torch.einsum("neh,edh->ned", h, self.w2) + self.b2


class MoE(nn.Module):
    def __init__(self, dim, hidden, n, k):
        super().__init__()
        self.k = k
        self.router = nn.Linear(dim, n, bias=False)
        self.experts = Experts(n, dim, hidden)
        self.register_buffer("load", torch.full((n,), 1.0 / n))

    def forward(self, x, mask):
        probs = self.router(x).softmax(-1)
        top, idx = probs.topk(self.k, dim=-1)
        gate = torch.zeros_like(probs).scatter(-1, idx, top / top.sum(-1, keepdim=True))
        y = (gate.unsqueeze(-1) * self.experts(x)).sum(1)
        m = mask.unsqueeze(-1)
        frac = (F.one_hot(idx[:, 0], probs.size(-1)).float() * m).sum(0) / m.sum()
        mean = (probs * m).sum(0) / m.sum()
        return y, frac, mean


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = HookedNorm(c["dim"], eps=1e-6), HookedNorm(c["dim"], eps=1e-6)
        self.mix = nn.Conv1d(c["dim"], c["dim"], 3, padding=1, groups=c["dim"])
        self.point = nn.Linear(c["dim"], c["dim"])
        self.moe = MoE(c["dim"], c["hidden"], c["experts"], c["top_k"])

    def forward(self, x, mask):
        h = self.mix((self.n1(x) * mask[..., None]).transpose(1, 2)).transpose(1, 2)
        x = x + self.point(h)
        y, frac, mean = self.moe(self.n2(x).flatten(0, 1), mask.flatten())
        return x + y.view_as(x), frac, mean


class Tagger(nn.Module):
    def __init__(self, c=CONF["model"]):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["dim"], padding_idx=PAD)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        self.to_tag = nn.Linear(c["dim"], len(TAGS))
        self.lm_bias = nn.Parameter(torch.zeros(c["vocab"]))
        nn.init.normal_(self.tok.weight, std=0.5)
        with torch.no_grad():
            self.tok.weight[PAD] = 0

    def forward(self, ids):
        mask = (ids != PAD).float()
        x, aux, loads = self.tok(ids), 0.0, []
        for layer in self.layers:
            x, frac, mean = checkpoint(layer, x, mask, use_reentrant=False) if self.training else layer(x, mask)
            aux = aux + (frac * mean).sum() * len(frac)
            loads.append(frac.detach())
        lm = x @ self.tok.weight.t() + self.lm_bias
        return {"tags": self.to_tag(x), "lm": lm, "aux": aux / len(self.layers), "load": torch.stack(loads)}


class TagData(Dataset):
    def __init__(self, split):
        arr = np.loadtxt(ROOT / "data" / f"{split}.tsv", dtype=np.int64, delimiter="\t")
        self.ids, self.tags = np.split(arr, 2, axis=1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids, tags = torch.from_numpy(self.ids[i]), torch.from_numpy(self.tags[i])
        nxt = torch.cat([ids[1:], ids.new_zeros(1)])
        return ids, {"tags": tags, "next": nxt}


def build_model():
    return Tagger()


def build_dataset(split):
    return TagData(split)


def build_dataloader(split):
    bs = CONF["train"]["batch"]
    return DataLoader(build_dataset(split), bs, shuffle=split == "train", drop_last=split == "train")


def focal(logits, target, gamma=2.0):
    ce = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=-100, reduction="none")
    f = (1 - torch.exp(-ce)) ** gamma * ce
    return f.sum() / (target != -100).sum()


def loss(outputs, labels):
    t = CONF["train"]
    tag = focal(outputs["tags"], labels["tags"])
    lm = F.cross_entropy(outputs["lm"].flatten(0, 1), labels["next"].flatten(), ignore_index=PAD)
    return {"loss": tag + t["lm_weight"] * lm + t["aux_weight"] * outputs["aux"], "tag": tag, "lm": lm,
            "balance": outputs["aux"]}


@torch.no_grad()
def metric(outputs, labels):
    keep = labels["tags"] != -100
    acc = (outputs["tags"].argmax(-1) == labels["tags"])[keep].float().mean()
    top3 = (outputs["lm"].topk(3, -1).indices == labels["next"].unsqueeze(-1)).any(-1)[labels["next"] != PAD]
    load = outputs["load"].mean(0)
    return {"acc": acc.item(), "lm_top3": top3.float().mean().item(), "max_load": load.max().item()}


def layer_decay(name):
    """Layer-wise rates: later layers learn faster."""
    n, r = CONF["model"]["layers"], CONF["train"]["layer_rate"]
    if name.startswith("tok"):
        return r ** (n + 1)
    return r ** (n - int(name.split(".")[1])) if name.startswith("layers") else 1.0


def build_optimizer(model):
    t, groups = CONF["train"], []
    for name, p in model.named_parameters():
        plain = name.split(".")[-1] in ("bias", "b1", "b2", "lm_bias") or ".n1." in name or ".n2." in name
        groups.append({"params": [p], "lr": t["lr"] * layer_decay(name), "weight_decay": 0.0 if plain else t["wd"]})
    groups.sort(key=lambda g: -g["lr"])
    return torch.optim.AdamW(groups, lr=t["lr"], betas=(0.9, 0.98), eps=1e-7)


def schedule(step, warmup):
    return min((step + 1) ** -0.5 * warmup ** 0.5, (step + 1) / warmup)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, partial(schedule, warmup=CONF["train"]["warmup"]))


def train_step(model, optimizer, batch):
    ids, labels = batch
    out = model(ids)
    parts = loss(out, labels)
    optimizer.zero_grad(set_to_none=True)
    parts["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), CONF["train"]["clip"])
    optimizer.step()
    for layer, frac in zip(model.layers, out["load"]):
        layer.moe.load.mul_(0.9).add_(frac, alpha=0.1)
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    ids = torch.tensor([json.loads(Path(path).read_text())["ids"]])
    model.eval()
    out = model(ids)
    tags = out["tags"].softmax(-1)[0]
    return {"tags": " ".join(TAGS[k] for k in tags.argmax(-1)), "confidence": tags.max(-1).values.numpy(),
            "load": out["load"].numpy()}
