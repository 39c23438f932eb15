"""Arbitrary style transfer: frozen encoder, AdaIN, decoder; Gram and moment losses."""
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def calc_mean_std(feat, eps=1e-5):
    n, c = feat.size()[:2]
    var = feat.view(n, c, -1).var(dim=2) + eps
    return feat.view(n, c, -1).mean(dim=2).view(n, c, 1, 1), var.sqrt().view(n, c, 1, 1)


def adain(content, style):
    sm, ss = calc_mean_std(style)
    cm, cs = calc_mean_std(content)
    return (content - cm.expand(content.size())) / cs.expand(content.size()) * ss.expand(content.size()) + sm.expand(content.size())


def gram(x):
    b, c, h, w = x.size()
    f = x.view(b, c, h * w)
    return f.bmm(f.transpose(1, 2)) / (c * h * w)


encoder = lambda: nn.Sequential(
    nn.Conv2d(3, 3, 1),
    nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ReLU(),
    nn.ReflectionPad2d(1), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.MaxPool2d(2, 2, 0, ceil_mode=True),
    nn.ReflectionPad2d(1), nn.Conv2d(8, 12, 3), nn.ReLU())


class ResnetBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c, affine=True), nn.ReLU(True),
            nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c, affine=True))

    def forward(self, x):
        return x + self.block(x)


class StyleNet(nn.Module):
    def __init__(self):
        super().__init__()
        enc = list(encoder().children())
        self.enc_1, self.enc_2, self.enc_3 = nn.Sequential(*enc[:4]), nn.Sequential(*enc[4:7]), nn.Sequential(*enc[7:])
        self.decoder = nn.Sequential(
            ResnetBlock(12), nn.ReflectionPad2d(1), nn.Conv2d(12, 32, 3), nn.PixelShuffle(2), nn.GroupNorm(2, 8), nn.LeakyReLU(0.1),
            nn.ReflectionPad2d(2), nn.Conv2d(8, 3, 5))
        for name in ("enc_1", "enc_2", "enc_3"):
            for p in getattr(self, name).parameters():
                p.requires_grad = False

    def encode(self, x):
        res = [x]
        for f in (self.enc_1, self.enc_2, self.enc_3):
            res.append(f(res[-1]))
        return res[1:]

    def forward(self, content, style, alpha=0.8):
        sf = self.encode(style)
        cf = self.encode(content)[-1]
        t = alpha * adain(cf, sf[-1]) + (1 - alpha) * cf
        small = F.interpolate(content, scale_factor=0.5, mode="bilinear", align_corners=False)
        base = F.interpolate(small, size=content.shape[2:], mode="bicubic", align_corners=False)
        g = torch.sigmoid(self.decoder(t) + base)
        return {"image": g, "target": t.detach(), "features": self.encode(g), "style": sf}


def build_model():
    return StyleNet()


def loss(outputs, labels):
    """labels: how much each pixel's content matters"""
    gf, sf = outputs["features"], outputs["style"]
    w = F.adaptive_avg_pool2d(labels, outputs["target"].shape[2:])
    content = (w * (gf[-1] - outputs["target"]) ** 2).sum() / (w.sum() * gf[-1].size(1))
    moments = 0.0
    for a, b in zip(gf, sf):
        (am, as_), (bm, bs) = calc_mean_std(a), calc_mean_std(b)
        moments = moments + F.mse_loss(am, bm) + F.mse_loss(as_, bs)
    texture = sum(F.l1_loss(gram(a), gram(b)) for a, b in zip(gf, sf))
    x = outputs["image"]
    tv = (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[:, :, :, 1:] - x[:, :, :, :-1]).abs().mean()
    return {"loss": content + 10 * moments + 5 * texture + 0.1 * tv, "content": content, "moments": moments, "texture": texture, "tv": tv}


def metric(outputs, labels):
    x = outputs["image"]
    k = torch.ones(1, 1, 3, 3, dtype=x.dtype) / 9
    gray = x.mean(1, keepdim=True)
    m = F.conv2d(gray, k)
    v = F.conv2d(gray * gray, k) - m * m
    return {"brightness": m.mean().item(), "local_variance": v.clamp(min=0).mean().item(), "median": gray.flatten().kthvalue(gray.numel() // 2).values.item()}


class InverseDecay(torch.optim.lr_scheduler._LRScheduler):
    def get_lr(self):
        return [b / (1.0 + 5e-2 * self.last_epoch) for b in self.base_lrs]


def build_optimizer(model):
    return torch.optim.Adam(model.decoder.parameters(), lr=1e-3)


def build_scheduler(optimizer):
    return InverseDecay(optimizer)


def load(path, size):
    im = Image.open(path).convert("RGB")
    w, h = im.size
    s = size / min(w, h)
    im = im.resize((round(w * s), round(h * s)), Image.LANCZOS)
    w, h = im.size
    left, top = (w - size) // 2, (h - size) // 2
    return np.asarray(im.crop((left, top, left + size, top + size)), dtype=np.float32) / 255.0


class Pairs(torch.utils.data.Dataset):
    def __init__(self, split):
        with open(os.path.join(HERE, "art", split + ".json")) as f:
            self.pairs = json.load(f)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        c, s = (torch.from_numpy(load(os.path.join(HERE, "art", p), 20)).permute(2, 0, 1).contiguous() for p in self.pairs[i])
        d = torch.stack(torch.meshgrid(torch.arange(20.0), torch.arange(20.0), indexing="ij")) - 9.5
        return c, s, torch.exp(-d.pow(2).sum(0, keepdim=True) / 80)


def build_dataset(split):
    return Pairs(split)


@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        req = json.load(f)
    c, s = (torch.from_numpy(load(os.path.join(HERE, "art", req[k]), 24)).permute(2, 0, 1)[None].to(next(model.parameters()).dtype) for k in ("content", "style"))
    return model(c, s, alpha=req["alpha"])["image"][0]
