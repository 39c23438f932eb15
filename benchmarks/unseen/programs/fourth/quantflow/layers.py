"""Building blocks of the temporal fusion forecaster (PyTorch)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-3


class GLU(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out * 2)

    def forward(self, x):
        return F.glu(self.fc(x), dim=-1)


class GateAddNorm(nn.Module):
    def __init__(self, n, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.glu = GLU(n, n)
        self.norm = nn.LayerNorm(n, eps=EPS)

    def forward(self, x, skip):
        return self.norm(self.glu(self.dropout(x)) + skip)


class GRN(nn.Module):
    """gated residual network; context may be left out"""

    def __init__(self, n_in, n_hidden, n_out, n_context=None, dropout=0.1):
        super().__init__()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.ctx = nn.Linear(n_context, n_hidden, bias=False) if n_context else None
        self.fc2 = nn.Linear(n_hidden, n_out)
        self.skip = nn.Linear(n_in, n_out) if n_in != n_out else None
        self.gan = GateAddNorm(n_out, dropout)

    def forward(self, x, c=None):
        skip = x if self.skip is None else self.skip(x)
        h = self.fc1(x)
        if self.ctx is not None and c is not None:
            h = h + self.ctx(c)
        h = self.fc2(F.elu(h))
        return self.gan(h, skip)


class VariableSelection(nn.Module):
    """scalars [B, T, V] -> [B, T, d], with the weights [B, T, V]"""

    def __init__(self, n_vars, d, dropout=0.1):
        super().__init__()
        self.embed = nn.ModuleList([nn.Linear(1, d) for _ in range(n_vars)])
        self.single = nn.ModuleList([GRN(d, d, d, dropout=dropout) for _ in range(n_vars)])
        self.flat = GRN(n_vars * d, d, n_vars, n_context=d, dropout=dropout)

    def forward(self, x, context):
        e = [emb(x[..., i:i + 1]) for i, emb in enumerate(self.embed)]
        w = torch.softmax(self.flat(torch.cat(e, dim=-1), context.unsqueeze(1)), dim=-1)
        v = torch.stack([g(h) for g, h in zip(self.single, e)], dim=-1)
        return (v * w.unsqueeze(-2)).sum(-1), w


class CausalConv(nn.Module):
    def __init__(self, d, kernel, dilation):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(d, 2 * d, kernel, dilation=dilation)

    def forward(self, x):
        y = self.conv(F.pad(x.transpose(1, 2), (self.left, 0)))
        return x + F.glu(y, dim=1).transpose(1, 2)


class InterpretableAttention(nn.Module):
    """heads with queries and keys of their own that share one value"""

    def __init__(self, d, heads, dropout=0.1):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, self.dk)
        self.out = nn.Linear(self.dk, d, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, query, memory, mask):
        B, H, _ = query.shape
        T = memory.shape[1]
        q = self.q(query).view(B, H, self.h, self.dk).transpose(1, 2)
        k = self.k(memory).view(B, T, self.h, self.dk).transpose(1, 2)
        s = q @ k.transpose(2, 3) / math.sqrt(self.dk)
        a = torch.softmax(s.masked_fill(mask, float("-inf")), -1)
        mean = a.mean(1)
        return self.out(self.drop(mean) @ self.v(memory)), mean
