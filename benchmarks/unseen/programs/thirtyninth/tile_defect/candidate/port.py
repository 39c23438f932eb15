"""Tile defects in PaddlePaddle: the same network line, parsed into a registry of builders."""
import csv
import math
import re

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Uniform
from PIL import Image

SPEC = ("conv:12,k3,s2 gn:4 silu wconv:16,k3,g4,d2 in prelu res:gn wconv:16,k3,g2 "
        "up:8 cat wconv:20,k1 gn:5 silu pool:4 head")
CLASSES = ("ok", "crack", "pinhole", "edge_chip", "stain")
CLASS_WEIGHTS = (0.6, 1.4, 1.2, 1.0, 0.9)
UNKNOWN = 255
EPS = 0.1
STEM_AT, STEM_WIDTH = 2, 12

REGISTRY = {}


def builder(*names):
    def wrap(fn):
        for name in names:
            REGISTRY[name] = fn
        return fn
    return wrap


def default_attrs(fan_in):
    bound = 1 / math.sqrt(fan_in)
    return dict(weight_attr=paddle.ParamAttr(initializer=Uniform(-bound, bound)),
                bias_attr=paddle.ParamAttr(initializer=Uniform(-bound, bound)))


class Step(nn.Layer):
    """A layer of the chain that does not look at the stem."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, stem=None):
        return self.layer(x)


class Residual(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        attr = default_attrs(9)["weight_attr"]
        self.conv = nn.Conv2D(width, width, 3, padding=1, groups=width, weight_attr=attr, bias_attr=False)
        self.gain = self.create_parameter([1, width, 1, 1], default_initializer=Constant(0.2))

    def forward(self, x, stem=None):
        return x + self.conv(F.silu(self.norm(x))) * self.gain


class Resize(nn.Layer):
    def __init__(self, side):
        super().__init__()
        self.side = side

    def forward(self, x, stem=None):
        return F.interpolate(x, size=[self.side, self.side], mode="bilinear", align_corners=False)


class WithStem(nn.Layer):
    def forward(self, x, stem):
        small = F.adaptive_avg_pool2d(stem, [int(s) for s in x.shape[2:]])
        return paddle.concat([x, small], axis=1)


@builder("conv", "wconv")
def convolution(kind, width, arg, opt):
    k, d, g = opt.get("k", 3), opt.get("d", 1), opt.get("g", 1)
    conv = nn.Conv2D(width, arg, k, stride=opt.get("s", 1), padding=d * (k // 2), dilation=d, groups=g,
                     **default_attrs(width // g * k * k))
    if kind == "wconv":
        conv = nn.utils.weight_norm(conv, dim=0)
    return Step(conv), arg


@builder("gn", "in")
def normalisation(kind, width, arg, opt):
    return Step(nn.GroupNorm(arg, width) if kind == "gn" else nn.InstanceNorm2D(width)), width


@builder("silu", "prelu")
def activation(kind, width, arg, opt):
    return Step(nn.Silu() if kind == "silu" else nn.PReLU(width, init=0.25)), width


@builder("res")
def residual(kind, width, arg, opt):
    return Residual(width), width


@builder("up")
def resize(kind, width, arg, opt):
    return Resize(arg), width


@builder("cat")
def with_stem(kind, width, arg, opt):
    return WithStem(), width + STEM_WIDTH


@builder("pool")
def pool(kind, width, arg, opt):
    return Step(nn.Sequential(nn.AdaptiveAvgPool2D(arg), nn.Flatten())), width * arg * arg


@builder("head")
def head(kind, width, arg, opt):
    return Step(nn.Linear(width, len(CLASSES), **default_attrs(width))), len(CLASSES)


def parse(word):
    match = re.match(r"([a-z]+)(?::(\w+))?((?:,[a-z]\d+)*)$", word)
    arg = match.group(2)
    opt = {o[0]: int(o[1:]) for o in match.group(3).split(",") if o}
    return match.group(1), int(arg) if arg and arg.isdigit() else arg, opt


class TileNet(nn.Layer):
    def __init__(self, spec=SPEC):
        super().__init__()
        width, steps = 3, []
        for kind, arg, opt in map(parse, spec.split()):
            step, width = REGISTRY[kind](kind, width, arg, opt)
            steps.append(step)
        self.steps = nn.LayerList(steps)

    def forward(self, x):
        stem = None
        for number, step in enumerate(self.steps):
            x = step(x, stem)
            stem = x if number == STEM_AT else stem
        return x


def build_model():
    return TileNet()


def loss(outputs, labels):
    """Weighted, smoothed cross-entropy: every class's share carries that class's weight,
    the sum is divided by the weights of the true classes of known tiles."""
    logp = F.log_softmax(outputs, axis=-1)
    known = (labels != UNKNOWN).astype(logp.dtype)
    target = F.one_hot(paddle.where(labels == UNKNOWN, paddle.zeros_like(labels), labels), len(CLASSES))
    target = target.astype(logp.dtype)
    w = paddle.to_tensor(CLASS_WEIGHTS, dtype=logp.dtype)
    soft = (1 - EPS) * target + EPS / len(CLASSES)
    total = -(soft * w * logp).sum(axis=-1) * known
    return total.sum() / ((target * w).sum(axis=-1) * known).sum()


def metric(outputs, labels):
    y = labels.numpy()
    p = outputs.numpy().argmax(axis=-1)[y != UNKNOWN]
    y = y[y != UNKNOWN]
    table = np.zeros((len(CLASSES), len(CLASSES)))
    np.add.at(table, (y, p), 1)
    marginal = table.sum(0) + table.sum(1)
    scores = 2 * np.diag(table)[marginal > 0] / marginal[marginal > 0]
    return {"accuracy": float(np.trace(table) / table.sum()), "macro_f1": float(scores.mean())}


def load(path):
    rgb = np.array(Image.open(path).convert("RGB"))[2:26, 2:26]
    return rgb.astype("float32") / 255.0


def finish(img):
    return ((np.transpose(img, (2, 0, 1)) - 0.65) / 0.12).astype("float32")


class TileData(paddle.io.Dataset):
    def __init__(self, split):
        with open("data/labels.csv", newline="") as f:
            self.records = [(r["file"], r["defect"]) for r in csv.DictReader(f) if r["split"] == split]
        self.augment = split == "train"

    def __getitem__(self, index):
        name, defect = self.records[index]
        img = load("data/png/" + name)
        if self.augment:
            rs = np.random.RandomState(31 * index + 7)
            img = np.rot90(img, rs.randint(4))
            if rs.rand() < 0.5:
                img = np.flip(img, axis=1)
            img = np.clip((img - 0.5) * rs.uniform(0.8, 1.2) + 0.5, 0, 1)
        return finish(img), CLASSES.index(defect) if defect in CLASSES else UNKNOWN

    def __len__(self):
        return len(self.records)


def build_dataset(split):
    return TileData(split)


def build_dataloader(split):
    return paddle.io.DataLoader(TileData(split), batch_size=4, shuffle=False)


def build_optimizer(model):
    def decays(name, p):
        return p.ndim > 1 and (name.endswith("weight_v") or name.endswith("layer.weight"))

    named = list(model.named_parameters())
    poly = paddle.optimizer.lr.PolynomialDecay(0.006, decay_steps=34, end_lr=0.0, power=0.9)
    rate = paddle.optimizer.lr.LinearWarmup(poly, warmup_steps=6, start_lr=0.0006, end_lr=0.006)
    return paddle.optimizer.Momentum(rate, momentum=0.9, use_nesterov=True, parameters=[
        {"params": [p for n, p in named if decays(n, p)], "weight_decay": 5e-3,
         "grad_clip": nn.ClipGradByValue(0.125)},
        {"params": [p for n, p in named if not decays(n, p)], "grad_clip": nn.ClipGradByValue(0.125)},
    ])


def train_step(model, optimizer, batch):
    images, labels = batch
    value = loss(model(images), labels)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(value)


def predict(path, model):
    with paddle.no_grad():
        x = paddle.to_tensor(finish(load(path))).unsqueeze(0).astype(model.parameters()[0].dtype)
        p = F.softmax(model(x), axis=-1).numpy()[0]
    return {"defect": CLASSES[int(p.argmax())], "probability": float(p.max()), "all": p}
