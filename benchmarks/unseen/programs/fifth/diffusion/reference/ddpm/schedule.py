import math
import torch


def cosine_betas(T, s=0.008, max_beta=0.999):
    f = lambda t: math.cos((t / T + s) / (1 + s) * math.pi / 2) ** 2
    return torch.tensor([min(1 - f(i + 1) / f(i), max_beta) for i in range(T)], dtype=torch.float64)


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half).to(t.device)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
