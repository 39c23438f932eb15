"""Perceiver (Jaegle et al. 2021) over the bytes of a URL, trained with AdaBelief. PyTorch."""
import math
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
LABELS = ["academic", "normal", "phishing"]
MAX_LEN, BANDS, MAX_FREQ = 40, 4, 20.0
BYTE_DIM, LATENTS, LATENT_DIM, HEADS, REPEATS = 15, 5, 24, 4, 2
INPUT_DIM = BYTE_DIM + 2 * BANDS + 1


def fourier_features(length):
    pos = torch.linspace(-1.0, 1.0, length)
    freq = torch.linspace(1.0, MAX_FREQ / 2, BANDS)
    angle = math.pi * pos[:, None] * freq
    return torch.cat([angle.sin(), angle.cos(), pos[:, None]], -1)


class CrossAttend(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_q, self.norm_kv = nn.LayerNorm(LATENT_DIM), nn.LayerNorm(INPUT_DIM)
        self.attn = nn.MultiheadAttention(LATENT_DIM, 1, kdim=INPUT_DIM, vdim=INPUT_DIM, bias=False,
                                          batch_first=True)

    def forward(self, z, x, pad):
        kv = self.norm_kv(x)
        return z + self.attn(self.norm_q(z), kv, kv, key_padding_mask=pad, need_weights=False)[0]


class SelfAttend(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(LATENT_DIM)
        self.attn = nn.MultiheadAttention(LATENT_DIM, HEADS, dropout=0.1, bias=False, batch_first=True)

    def forward(self, z):
        h = self.norm(z)
        return z + self.attn(h, h, h, need_weights=False)[0]


class GEGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(LATENT_DIM)
        self.wide = nn.Linear(LATENT_DIM, 4 * LATENT_DIM)
        self.narrow = nn.Linear(2 * LATENT_DIM, LATENT_DIM)

    def forward(self, z):
        a, gate = self.wide(self.norm(z)).chunk(2, -1)
        return z + self.narrow(a * F.gelu(gate))


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(128, BYTE_DIM, padding_idx=0)
        self.latents = nn.Parameter(torch.empty(LATENTS, LATENT_DIM))
        self.register_buffer("fourier", fourier_features(MAX_LEN), persistent=False)
        first = nn.ModuleList([CrossAttend(), GEGLU(), SelfAttend(), GEGLU()])
        shared = nn.ModuleList([CrossAttend(), GEGLU(), SelfAttend(), GEGLU()])
        # later passes use one set of weights
        self.stages = nn.ModuleList([first] + [shared] * REPEATS)
        self.final_norm = nn.LayerNorm(LATENT_DIM)
        self.head = nn.Linear(LATENT_DIM, len(LABELS))
        nn.init.trunc_normal_(self.latents, std=0.02, a=-0.04, b=0.04)
        nn.init.normal_(self.bytes.weight, std=0.3)
        self.bytes.weight.data[0] = 0
        for m in self.modules():
            if isinstance(m, nn.MultiheadAttention):
                for w in (m.in_proj_weight, m.q_proj_weight, m.k_proj_weight, m.v_proj_weight):
                    if w is not None:
                        nn.init.normal_(w, std=w.shape[1] ** -0.5)
                nn.init.xavier_uniform_(m.out_proj.weight)
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, tokens):
        pad = tokens == 0
        x = torch.cat([self.bytes(tokens), self.fourier.expand(tokens.size(0), -1, -1)], -1)
        z = self.latents.expand(tokens.size(0), -1, -1)
        for cross, ff1, attend, ff2 in self.stages:
            z = ff1(cross(z, x, pad))
            z = ff2(attend(z))
        return self.head(self.final_norm(z).mean(1))


class AdaBelief(Optimizer):
    """AdaBelief (Zhuang et al. 2020) with decoupled decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-10, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s.update(step=0, m=torch.zeros_like(p), s=torch.zeros_like(p))
                s["step"] += 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                s["m"].lerp_(p.grad, 1 - b1)
                surprise = p.grad - s["m"]
                s["s"].mul_(b2).addcmul_(surprise, surprise, value=1 - b2).add_(group["eps"])
                m = s["m"] / (1 - b1 ** s["step"])
                denom = (s["s"] / (1 - b2 ** s["step"])).sqrt().add_(1e-5)
                p.addcdiv_(m, denom, value=-group["lr"])


class Urls(Dataset):
    def __init__(self, split):
        rows = [line.split("\t") for line in (DATA / "urls.tsv").read_text().splitlines()]
        self.rows = [(text, LABELS.index(label)) for part, label, text in rows if part == split]

    def __len__(self):
        return len(self.rows)

    @staticmethod
    def encode(text):
        out = torch.zeros(MAX_LEN, dtype=torch.long)
        raw = torch.tensor(list(text.lower().encode("ascii"))[:MAX_LEN])
        out[:len(raw)] = raw
        return out

    def __getitem__(self, i):
        text, label = self.rows[i]
        return self.encode(text), label


def class_weights():
    count = torch.bincount(torch.tensor([y for _, y in Urls("train").rows]), minlength=len(LABELS)).float()
    return count.sum() / (len(LABELS) * count)


WEIGHTS = class_weights()


def build_model():
    return Perceiver()


def build_dataset(split):
    return Urls(split)


def build_dataloader(split):
    return DataLoader(Urls(split), batch_size=10, shuffle=split == "train")


def loss(outputs, labels):
    """Focal loss (gamma 1.5), weighted by class and divided by the sum of the weights."""
    logp = F.log_softmax(outputs, -1).gather(1, labels[:, None]).squeeze(1)
    w = WEIGHTS[labels]
    return {"loss": -(w * (1 - logp.exp()) ** 1.5 * logp).sum() / w.sum()}


def metric(outputs, labels):
    prob = outputs.softmax(-1)
    conf, pred = prob.max(-1)
    hit = (pred == labels).float()
    ece = 0.0
    for lo in range(5):
        inside = (conf > lo / 5) & (conf <= (lo + 1) / 5)
        if inside.any():
            ece += (inside.float().mean() * (hit[inside].mean() - conf[inside].mean()).abs()).item()
    recall = [hit[labels == c].mean().item() for c in range(len(LABELS)) if (labels == c).any()]
    return {"balanced_accuracy": sum(recall) / len(recall), "ece": ece}


def build_optimizer(model):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return AdaBelief([{"params": matrices, "weight_decay": 0.02}, {"params": vectors}], lr=8e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min((t + 1) / 12, (12 / (t + 1)) ** 0.5))


def train_step(model, optimizer, batch):
    tokens, labels = batch
    model.train()
    value = loss(model(tokens), labels)["loss"]
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return {"loss": value.item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    prob = model(Urls.encode(Path(path).read_text().strip())[None]).softmax(-1)[0]
    return {"probability": prob.numpy(), "label": LABELS[prob.argmax()]}
