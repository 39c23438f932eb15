"""Letters in another style, with PaddlePaddle.

The net keeps a flat table of parameters; ``kit`` turns it into small functions for one pass.
"""
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, Dataset
from PIL import Image

FOLDER = Path(__file__).parents[1] / "data"
with open(FOLDER / "tasks.json") as f:
    PLAN = json.load(f)
SIDE, WIDE = PLAN["cell"], 16
HALF = 2.0 ** 0.5
lrelu = partial(F.leaky_relu, negative_slope=0.2)


# ---- pictures --------------------------------------------------------------------------------------------------

def strip(path):
    """[glyphs, 1, side, side], ink is one."""
    with Image.open(path) as picture:
        gray = np.asarray(picture.convert("L"), dtype="float32")
    glyphs = np.split(np.float32(1.0) - gray / np.float32(255.0), gray.shape[1] // SIDE, axis=1)
    return np.stack(glyphs)[:, np.newaxis]


class GlyphSet(Dataset):
    def __init__(self, split):
        super().__init__()
        self.plan = PLAN[split]
        place = {letter: k for k, letter in enumerate(PLAN["letters"])}
        self.rows = [(t["font"], place[t["letter"]], [place[c] for c in t["refs"]]) for t in self.plan]
        self.sheets = {k: strip(FOLDER / f"font{k}.png") for k in {0, *(r[0] for r in self.rows)}}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        font, letter, refs = self.rows[k]
        sheet = self.sheets[font]
        labels = {"target": sheet[letter], "font": font}
        return {"content": self.sheets[0][letter], "refs": sheet[refs], "labels": labels}


def build_dataset(split):
    return GlyphSet(split)


def build_dataloader(split):
    return DataLoader(GlyphSet(split), batch_size=6, shuffle=False)


# ---- parameters ------------------------------------------------------------------------------------------------

def table():
    """name -> (shape, deviation, mean) of every parameter."""
    rows = {}

    def weights(name, shape, std, bias=0.0, bias_std=0.0):
        rows[name + "_w"] = (shape, std, 0.0)
        rows[name + "_b"] = ([shape[0]], bias_std, bias)

    for name, cout, cin, size in (("content1", 12, 1, 3), ("content2", 20, 12, 4), ("style1", 12, 1, 4), ("style2", 20, 12, 4)):
        weights(name, [cout, cin, size, size], (2.0 / (1.04 * cin * size ** 2)) ** 0.5, bias_std=0.05)
    for name, cout, cin in (("key", WIDE, 40), ("value", WIDE, 40), ("query", WIDE, 20), ("warp", 6, WIDE), ("adain", 40, WIDE)):
        weights(name, [cout, cin], 1.0)
    for name in ("map1", "map2"):
        weights(name, [WIDE, WIDE], 10.0)
    for name, cout, cin, size in (("fuse", 20, 20, 3), ("rise", 16, 32, 3), ("ink", 1, 16, 1)):
        weights(name, [cout, cin, size, size], 1.0)
        weights(name + "_s", [cin, WIDE], 1.0, bias=1.0)
    rows["skip"] = ([1], 0.0, 1.5)
    return rows


# ---- one pass --------------------------------------------------------------------------------------------------

def standard(x, eps=1e-5):
    """Instance norm without weights."""
    mean = x.mean(axis=[2, 3], keepdim=True)
    var = x.var(axis=[2, 3], unbiased=False, keepdim=True)
    return (x - mean) / (var + eps).sqrt()


def soften(x):
    """[1 2 1] / 4 along rows, then along columns, by slices of the reflected map."""
    for axis in (2, 3):
        side = [1, 1, 0, 0] if axis == 3 else [0, 0, 1, 1]
        wide, n = F.pad(x, side, mode="reflect"), x.shape[axis]
        cut = [paddle.slice(wide, [axis], [k], [k + n]) for k in range(3)]
        x = 0.25 * (cut[0] + cut[2]) + 0.5 * cut[1]
    return x


def unit(code):
    return code / (code.square().mean(axis=1, keepdim=True) + 1e-8).sqrt()


def kit(p):
    """Functions of one pass; ``p(name)`` gives a parameter."""

    def conv(name, x, stride):
        w = p(name + "_w")
        pad = (w.shape[-1] - stride + 1) // 2
        return F.conv2d(F.pad(x, [pad] * 4, mode="reflect"), w, p(name + "_b"), stride=stride)

    def dense(name, x, slow=1.0):
        w = p(name + "_w")
        return slow * (paddle.matmul(x, w, transpose_y=True) * w.shape[1] ** -0.5 + p(name + "_b"))

    def styled(name, x, code, demodulate=True):
        """Modulated convolution with one shared kernel: styles scale what goes in, norms what comes out."""
        w, s = p(name + "_w"), dense(name + "_s", code)
        w = w / float(np.prod(w.shape[1:])) ** 0.5
        y = F.conv2d(x * s.unsqueeze([2, 3]), w, padding=w.shape[-1] // 2)
        if demodulate:
            power = paddle.einsum("oihw,ni->no", w.square(), s.square())
            y = y * paddle.rsqrt(power + 1e-8).unsqueeze([2, 3])
        return y + p(name + "_b").reshape([1, -1, 1, 1])

    def styles(refs, feature):
        n, k = refs.shape[0], refs.shape[1]
        f = lrelu(conv("style1", refs.reshape([n * k, 1, SIDE, SIDE]), 2))
        f = lrelu(conv("style2", f, 2)).flatten(2)
        spread = (f.var(axis=-1, unbiased=False) + 1e-6).sqrt()
        stats = paddle.concat([f.mean(axis=-1), spread], axis=-1)
        keys, values = (dense(name, stats).reshape([n, k, WIDE]) for name in ("key", "value"))
        asked = dense("query", feature.mean(axis=[2, 3]))
        weight = F.softmax(paddle.einsum("nkc,nc->nk", keys, asked) * WIDE ** -0.5, axis=-1)
        code = unit(paddle.einsum("nk,nkc->nc", weight, values))
        return dense("map2", lrelu(dense("map1", code, slow=0.1)), slow=0.1)

    def warped(x, code):
        still = paddle.eye(2, 3, dtype=x.dtype)
        theta = still + 0.15 * F.tanh(dense("warp", code)).reshape([-1, 2, 3])
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False), theta

    def painted(x, detail, code):
        gamma, beta = dense("adain", code).unsqueeze([2, 3]).chunk(2, axis=1)
        y = styled("fuse", gamma * standard(x) + standard(x) + beta, code)
        x = x / HALF + lrelu(y)
        x = soften(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
        x = HALF * lrelu(styled("rise", paddle.concat([x, detail], axis=1), code))
        return styled("ink", x, code, demodulate=False)

    return SimpleNamespace(conv=conv, styles=styles, warped=warped, painted=painted)


class GlyphNet(nn.Layer):
    def __init__(self):
        super().__init__()
        for name, (shape, std, mean) in table().items():
            start = nn.initializer.Normal(mean, std) if std else nn.initializer.Constant(mean)
            self.add_parameter(name, self.create_parameter(shape, default_initializer=start))
        self.register_buffer("style_mean", paddle.zeros([WIDE]))

    def steady(self, code):
        """Training follows the mean of the codes; afterwards codes are drawn towards it."""
        if not self.training:
            return 0.9 * code + 0.1 * self.style_mean
        with paddle.no_grad():
            now = code.detach().mean(axis=0)
            self.style_mean.set_value(0.98 * self.style_mean + 0.02 * now)
        return code

    def forward(self, content, refs):
        k = kit(partial(getattr, self))
        fine = lrelu(standard(k.conv("content1", content, 1)))
        coarse = lrelu(standard(k.conv("content2", fine, 2)))
        code = self.steady(k.styles(refs, coarse))
        moved, theta = k.warped(coarse, code)
        logits = k.painted(moved, fine, code) + self.skip * (2.0 * content - 1.0)
        return {"image": F.sigmoid(logits), "code": code, "theta": theta}


def build_model():
    return GlyphNet()


# ---- loss and metric -------------------------------------------------------------------------------------------

def outline(image):
    """Sobel's magnitude by slices, scaled to each glyph's greatest."""
    x = F.pad(image, [1, 1, 1, 1], mode="replicate")
    down = x[:, :, :-2] + 2.0 * x[:, :, 1:-1] + x[:, :, 2:]
    across = x[:, :, :, :-2] + 2.0 * x[:, :, :, 1:-1] + x[:, :, :, 2:]
    gx, gy = down[:, :, :, :-2] - down[:, :, :, 2:], across[:, :, :-2] - across[:, :, 2:]
    size = (gx * gx + gy * gy).sqrt()
    return size / size.max(axis=[1, 2, 3], keepdim=True).clip(min=1e-6)


def likeness(a, b):
    """SSIM with flat windows of five."""
    both = paddle.concat([a, b, a * a, b * b, a * b], axis=1)
    flat = paddle.full([5, 1, 5, 5], 1.0 / 25.0, dtype=a.dtype)
    ma, mb, aa, bb, ab = F.conv2d(both, flat, groups=5).split(5, axis=1)
    light = (2.0 * ma * mb + 1e-4) / (ma * ma + mb * mb + 1e-4)
    shape = (2.0 * (ab - ma * mb) + 9e-4) / (aa - ma * ma + bb - mb * mb + 9e-4)
    return (light * shape).mean()


def gathering(code, font, heat=0.5):
    """Contrast of the codes within a batch, the own code left out."""
    z = F.normalize(code, axis=-1)
    n = z.shape[0]
    other = 1.0 - paddle.eye(n, dtype=z.dtype)
    logits = paddle.matmul(z, z, transpose_y=True) / heat - 1e4 * (1.0 - other)
    same = (font.unsqueeze(0) == font.unsqueeze(1)).astype(z.dtype) * other
    count = same.sum(axis=1)
    logp = logits - paddle.logsumexp(logits, axis=1, keepdim=True)
    each = (same * logp).sum(axis=1) / count.clip(min=1.0)
    return -each.sum() / (count > 0).astype(z.dtype).sum().clip(min=1.0)


def loss(outputs, labels):
    image, theta = outputs["image"], outputs["theta"]
    target = labels["target"].astype(image.dtype)
    weight = 1.0 + 2.0 * outline(target)
    near = (weight * F.l1_loss(image, target, reduction="none")).sum() / weight.sum()
    alike = 1.0 - likeness(image, target)
    pull = gathering(outputs["code"], labels["font"])
    rest = F.mse_loss(theta, paddle.eye(2, 3, dtype=theta.dtype).expand_as(theta))
    return {"loss": near + 0.4 * alike + 0.1 * pull + 0.5 * rest, "near": near, "alike": alike, "pull": pull}


def metric(outputs, labels):
    image, target = outputs["image"].numpy(), labels["target"].numpy()
    ours, theirs = image > 0.5, target > 0.5
    shared = np.logical_and(ours, theirs).sum((1, 2, 3)) / np.maximum(np.logical_or(ours, theirs).sum((1, 2, 3)), 1)
    decibel = -10.0 * np.log10(np.square(image - target).mean(axis=(1, 2, 3)))
    alike = likeness(outputs["image"], labels["target"].astype(outputs["image"].dtype))
    return {"iou": float(shared.mean()), "psnr": float(decibel.mean()), "ssim": float(alike)}


# ---- training and use ------------------------------------------------------------------------------------------

def build_optimizer(model):
    kernels, others = [], []
    for p in model.parameters():
        (kernels if len(p.shape) == 4 else others).append(p)
    rate = paddle.optimizer.lr.CosineAnnealingWarmRestarts(0.05, T_0=10, T_mult=2, eta_min=0.002)
    groups = [{"params": kernels, "weight_decay": 1e-3}, {"params": others, "weight_decay": 0.0}]
    return paddle.optimizer.Momentum(rate, momentum=0.875, parameters=groups, use_nesterov=True)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def centralise(parameters):
    """Takes the mean out of every filter's gradient."""
    for p in parameters:
        if p.grad is not None and len(p.shape) == 4:
            p.grad = p.grad - p.grad.mean(axis=[1, 2, 3], keepdim=True)


def train_step(model, optimizer, batch):
    outcome = loss(model(batch["content"], batch["refs"]), batch["labels"])
    outcome["loss"].backward()
    centralise(model.parameters())
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": outcome["loss"].detach(), "norm": norm}


@paddle.no_grad()
def predict(path, model):
    glyphs = paddle.to_tensor(strip(path)).astype(model.skip.dtype).unsqueeze(0)
    image = model(glyphs[:, 0], glyphs[:, 1:])["image"].numpy()[0, 0]
    dark = np.argwhere(image > 0.5)
    low, high = (dark.min(0), dark.max(0)) if len(dark) else ((0, 0), (0, 0))
    return {"image": image, "ink": float(image.mean()), "box": [int(v) for pair in zip(low, high) for v in pair]}
