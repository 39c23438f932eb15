import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BLOCKS = {}


def register(name):
    def keep(cls):
        BLOCKS[name] = cls
        return cls

    return keep


@register("revin")
class RevIN(nn.Module):
    """Reversible instance normalisation; the statistics are no path for gradients."""

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def normalise(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / std * self.gain + self.shift, (mean, std)

    def restore(self, y, stats):
        """y: batch, horizon, channels, quantiles"""
        mean, std = stats
        y = (y - self.shift[:, None]) / (self.gain[:, None] + self.eps * self.eps)
        return y * std.unsqueeze(-1) + mean.unsqueeze(-1)


@register("patch")
class PatchEmbedding(nn.Module):
    def __init__(self, cfg, context):
        super().__init__()
        self.size, self.stride = cfg.patch, cfg.patch_stride
        self.count = (context - cfg.patch) // cfg.patch_stride + 2
        self.pad = nn.ReplicationPad1d((0, cfg.patch_stride))
        self.project = nn.Linear(cfg.patch, cfg.width)
        self.position = nn.Parameter(torch.empty(self.count, cfg.width).uniform_(-0.02, 0.02))
        self.channel = nn.Parameter(torch.empty(cfg.channels, 1, cfg.width).normal_(std=0.05))
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x):
        patches = self.pad(x.transpose(1, 2)).unfold(-1, self.size, self.stride)
        tokens = self.project(patches) + self.position + self.channel
        return self.dropout(tokens.flatten(0, 1))


class ScoreAttention(nn.Module):
    """Attention that hands its scores on to the next layer."""

    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.q, self.k, self.v, self.o = (nn.Linear(cfg.width, cfg.width) for _ in range(4))
        for layer in (self.q, self.k, self.v):
            nn.init.xavier_uniform_(layer.weight, gain=1 / math.sqrt(2))
            nn.init.zeros_(layer.bias)
        self.dropout = nn.Dropout(cfg.dropout)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, before):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if before is not None:
            scores = scores + before
        mixed = self.dropout(scores.softmax(-1)) @ v
        return self.o(mixed.transpose(1, 2).flatten(2)), scores


@register("encoder")
class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attention = ScoreAttention(cfg)
        self.norm1 = nn.BatchNorm1d(cfg.width)
        self.ffn = nn.Sequential(nn.Linear(cfg.width, cfg.ffn), nn.GELU(), nn.Dropout(cfg.dropout), nn.Linear(cfg.ffn, cfg.width))
        self.norm2 = nn.BatchNorm1d(cfg.width)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x, before=None):
        a, scores = self.attention(x, before)
        x = self.norm1((x + self.dropout(a)).transpose(1, 2)).transpose(1, 2)
        x = self.norm2((x + self.dropout(self.ffn(x))).transpose(1, 2)).transpose(1, 2)
        return x, scores


@register("tcn")
class CausalBlock(nn.Module):
    def __init__(self, inner, outer, dilation):
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.Conv1d(inner, outer, 3, dilation=dilation)
        self.norm = nn.GroupNorm(2, outer)

    def forward(self, x):
        y = F.leaky_relu(self.norm(self.conv(F.pad(x, (self.left, 0)))), 0.1)
        return y if x.shape[1] != y.shape[1] else x + y
