import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rope_angles(head_dim, length, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, head_dim, 2)[: head_dim // 2].double() / head_dim))
    return torch.outer(torch.arange(length).double(), freqs)


def apply_rope(x, angles):
    """x: (batch, length, heads, head_dim); neighbouring channels are one complex number."""
    cis = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * cis).flatten(3).type_as(x)


def repeat_kv(x, n_rep):
    """torch.repeat_interleave(x, dim=2, repeats=n_rep)"""
    if n_rep == 1:
        return x
    b, t, h, d = x.shape
    return x[:, :, :, None, :].expand(b, t, h, n_rep, d).reshape(b, t, h * n_rep, d)


def causal_attention(q, k, v, start_pos=0):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    mask = None
    if q.size(2) > 1:
        mask = torch.full((q.size(2), k.size(2)), float("-inf"), dtype=q.dtype, device=q.device)
        mask = torch.triu(mask, diagonal=start_pos + 1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)


def soft_cap(logits, cap):
    return cap * torch.tanh(logits / cap)
