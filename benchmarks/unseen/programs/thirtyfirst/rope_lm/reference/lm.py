"""Character language model in the manner of LLaMA: RMSNorm, rotary positions, SwiGLU, grouped-query attention, tied output."""
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass
class LMConfig:
    block: int = 32
    dim: int = 32
    heads: int = 4
    kv_heads: int = 2
    layers: int = 2
    hidden: int = 48
    theta: float = 1000.0
    dropout: float = 0.1
    z_loss: float = 1e-3
    batch: int = 10
    lr: float = 3e-3
    min_ratio: float = 0.1
    warmup: int = 10
    total: int = 112
    weight_decay: float = 0.1
    clip: float = 1.0


CFG = LMConfig()
CHARS = sorted(set((DATA / "train.txt").read_text()))
STOI = {c: i for i, c in enumerate(CHARS)}


class CharBlocks(Dataset):
    def __init__(self, split):
        text = (DATA / f"{split}.txt").read_text()
        self.ids = torch.tensor([STOI[c] for c in text if c in STOI])

    def __len__(self):
        return (len(self.ids) - 1) // CFG.block

    def __getitem__(self, i):
        chunk = self.ids[i * CFG.block : (i + 1) * CFG.block + 1]
        return chunk[:-1], chunk[1:]


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_table(length, dim, theta):
    freq = theta ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(length).float(), freq)
    return torch.polar(torch.ones_like(angle), angle)


def apply_rope(x, table):
    """x: [B, H, T, D], neighbouring pairs are one complex number"""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * table[: x.size(2)]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.kv, self.d = cfg.heads, cfg.kv_heads, cfg.dim // cfg.heads
        self.wq = nn.Linear(cfg.dim, self.h * self.d, bias=False)
        self.wk = nn.Linear(cfg.dim, self.kv * self.d, bias=False)
        self.wv = nn.Linear(cfg.dim, self.kv * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, cfg.dim, bias=False)

    def forward(self, x, table):
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, -1, self.d).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        q, k = apply_rope(q, table), apply_rope(k, table)
        k, v = (t.repeat_interleave(self.h // self.kv, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class SwiGLU(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.w1 = nn.Linear(cfg.dim, cfg.hidden, bias=False)
        self.w2 = nn.Linear(cfg.hidden, cfg.dim, bias=False)
        self.w3 = nn.Linear(cfg.dim, cfg.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(cfg.dim), RMSNorm(cfg.dim)
        self.attention, self.feed_forward = Attention(cfg), SwiGLU(cfg)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, table):
        x = x + self.drop(self.attention(self.attention_norm(x), table))
        return x + self.drop(self.feed_forward(self.ffn_norm(x)))


class CharLM(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(len(CHARS), cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = RMSNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, len(CHARS), bias=False)
        self.register_buffer("rope", rope_table(cfg.block * 2, cfg.dim // cfg.heads, cfg.theta), persistent=False)
        self.apply(self._init)
        for n, p in self.named_parameters():
            if n.endswith(("wo.weight", "w2.weight")):  # GPT-2: thinner residual writers
                nn.init.normal_(p, std=0.05 / math.sqrt(2 * cfg.layers))
        self.head.weight = self.tok.weight

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.05)

    def forward(self, ids):
        x = self.tok(ids)
        for b in self.blocks:
            x = checkpoint(b, x, self.rope, use_reentrant=False) if self.training else b(x, self.rope)
        return self.head(self.norm(x))


def build_model():
    return CharLM()


def build_dataset(split):
    return CharBlocks(split)


def build_dataloader(split):
    return DataLoader(CharBlocks(split), CFG.batch, shuffle=split == "train")


def loss(outputs, labels):
    ce = F.cross_entropy(outputs.flatten(0, 1), labels.flatten())
    z = torch.logsumexp(outputs, -1).pow(2).mean()
    return {"loss": ce + CFG.z_loss * z, "ce": ce, "z": z}


@torch.no_grad()
def metric(outputs, labels):
    nll = F.cross_entropy(outputs.flatten(0, 1), labels.flatten()).item()
    return {"bits_per_char": nll / math.log(2), "perplexity": math.exp(nll), "top3": (outputs.topk(3).indices == labels[..., None]).any(-1).float().mean().item()}


def build_optimizer(model):
    params = list(model.parameters())  # the tied matrix comes once
    decay = [p for p in params if p.dim() >= 2]
    rest = [p for p in params if p.dim() < 2]
    return torch.optim.AdamW([{"params": decay, "weight_decay": CFG.weight_decay}, {"params": rest, "weight_decay": 0.0}], lr=CFG.lr, betas=(0.9, 0.95))


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=CFG.warmup)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, CFG.total - CFG.warmup, eta_min=CFG.lr * CFG.min_ratio)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cos], milestones=[CFG.warmup])


def train_step(model, optimizer, batch):
    model.train()
    ids, target = batch
    out = loss(model(ids), target)
    optimizer.zero_grad(set_to_none=True)
    out["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), CFG.clip)
    optimizer.step()
    return {"loss": out["loss"].detach(), "ce": out["ce"].detach(), "grad_norm": norm.detach()}


@torch.no_grad()
def predict(path, model, new=12):
    model.eval()
    ids = [STOI[c] for c in Path(path).read_text()]
    first = model(torch.tensor([ids]))[0, -1].softmax(-1)
    for _ in range(new):
        ids.append(int(model(torch.tensor([ids[-CFG.block :]]))[0, -1].argmax()))
    return {"text": "".join(CHARS[i] for i in ids), "next_prob": first.numpy()}
