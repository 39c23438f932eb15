"""A tiny Swin with relative position bias, stochastic depth and mixed labels."""
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
NUM_CLASSES = 6


def window_partition(x, ws):
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws, ws, c)


def window_reverse(windows, ws, h, w):
    b = int(windows.shape[0] / (h * w / ws / ws))
    x = windows.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)


class DropPath(nn.Module):
    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * mask / keep


class WindowAttention(nn.Module):
    def __init__(self, dim, ws, heads):
        super().__init__()
        self.dim, self.ws, self.num_heads = dim, ws, heads
        self.scale = (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))
        coords = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij"))
        flat = torch.flatten(coords, 1)
        rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += ws - 1
        rel[:, :, 1] += ws - 1
        rel[:, :, 0] *= 2 * ws - 1
        self.register_buffer("relative_position_index", rel.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x, mask=None):
        b_, n, c = x.shape
        qkv = self.qkv(x).reshape(b_, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, -1)
        attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(b_ // nw, nw, self.num_heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, n, n)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b_, n, c))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.act, self.fc2, self.drop = nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class SwinBlock(nn.Module):
    def __init__(self, dim, res, heads, ws, shift, drop_path):
        super().__init__()
        self.res, self.ws, self.shift = res, ws, shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, heads)
        self.drop_path = DropPath(drop_path) if drop_path > 0 else nn.Identity()
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, dim * 2)
        mask = None
        if shift > 0:
            img = torch.zeros((1, res, res, 1))
            cuts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
            cnt = 0
            for h in cuts:
                for w in cuts:
                    img[:, h, w, :] = cnt
                    cnt += 1
            mw = window_partition(img, ws).view(-1, ws * ws)
            mask = mw.unsqueeze(1) - mw.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))
        self.register_buffer("attn_mask", mask)

    def forward(self, x):
        b, l, c = x.shape
        shortcut = x
        x = self.norm1(x).view(b, self.res, self.res, c)
        if self.shift > 0:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        win = window_partition(x, self.ws).view(-1, self.ws * self.ws, c)
        win = self.attn(win, mask=self.attn_mask).view(-1, self.ws, self.ws, c)
        x = window_reverse(win, self.ws, self.res, self.res)
        if self.shift > 0:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        x = shortcut + self.drop_path(x.view(b, l, c))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class PatchMerging(nn.Module):
    def __init__(self, res, dim):
        super().__init__()
        self.res = res
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(4 * dim)

    def forward(self, x):
        b, l, c = x.shape
        x = x.view(b, self.res, self.res, c)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(self.norm(x.view(b, -1, 4 * c)))


class Swin(nn.Module):
    def __init__(self, img=32, patch=4, dim=16, heads=(2, 4), ws=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.patch_norm = nn.LayerNorm(dim)
        r = img // patch
        dpr = torch.linspace(0, 0.2, 4).tolist()
        self.layers = nn.ModuleList([
            SwinBlock(dim, r, heads[0], ws, 0, dpr[0]), SwinBlock(dim, r, heads[0], ws, ws // 2, dpr[1]), PatchMerging(r, dim),
            SwinBlock(2 * dim, r // 2, heads[1], ws, 0, dpr[2]), SwinBlock(2 * dim, r // 2, heads[1], ws, 0, dpr[3])])
        self.norm = nn.LayerNorm(2 * dim)
        self.head = nn.Linear(2 * dim, NUM_CLASSES)

    def forward(self, x):
        x = self.patch_norm(self.patch_embed(x).flatten(2).transpose(1, 2))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def build_model():
    return Swin()


def labels():
    """mixed one-hot labels with smoothing"""
    g = np.random.default_rng(4)
    a, b, lam = g.integers(0, NUM_CLASSES, 3), g.integers(0, NUM_CLASSES, 3), g.beta(0.8, 0.8, 3)[:, None]
    e = np.eye(NUM_CLASSES)
    y = lam * e[a] + (1 - lam) * e[b]
    return (y * 0.9 + 0.1 / NUM_CLASSES).astype("float32")


def loss(outputs, labels):
    return torch.sum(-labels * F.log_softmax(outputs, dim=-1), dim=-1).mean()


def metric(outputs, labels):
    top = labels.argmax(-1)
    return {"top1": (outputs.argmax(-1) == top).float().mean().item(), "soft_ce": F.cross_entropy(outputs, labels).item()}


class MixedImages(Dataset):
    """mixup with a fixed partner and share per index"""

    def __init__(self, split):
        self.files = sorted(os.listdir(os.path.join(HERE, "images", split)))
        self.dir = os.path.join(HERE, "images", split)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return len(self.files)

    def load(self, i):
        im = Image.open(os.path.join(self.dir, self.files[i])).convert("RGB")
        x = torch.from_numpy(np.array(im)).permute(2, 0, 1).float().div_(255)
        x = F.interpolate(x[None], size=(36, 36), mode="bicubic", align_corners=False)[0].clamp_(0, 1)
        x = x[:, 2:34, 2:34]
        y = F.one_hot(torch.tensor(int(self.files[i].split("_")[0])), NUM_CLASSES).float()
        return x.sub(self.mean).div(self.std), y * 0.9 + 0.1 / NUM_CLASSES

    def __getitem__(self, i):
        x1, y1 = self.load(i)
        x2, y2 = self.load((i + 1) % len(self))
        lam = np.random.RandomState(i).beta(0.8, 0.8)
        return lam * x1 + (1 - lam) * x2, lam * y1 + (1 - lam) * y2


def build_dataset(split):
    return MixedImages(split)


def build_dataloader(split):
    return DataLoader(MixedImages(split), batch_size=2, drop_last=False)


def build_optimizer(model):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if p.ndim == 1 or name.endswith(".bias") or "relative_position_bias_table" in name:
            no_decay.append(p)
        else:
            decay.append(p)
    return torch.optim.AdamW([{"params": decay}, {"params": no_decay, "weight_decay": 0.0}], lr=5e-4, weight_decay=0.05)


class WarmupCosine(torch.optim.lr_scheduler._LRScheduler):
    def __init__(self, optimizer, warmup, total, warmup_lr, min_lr):
        self.warmup, self.total, self.warmup_lr, self.min_lr = warmup, total, warmup_lr, min_lr
        super().__init__(optimizer)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            return [self.warmup_lr + t * (b - self.warmup_lr) / self.warmup for b in self.base_lrs]
        return [self.min_lr + 0.5 * (b - self.min_lr) * (1 + math.cos(math.pi * t / self.total)) for b in self.base_lrs]


def build_scheduler(optimizer):
    return WarmupCosine(optimizer, 2, 8, 1e-5, 5e-6)
