"""The network as functions of tensors; letters: b batch, t time, s space, d width, h heads, e width of a head."""
import torch
from torch.nn import functional as F


def linear(x, p):
    return torch.einsum("...i,oi->...o", x, p["weight"]) + p["bias"]


def layer_norm(x, p, eps=1e-6):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(variance + eps) * p["weight"] + p["bias"]


def tubelets(video, p, size):
    """[b, c, T, H, W] -> [b, t, s, d]: a linear map of every tube of frames."""
    b, c, frames, height, width = video.shape
    dt, dy, dx = size
    tubes = video.reshape(b, c, frames // dt, dt, height // dy, dy, width // dx, dx)
    tokens = torch.einsum("bctuyvxw,dcuvw->btyxd", tubes, p["weight"]) + p["bias"]
    return tokens.flatten(2, 3)


def project_qkv(x, p, heads):
    b, t, s, d = x.shape
    packed = linear(x, p).reshape(b, t, s, 3, heads, d // heads)
    return packed.unbind(dim=3)


def time_attention(x, p, heads):
    q, k, v = project_qkv(x, p["qkv"], heads)
    scores = torch.einsum("btshe,bushe->bshtu", q, k) * q.shape[-1] ** -0.5
    mixed = torch.einsum("bshtu,bushe->btshe", scores.softmax(dim=-1), v)
    return linear(mixed.flatten(3), p["out"])


def space_attention(x, p, heads):
    q, k, v = project_qkv(x, p["qkv"], heads)
    scores = torch.einsum("btshe,btrhe->bthsr", q, k) * q.shape[-1] ** -0.5
    mixed = torch.einsum("bthsr,btrhe->btshe", scores.softmax(dim=-1), v)
    return linear(mixed.flatten(3), p["out"])


def mlp(x, p):
    return linear(F.gelu(linear(x, p["up"]), approximate="tanh"), p["down"])


def drop_path(x, rate, training):
    """Leaves the branch out for some of the clips."""
    if not training or rate == 0.0:
        return x
    keep = 1.0 - rate
    kept = torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype, device=x.device) < keep
    return x * kept.to(x.dtype) / keep


def block(x, p, heads, rate, training):
    x = x + drop_path(p["time"]["scale"] * time_attention(layer_norm(x, p["time"]["norm"]), p["time"], heads), rate, training)
    x = x + drop_path(p["space"]["scale"] * space_attention(layer_norm(x, p["space"]["norm"]), p["space"], heads), rate, training)
    return x + drop_path(p["mlp"]["scale"] * mlp(layer_norm(x, p["mlp"]["norm"]), p["mlp"]), rate, training)


def network(video, p, arch, training):
    x = tubelets(video, p["embed"], arch.tubelet)
    x = x + p["positions"]["time"][None, :, None] + p["positions"]["space"][None, None]
    rates = torch.linspace(0, arch.drop_path, arch.depth, dtype=torch.float64).tolist()
    for i in range(arch.depth):
        x = block(x, p["blocks"][str(i)], arch.heads, rates[i], training)
    pooled = layer_norm(x.mean(dim=(1, 2)), p["norm"])
    return linear(pooled, p["head"])
