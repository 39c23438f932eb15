"""A Llama-like decoder: rotary positions on part of the head, RMSNorm, grouped queries, SwiGLU, capped logits; PyTorch."""

import torch
from given import tokens
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS, GROUPS, HEAD, ROTARY, BASE = 160, 48, 4, 2, 12, 8, 50000.0


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x


def angles(length, dtype):
    frequencies = 1.0 / BASE ** (torch.arange(0, ROTARY, 2).to(dtype) / ROTARY)
    positions = torch.arange(length).to(dtype)
    angle = torch.outer(positions, frequencies)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rotate(x, cos, sin):
    turned, kept = x[..., :ROTARY], x[..., ROTARY:]
    turned = turned * cos + rotate_half(turned) * sin
    return torch.cat([turned, kept], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.v_proj = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, HEADS, HEAD).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, GROUPS, HEAD).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, GROUPS, HEAD).transpose(1, 2)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        k = k.repeat_interleave(HEADS // GROUPS, 1)
        v = v.repeat_interleave(HEADS // GROUPS, 1)
        scores = q @ k.transpose(2, 3) / HEAD**0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        weights = F.softmax(scores, -1)
        x = (weights @ v).transpose(1, 2).reshape(batch, length, HEADS * HEAD)
        return self.o_proj(x)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, 96, bias=False)
        self.up_proj = nn.Linear(WIDTH, 96, bias=False)
        self.down_proj = nn.Linear(96, WIDTH, bias=False)

    def forward(self, x):
        gate = F.silu(self.gate_proj(x))
        return self.down_proj(gate * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm = RMSNorm(WIDTH)
        self.attention = Attention()
        self.post_norm = RMSNorm(WIDTH)
        self.mlp = MLP()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.norm = RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        x = x * WIDTH**0.5
        cos, sin = angles(ids.shape[1], x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return 10.0 * torch.tanh(logits / 10.0)


def build_model():
    torch.manual_seed(5)
    model = Llama()
    model.embed.weight.data *= 0.05
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif "proj" in name:
            parameter.data *= 2.5
    return model


def inputs():
    return tokens(2, 24, WORDS, seed=1)


def labels():
    """The same words: the loss shifts them."""
    return tokens(2, 24, WORDS, seed=1)


def loss(outputs, labels):
    logits = outputs[:, :-1].reshape(-1, WORDS)
    wanted = labels[:, 1:].reshape(-1)
    entropy = F.cross_entropy(logits, wanted, reduction="sum") / wanted.numel()
    squared = torch.logsumexp(logits, -1).square().mean()
    return entropy + 1e-2 * squared


class Clipped(torch.optim.AdamW):
    """AdamW after clipping by the norm of all gradients together."""

    def step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        super().step()


def build_optimizer(model):
    return Clipped(model.parameters(), lr=2e-3, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)
