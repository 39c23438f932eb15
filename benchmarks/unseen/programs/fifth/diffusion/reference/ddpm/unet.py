import torch
import torch.nn as nn
import torch.nn.functional as F

from .schedule import timestep_embedding


class ResBlock(nn.Module):
    def __init__(self, cin, cout, temb, dropout):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(4, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(temb, 2 * cout))
        self.out_norm = nn.GroupNorm(4, cout)
        self.out_rest = nn.Sequential(nn.SiLU(), nn.Dropout(dropout), nn.Conv2d(cout, cout, 3, padding=1))
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
        nn.init.zeros_(self.out_rest[-1].weight)
        nn.init.zeros_(self.out_rest[-1].bias)

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.out_norm(h) * (1 + scale) + shift
        return self.skip(x) + self.out_rest(h)


class SelfAttention(nn.Module):
    def __init__(self, c, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, c)
        self.qkv = nn.Conv1d(c, 3 * c, 1)
        self.proj = nn.Conv1d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).reshape(b, c, h * w)
        q, k, v = self.qkv(y).reshape(b * self.heads, 3 * c // self.heads, h * w).split(c // self.heads, dim=1)
        s = (c // self.heads) ** -0.25
        att = torch.softmax(torch.einsum("bct,bcs->bts", q * s, k * s), dim=-1)
        out = torch.einsum("bts,bcs->bct", att, v).reshape(b, c, h * w)
        return x + self.proj(out).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, cin=2, ch=8, mult=(1, 2), temb=32, dropout=0.1):
        super().__init__()
        self.ch = ch
        self.time_embed = nn.Sequential(nn.Linear(ch, temb), nn.SiLU(), nn.Linear(temb, temb))
        self.stem = nn.Conv2d(cin, ch, 3, padding=1)
        c1, c2 = ch * mult[0], ch * mult[1]
        self.down1 = ResBlock(ch, c1, temb, dropout)
        self.pool = nn.Conv2d(c1, c1, 3, stride=2, padding=1)
        self.down2 = ResBlock(c1, c2, temb, dropout)
        self.mid_attn = SelfAttention(c2)
        self.mid = ResBlock(c2, c2, temb, dropout)
        self.up2 = ResBlock(2 * c2, c2, temb, dropout)
        self.up_conv = nn.Conv2d(c2, c1, 3, padding=1)
        self.up1 = ResBlock(2 * c1, c1, temb, dropout)
        self.out = nn.Sequential(nn.GroupNorm(4, c1), nn.SiLU(), nn.Conv2d(c1, cin, 3, padding=1))
        nn.init.zeros_(self.out[-1].weight)
        nn.init.zeros_(self.out[-1].bias)

    def forward(self, x, t):
        emb = self.time_embed(timestep_embedding(t, self.ch).to(x.dtype))
        h0 = self.stem(x)
        h1 = self.down1(h0, emb)
        h2 = self.down2(self.pool(h1), emb)
        m = self.mid(self.mid_attn(h2), emb)
        u = self.up2(torch.cat([m, h2], dim=1), emb)
        u = self.up_conv(F.interpolate(u, scale_factor=2, mode="bilinear", align_corners=False))
        u = self.up1(torch.cat([u, h1], dim=1), emb)
        return self.out(u)
