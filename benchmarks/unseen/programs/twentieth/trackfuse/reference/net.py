"""Fusion filter: one causal GRU per sensor, read at the query times by decaying attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TimeEncoding(nn.Module):
    """One linear and dim-1 periodic features with learned frequency and phase."""

    def __init__(self, dim, min_period, max_period):
        super().__init__()
        self.trend = nn.Parameter(torch.ones(1))
        self.log_freq = nn.Parameter(torch.empty(dim - 1))
        self.phase = nn.Parameter(torch.empty(dim - 1))
        self.range = (math.log(2 * math.pi / max_period), math.log(2 * math.pi / min_period))

    def forward(self, t):
        t = t.unsqueeze(-1)
        return torch.cat([t * self.trend, torch.sin(t * self.log_freq.exp() + self.phase)], dim=-1)


class SensorEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(2 + cfg.time_dim, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden, eps=cfg.ln_eps)
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, batch_first=True)

    def forward(self, time, value, length, encoding):
        gap = torch.diff(time, dim=1, prepend=time[:, :1]).clamp(min=0)
        x = torch.cat([value.unsqueeze(-1), torch.log1p(10 * gap).unsqueeze(-1), encoding(time)], dim=-1)
        x = self.norm(F.silu(self.inp(x)))
        packed = pack_padded_sequence(x, length.cpu(), batch_first=True, enforce_sorted=False)
        out, last = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=time.shape[1])
        return out, last[0]


class DecayAttention(nn.Module):
    """Causal cross-attention; scores fall off linearly with age, at a learned rate per head."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.kv_proj = nn.Linear(dim, 2 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.rate = nn.Parameter(torch.zeros(heads))
        self.null_key = nn.Parameter(torch.zeros(heads, 1, dim // heads))
        self.null_value = nn.Parameter(torch.zeros(heads, 1, dim // heads))
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, q, memory, age, padding):
        b = q.shape[0]
        q = self.split(self.q_proj(q))
        k, v = self.kv_proj(memory).chunk(2, dim=-1)
        k = torch.cat([self.null_key.expand(b, -1, -1, -1), self.split(k)], dim=2)
        v = torch.cat([self.null_value.expand(b, -1, -1, -1), self.split(v)], dim=2)
        score = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        decay = F.softplus(self.rate).view(1, -1, 1, 1) * age.clamp(min=0).unsqueeze(1)
        score = score - F.pad(decay, (1, 0))
        blocked = F.pad(padding.unsqueeze(1) | (age < 0), (1, 0), value=False)
        score = score.masked_fill(blocked.unsqueeze(1), float("-inf"))
        weight = self.drop(score.softmax(dim=-1))
        return self.out_proj((weight @ v).transpose(1, 2).flatten(2))


def hold_last(time, value, length, query):
    """The newest value at or before each query; the oldest one where there is none."""
    steps = torch.arange(time.shape[1], device=time.device)
    time = time.masked_fill(steps >= length.unsqueeze(1), float("inf"))
    at = torch.searchsorted(time.contiguous(), query.contiguous(), right=True) - 1
    return value.gather(1, at.clamp(min=0))


class FusionFilter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        h = cfg.hidden
        self.encoding = TimeEncoding(cfg.time_dim, cfg.min_period, cfg.max_period)
        self.enc_a = SensorEncoder(cfg)
        self.enc_b = SensorEncoder(cfg)
        self.sensor = nn.Embedding(2, h)
        self.ask = nn.Linear(cfg.time_dim + h, h)
        self.attn = DecayAttention(h, cfg.heads, cfg.dropout)
        self.norm = nn.LayerNorm(h, eps=cfg.ln_eps)
        self.mlp = nn.Sequential(nn.Linear(h, 2 * h), nn.GELU(), nn.Dropout(cfg.dropout), nn.Linear(2 * h, h))
        self.head = nn.Linear(h, 2)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.uniform_(self.encoding.log_freq, *self.encoding.range)
        nn.init.uniform_(self.encoding.phase, -math.pi, math.pi)
        nn.init.normal_(self.sensor.weight, std=0.02)
        for p in (self.attn.q_proj, self.attn.kv_proj, self.attn.out_proj):
            nn.init.xavier_uniform_(p.weight)
            nn.init.zeros_(p.bias)
        for rnn in (self.enc_a.rnn, self.enc_b.rnn):
            for block in rnn.weight_hh_l0.data.chunk(3, dim=0):      # every gate by itself
                nn.init.orthogonal_(block)
            nn.init.zeros_(rnn.bias_ih_l0)
            nn.init.zeros_(rnn.bias_hh_l0)
            rnn.bias_hh_l0.data.chunk(3)[1].fill_(1.0)               # start by keeping the state
        nn.init.normal_(self.head.weight, std=0.05)
        nn.init.zeros_(self.head.bias)

    def forward(self, a_time, a_value, a_len, b_time, b_value, b_len, query):
        ha, sa = self.enc_a(a_time, a_value, a_len, self.encoding)
        hb, sb = self.enc_b(b_time, b_value, b_len, self.encoding)
        memory = torch.cat([ha + self.sensor.weight[0], hb + self.sensor.weight[1]], dim=1)
        stamps = torch.cat([a_time, b_time], dim=1)
        padding = torch.cat([
            torch.arange(a_time.shape[1], device=query.device) >= a_len.unsqueeze(1),
            torch.arange(b_time.shape[1], device=query.device) >= b_len.unsqueeze(1)], dim=1)
        age = query.unsqueeze(2) - stamps.unsqueeze(1)
        state = (0.5 * (sa + sb)).unsqueeze(1).expand(-1, query.shape[1], -1)
        q = self.ask(torch.cat([self.encoding(query), state], dim=-1))
        x = q + self.attn(q, memory, age, padding)
        x = x + self.mlp(self.norm(x))
        delta, raw = self.head(x).unbind(-1)
        mean = hold_last(a_time, a_value, a_len, query) + delta
        return torch.stack([mean, F.softplus(raw - 4.0)], dim=-1)
