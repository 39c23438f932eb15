"""Informer-like forecaster: ProbSparse attention, distilling, generative decoder."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEQ, LABEL, PRED, C = 24, 8, 6, 3


class Series(Dataset):
    def __init__(self, split):
        t = np.arange(240)
        g = np.random.RandomState(9)
        x = np.stack([np.sin(t / 5), np.cos(t / 11) * 2, 0.01 * t], 1) + 0.1 * g.randn(240, C)
        hour, day = t % 24, t // 24 % 7
        border = int(240 * 0.7)
        self.mean, self.std = x[:border].mean(0), x[:border].std(0)
        s = slice(0, border) if split == "train" else slice(border - SEQ, 240)
        self.x = ((x - self.mean) / self.std)[s]
        self.mark = np.stack([hour / 23 - 0.5, day / 6 - 0.5], 1)[s]

    def __len__(self):
        return len(self.x) - SEQ - PRED + 1

    def __getitem__(self, i):
        e = i + SEQ
        f = lambda a: torch.from_numpy(a.astype(np.float32))
        dec = np.concatenate([self.x[e - LABEL:e], np.zeros((PRED, C))])
        return f(self.x[i:e]), f(self.mark[i:e]), f(dec), f(self.mark[e - LABEL:e + PRED]), f(self.x[e:e + PRED])


def build_dataset(split):
    return Series(split)


def build_dataloader(split):
    return DataLoader(Series(split), batch_size=4, shuffle=False, drop_last=True)


class ProbAttention(nn.Module):
    def __init__(self, factor=1):
        super().__init__()
        self.factor = factor

    def forward(self, q, k, v):
        B, H, L, E = q.shape
        S = k.shape[2]
        n_sample = min(2 * self.factor * math.ceil(math.log(S)), S)
        u = min(2 * self.factor * math.ceil(math.log(L)), L)
        index = torch.randint(S, (L, n_sample))
        ks = k.unsqueeze(2).expand(-1, -1, L, -1, -1)[:, :, torch.arange(L).unsqueeze(1), index]
        qk = torch.matmul(q.unsqueeze(3), ks.transpose(-2, -1)).squeeze(3)
        M = qk.max(-1)[0] - qk.sum(-1) / S
        top = M.topk(u, sorted=False)[1]
        qr = q[torch.arange(B)[:, None, None], torch.arange(H)[None, :, None], top]
        score = torch.matmul(qr, k.transpose(-2, -1)) / math.sqrt(E)
        ctx = v.mean(2, keepdim=True).expand(-1, -1, L, -1).clone()
        ctx[torch.arange(B)[:, None, None], torch.arange(H)[None, :, None], top] = torch.matmul(score.softmax(-1), v)
        return ctx


class FullAttention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v):
        s = torch.einsum("bhle,bhse->bhls", q, k) / math.sqrt(q.shape[-1])
        if self.causal:
            s = s.masked_fill(torch.triu(torch.ones_like(s[0, 0], dtype=torch.bool), 1), -torch.inf)
        return torch.einsum("bhls,bhse->bhle", s.softmax(-1), v)


class AttentionLayer(nn.Module):
    def __init__(self, inner, d, h):
        super().__init__()
        self.inner, self.h = inner, h
        self.query_projection = nn.Linear(d, d)
        self.key_projection = nn.Linear(d, d)
        self.value_projection = nn.Linear(d, d)
        self.out_projection = nn.Linear(d, d)

    def forward(self, q, k, v):
        sp = lambda x: x.view(x.shape[0], x.shape[1], self.h, -1).transpose(1, 2)
        o = self.inner(sp(self.query_projection(q)), sp(self.key_projection(k)), sp(self.value_projection(v)))
        return self.out_projection(o.transpose(1, 2).flatten(2))


class Embedding(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.token = nn.Conv1d(C, d, 3, padding=1, padding_mode="circular", bias=False)
        self.time = nn.Linear(2, d, bias=False)
        pe = torch.zeros(64, d)
        pos = torch.arange(64).float().unsqueeze(1)
        div = (torch.arange(0, d, 2).float() * -(math.log(10000.0) / d)).exp()
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.dropout = nn.Dropout(0.05)

    def forward(self, x, mark):
        return self.dropout(self.token(x.transpose(1, 2)).transpose(1, 2) + self.time(mark) + self.pe[:, :x.shape[1]])


class FeedForward(nn.Module):
    def __init__(self, d, dff, drop):
        super().__init__()
        self.conv1 = nn.Conv1d(d, dff, 1)
        self.conv2 = nn.Conv1d(dff, d, 1)
        self.dropout = nn.Dropout(drop)

    def forward(self, x):
        y = self.dropout(F.gelu(self.conv1(x.transpose(1, 2))))
        return self.dropout(self.conv2(y).transpose(1, 2))


class EncoderLayer(nn.Module):
    def __init__(self, d, h, dff):
        super().__init__()
        self.attention = AttentionLayer(ProbAttention(), d, h)
        self.ff = FeedForward(d, dff, 0.05)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.ff(x))


class Distil(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.conv = nn.Conv1d(d, d, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm1d(d)
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(F.elu(self.norm(self.conv(x.transpose(1, 2))))).transpose(1, 2)


class DecoderLayer(nn.Module):
    def __init__(self, d, h, dff):
        super().__init__()
        self.self_attention = AttentionLayer(FullAttention(causal=True), d, h)
        self.cross_attention = AttentionLayer(FullAttention(), d, h)
        self.ff = FeedForward(d, dff, 0.05)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mem):
        x = self.norm1(x + self.self_attention(x, x, x))
        x = self.norm2(x + self.cross_attention(x, mem, mem))
        return self.norm3(x + self.ff(x))


class Informer(nn.Module):
    def __init__(self, d=12, h=2, dff=20):
        super().__init__()
        self.enc_emb, self.dec_emb = Embedding(d), Embedding(d)
        self.enc1, self.distil, self.enc2 = EncoderLayer(d, h, dff), Distil(d), EncoderLayer(d, h, dff)
        self.enc_norm = nn.LayerNorm(d)
        self.dec = DecoderLayer(d, h, dff)
        self.proj = nn.Linear(d, C)

    def forward(self, x, xm, y, ym):
        m = self.enc_norm(self.enc2(self.distil(self.enc1(self.enc_emb(x, xm)))))
        return self.proj(self.dec(self.dec_emb(y, ym), m))[:, -PRED:]


def build_model():
    return Informer()


def loss(out, y):
    return F.smooth_l1_loss(out, y, beta=0.5)


def metric(out, y):
    out, y = out.detach(), y
    return {"mse": ((out - y) ** 2).mean().item(), "mae": (out - y).abs().mean().item(),
            "rse": (((out - y) ** 2).sum().sqrt() / ((y - y.mean()) ** 2).sum().sqrt()).item()}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-4)


def build_scheduler(opt):
    return torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
