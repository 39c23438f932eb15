"""A letter in the style of three others: content from a plain font, style from reference glyphs.

All layers are closures over names; the parameters lie flat in one module and are handed to every closure.
"""
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
TASKS = json.loads((DATA / "tasks.json").read_text())
CELL = TASKS["cell"]
CODE, PULL, KEEP = 16, 0.02, 0.9


# ---- parameters and layers -------------------------------------------------------------------------------------

def workshop():
    """Makers of layers that note the parameters they need in ``spec``."""
    spec = {}

    def need(name, shape, std=0.0, mean=0.0):
        spec[name] = (shape, std, mean)

    def conv(name, cin, cout, k, stride=1):
        need(name + "_w", (cout, cin, k, k), std=math.sqrt(2 / (1 + 0.2 ** 2) / (cin * k * k)))
        need(name + "_b", (cout,), std=0.05)  # not zero: paper is zero, and would lie on the kink of ``bend``
        pad = (k - stride + 1) // 2

        def run(P, x):
            x = F.pad(x, (pad, pad, pad, pad), mode="reflect")
            return F.conv2d(x, P[name + "_w"], P[name + "_b"], stride=stride)
        return run

    def linear(name, cin, cout, slow=1.0, bias=0.0):
        """Equalised: stored with unit variance, scaled at run time; ``slow`` divides its speed."""
        need(name + "_w", (cout, cin), std=1 / slow)
        need(name + "_b", (cout,), mean=bias / slow)
        scale = slow / math.sqrt(cin)
        return lambda P, x: F.linear(x, P[name + "_w"] * scale, P[name + "_b"] * slow)

    def modulated(name, cin, cout, k, demodulate=True):
        """Convolution whose input channels a style scales, as one grouped convolution."""
        need(name + "_w", (cout, cin, k, k), std=1.0)
        need(name + "_b", (cout,))
        style = linear(name + "_s", CODE, cin, bias=1.0)
        scale = 1 / math.sqrt(cin * k * k)

        def run(P, x, code):
            n, _, h, w = x.shape
            weight = P[name + "_w"][None] * scale * style(P, code)[:, None, :, None, None]
            if demodulate:
                weight = weight * torch.rsqrt(weight.pow(2).sum(dim=(2, 3, 4), keepdim=True) + 1e-8)
            y = F.conv2d(x.reshape(1, n * cin, h, w), weight.reshape(n * cout, cin, k, k), padding=k // 2, groups=n)
            return y.view(n, cout, h, w) + P[name + "_b"].view(1, -1, 1, 1)
        return run

    return spec, need, conv, linear, modulated


def bend(x):
    return F.leaky_relu(x, 0.2)


def blur(x):
    """[1 2 1] in both directions, channel by channel."""
    taps = torch.tensor([1.0, 2.0, 1.0], dtype=x.dtype, device=x.device) / 4
    kernel = torch.outer(taps, taps).expand(x.shape[1], 1, 3, 3)
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), kernel, groups=x.shape[1])


def pixel_norm(code):
    return code * torch.rsqrt(code.pow(2).mean(1, keepdim=True) + 1e-8)


# ---- the network -----------------------------------------------------------------------------------------------

def network():
    spec, need, conv, linear, modulated = workshop()
    content1, content2 = conv("content1", 1, 12, 3), conv("content2", 12, 20, 4, stride=2)
    style1, style2 = conv("style1", 1, 12, 4, stride=2), conv("style2", 12, 20, 4, stride=2)
    key, value, query = linear("key", 40, CODE), linear("value", 40, CODE), linear("query", 20, CODE)
    map1, map2 = linear("map1", CODE, CODE, slow=0.1), linear("map2", CODE, CODE, slow=0.1)
    warp = linear("warp", CODE, 6)
    adain = linear("adain", CODE, 40)
    fuse, rise, ink = modulated("fuse", 20, 20, 3), modulated("rise", 32, 16, 3), modulated("ink", 16, 1, 1, False)
    need("skip", (1,), mean=1.5)

    def look(P, refs, content):
        """Code of each reference glyph, brought together by what the content asks for."""
        n, k = refs.shape[:2]
        f = bend(style2(P, bend(style1(P, refs.flatten(0, 1)))))
        stats = torch.cat([f.mean((2, 3)), torch.sqrt(f.var((2, 3), unbiased=False) + 1e-6)], dim=1)
        keys, values = key(P, stats).view(n, k, CODE), value(P, stats).view(n, k, CODE)
        asked = query(P, content.mean((2, 3)))
        weight = torch.softmax((keys * asked[:, None]).sum(-1) / math.sqrt(CODE), dim=1)
        return (weight[..., None] * values).sum(1)

    def move(P, x, code):
        theta = 0.15 * torch.tanh(warp(P, code)).view(-1, 2, 3)
        theta = theta + torch.eye(2, 3, dtype=x.dtype, device=x.device)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False), theta

    def run(P, mean, training, content, refs):
        c1 = bend(F.instance_norm(content1(P, content)))
        c2 = bend(F.instance_norm(content2(P, c1)))
        code = pixel_norm(look(P, refs, c2))
        code = map2(P, bend(map1(P, code)))
        if training:
            with torch.no_grad():
                mean.lerp_(code.detach().mean(0), PULL)
        else:
            code = torch.lerp(mean, code, KEEP)
        x, theta = move(P, c2, code)
        gamma, beta = adain(P, code)[:, :, None, None].chunk(2, dim=1)
        x = x + math.sqrt(2) * bend(fuse(P, F.instance_norm(x) * (1 + gamma) + beta, code))
        x = blur(F.interpolate(x / math.sqrt(2), scale_factor=2, mode="bilinear", align_corners=False))
        x = math.sqrt(2) * bend(rise(P, torch.cat([x, c1], dim=1), code))
        image = torch.sigmoid(ink(P, x, code) + P["skip"] * (2 * content - 1))
        return {"image": image, "code": code, "theta": theta}

    return spec, run


class Flat(nn.Module):
    def __init__(self, spec, run):
        super().__init__()
        for name, (shape, std, mean) in spec.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape) * std + mean))
        self.register_buffer("style_mean", torch.zeros(CODE))
        self.run = run

    def forward(self, content, refs):
        return self.run(dict(self.named_parameters()), self.style_mean, self.training, content, refs)


def build_model():
    return Flat(*network())


# ---- loss and metric -------------------------------------------------------------------------------------------

def edges(image):
    """Sobel magnitude, at most 1 in each glyph."""
    k = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]], dtype=image.dtype, device=image.device)
    g = F.conv2d(F.pad(image, (1, 1, 1, 1), mode="replicate"), torch.stack([k, k.t()])[:, None])
    size = g.pow(2).sum(1, keepdim=True).sqrt()
    return size / size.amax((1, 2, 3), keepdim=True).clamp(min=1e-6)


def ssim(a, b, window=5):
    def m(x):
        return F.avg_pool2d(x, window, stride=1)
    ma, mb = m(a), m(b)
    va, vb, cov = m(a * a) - ma ** 2, m(b * b) - mb ** 2, m(a * b) - ma * mb
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    return (((2 * ma * mb + c1) * (2 * cov + c2)) / ((ma ** 2 + mb ** 2 + c1) * (va + vb + c2))).mean((1, 2, 3))


def contrast(code, font, temperature=0.5):
    """Codes of one font draw together, against those of other fonts in the batch."""
    z = F.normalize(code, dim=1)
    own = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logp = (z @ z.t() / temperature).masked_fill(own, -1e4).log_softmax(1)
    same = ((font[:, None] == font[None]) & ~own).to(z.dtype)
    each = -(logp * same).sum(1) / same.sum(1).clamp(min=1)
    return each.sum() / (same.sum(1) > 0).sum().clamp(min=1)


def loss(outputs, labels):
    image, target = outputs["image"], labels["target"].to(outputs["image"].dtype)
    weight = 1 + 2 * edges(target)
    near = (weight * (image - target).abs()).sum() / weight.sum()
    alike = 1 - ssim(image, target).mean()
    pull = contrast(outputs["code"], labels["font"])
    theta = outputs["theta"]
    rest = (theta - torch.eye(2, 3, dtype=theta.dtype, device=theta.device)).pow(2).mean()
    return {"loss": near + 0.4 * alike + 0.1 * pull + 0.5 * rest, "near": near, "alike": alike, "pull": pull}


def metric(outputs, labels):
    image, target = outputs["image"], labels["target"].to(outputs["image"].dtype)
    a, b = image > 0.5, target > 0.5
    iou = (a & b).sum((1, 2, 3)).double() / (a | b).sum((1, 2, 3)).clamp(min=1)
    mse = (image - target).pow(2).mean((1, 2, 3))
    return {"iou": iou.mean().item(), "psnr": (-10 * torch.log10(mse)).mean().item(), "ssim": ssim(image, target).mean().item()}


# ---- data ------------------------------------------------------------------------------------------------------

def cells(path):
    """Glyphs of a strip, ink 1 and paper 0: [count, 1, cell, cell]."""
    strip = 1 - np.asarray(Image.open(path).convert("L"), np.float32) / 255
    return strip.reshape(CELL, -1, CELL).transpose(1, 0, 2)[:, None]


class Tasks(Dataset):
    def __init__(self, split):
        self.tasks = TASKS[split]
        self.fonts = [cells(DATA / f"font{i}.png") for i in range(8)]

    def __len__(self):
        return len(self.tasks)

    def __getitem__(self, i):
        t = self.tasks[i]
        at = [TASKS["letters"].index(c) for c in t["letter"] + t["refs"]]
        own = self.fonts[t["font"]]
        return {"content": self.fonts[0][at[0]], "refs": own[at[1:]], "labels": {"target": own[at[0]], "font": t["font"]}}


def build_dataset(split):
    return Tasks(split)


def build_dataloader(split):
    return DataLoader(Tasks(split), batch_size=6)


# ---- training and use ------------------------------------------------------------------------------------------

def build_optimizer(model):
    params = dict(model.named_parameters())
    decayed = [p for n, p in params.items() if p.ndim == 4]
    others = [p for n, p in params.items() if p.ndim != 4]
    return torch.optim.SGD([{"params": decayed, "weight_decay": 1e-3}, {"params": others}], lr=0.05, momentum=0.875, nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2, eta_min=0.002)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    out = loss(model(batch["content"], batch["refs"]), batch["labels"])
    out["loss"].backward()
    for p in model.parameters():
        if p.ndim == 4:  # gradient centralisation, filter by filter
            p.grad.sub_(p.grad.mean((1, 2, 3), keepdim=True))
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
    return {"loss": out["loss"].detach(), "norm": norm}


def predict(path, model):
    """A strip: the plain letter, then the reference glyphs."""
    strip = torch.from_numpy(cells(path)).to(next(model.parameters()))
    with torch.no_grad():
        out = model(strip[None, 0], strip[None, 1:])
    image = out["image"][0, 0]
    rows, cols = torch.where(image > 0.5)
    box = [rows.min().item(), rows.max().item(), cols.min().item(), cols.max().item()] if len(rows) else [0, 0, 0, 0]
    return {"image": image.numpy(), "ink": image.mean().item(), "box": box}
