import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Scale is stored as a difference from one."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.scale)


class DampedAverage(nn.Module):
    """A diagonal state-space layer: h_t = a h_{t-1} + (1 - a) u_t, y = beta h + omega u, all per channel."""

    def __init__(self, dim):
        super().__init__()
        self.rate = nn.Parameter(torch.empty(dim).uniform_(0.5, 3.5))
        self.beta = nn.Parameter(torch.empty(dim).normal_(1.0, 0.2))
        self.omega = nn.Parameter(torch.empty(dim).normal_(0.0, 0.2))

    def forward(self, u):
        t = torch.arange(u.shape[1], device=u.device)
        lag = t[:, None] - t[None, :]
        decay = F.logsigmoid(self.rate)
        kernel = torch.exp(lag.clamp(min=0)[..., None] * decay) * (1 - decay.exp())
        kernel = kernel * (lag >= 0)[..., None]
        return self.beta * torch.einsum("tsd,bsd->btd", kernel, u) + self.omega * u


class StateBlock(nn.Module):
    def __init__(self, dim, dropout):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.mix = nn.Parameter(torch.full((dim,), 0.3))
        self.to_state = nn.Linear(dim, dim, bias=False)
        self.to_gate = nn.Linear(dim, dim)
        self.state = DampedAverage(dim)
        self.out = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.norm(x)
        before = F.pad(h, (0, 0, 1, 0))[:, :-1]              # the token before, zeros at the start
        h = h + self.mix * (before - h)
        return x + self.dropout(self.out(self.state(self.to_state(h)) * F.silu(self.to_gate(h))))


class RelativeBias(nn.Module):
    """T5's buckets of the distance to earlier tokens: exact when near, logarithmic when far."""

    def __init__(self, heads, buckets=16, far=64):
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.buckets, self.far = buckets, far
        nn.init.normal_(self.table.weight, std=0.3)

    def bucket(self, distance):
        exact = self.buckets // 2
        ratio = torch.log(distance.clamp(min=1).double() / exact) / math.log(self.far / exact)
        large = exact + (ratio * (self.buckets - exact)).long()
        return torch.where(distance < exact, distance, large.clamp(max=self.buckets - 1))

    def forward(self, n, device):
        i = torch.arange(n, device=device)
        distance = (i[:, None] - i[None, :]).clamp(min=0)
        return self.table(self.bucket(distance)).permute(2, 0, 1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window, cap, dropout):
        super().__init__()
        self.heads, self.window, self.cap = heads, window, cap
        self.norm = RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = RelativeBias(heads)
        self.sink = nn.Parameter(torch.zeros(heads))
        self.out = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + self.bias(n, x.device)
        score = self.cap * torch.tanh(score / self.cap)
        i = torch.arange(n, device=x.device)
        back = i[:, None] - i[None, :]
        score = score.masked_fill((back < 0) | (back >= self.window), float("-inf"))
        sink = self.sink.view(1, -1, 1, 1).expand(b, -1, n, 1)
        weight = torch.cat([score, sink], -1).softmax(-1)[..., :-1]      # attention may go nowhere
        return x + self.dropout(self.out((weight @ v).transpose(1, 2).reshape(b, n, d)))


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.norm(x)
        return x + self.dropout(self.w2(F.silu(self.w1(h)) * self.w3(h)))


class PhraseLM(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers="sasa", hidden=112, window=20, cap=12.0, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.scale = math.sqrt(dim)
        self.layers = nn.ModuleList()
        for kind in layers:
            self.layers.append(StateBlock(dim, dropout) if kind == "s"
                               else WindowAttention(dim, heads, window, cap, dropout))
            self.layers.append(SwiGLU(dim, hidden, dropout))
        self.norm = RMSNorm(dim)
        self.bias = nn.Parameter(torch.zeros(vocab))
        nn.init.normal_(self.embed.weight, std=dim ** -0.5)
        for name, p in self.named_parameters():
            if name.endswith(("out.weight", "w2.weight")):      # ends of residual branches start smaller
                nn.init.normal_(p, std=0.6 * p.shape[1] ** -0.5 / math.sqrt(len(layers)))

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight, self.bias)
