"""Quantised MLP-Mixer for PaddlePaddle: LSQ as one PyLayer with its gradient written out."""
import collections
import math
import os
import types

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.autograd import PyLayer
from paddle.nn import initializer as init

BASE = os.path.dirname(os.path.abspath(__file__))
HP = types.MappingProxyType({
    "image": 12, "patch": 3, "width": 16, "hidden": {"token": 24, "channel": 40}, "blocks": 3, "bits": 4,
    "drop": 0.1, "activity": 1e-3, "lr": 0.05, "step_ratio": 0.1, "l2": 1e-4, "steps": 112, "power": 0.9})


class LSQ(PyLayer):
    @staticmethod
    def forward(ctx, weight, step, low, high):
        scaled = weight / step
        level = paddle.clip(scaled, low, high)
        # paddle.round goes away from zero on ties, so ties are sent to the even level by hand
        near = paddle.floor(level)
        frac = level - near
        odd = paddle.remainder(near, paddle.to_tensor(2.0))
        level = near + paddle.where(frac == 0.5, odd, (frac > 0.5).astype(near.dtype))
        ctx.save_for_backward(scaled, level)
        ctx.bounds = (low, high)
        return level * step

    @staticmethod
    def backward(ctx, grad):
        scaled, level = ctx.saved_tensor()
        low, high = ctx.bounds
        inside = paddle.logical_and(scaled >= low, scaled <= high).astype(grad.dtype)
        shrink = 1.0 / math.sqrt(scaled.size * high)
        return grad * inside, (grad * (level - inside * scaled)).sum() * shrink


class QLinear(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        sd = 1.0 / math.sqrt(n_in)
        self.low, self.high = -(1 << (HP["bits"] - 1)), (1 << (HP["bits"] - 1)) - 1
        self.weight = self.create_parameter(
            [n_in, n_out], default_initializer=init.TruncatedNormal(std=sd, a=-2 * sd, b=2 * sd))
        start = 2.0 * float(self.weight.abs().mean()) / math.sqrt(self.high)
        self.step = self.create_parameter([], default_initializer=init.Constant(start))
        self.bias = self.create_parameter([n_out], is_bias=True)

    def forward(self, x):
        return F.linear(x, LSQ.apply(self.weight, self.step, self.low, self.high), self.bias)


class Mlp(nn.Layer):
    def __init__(self, n, hidden):
        super().__init__()
        self.contract, self.expand = QLinear(hidden, n), QLinear(n, hidden)

    def forward(self, x):
        act = F.gelu(self.expand(x), approximate=True)
        return self.contract(F.dropout(act, HP["drop"], training=self.training)), act


class MixBlock(nn.Layer):
    def __init__(self, tokens):
        super().__init__()
        self.channel_mlp = Mlp(HP["width"], HP["hidden"]["channel"])
        self.channel_norm = nn.LayerNorm(HP["width"])
        self.token_mlp = Mlp(tokens, HP["hidden"]["token"])
        self.token_norm = nn.LayerNorm(HP["width"])

    def forward(self, x):
        mixed, _ = self.token_mlp(paddle.transpose(self.token_norm(x), [0, 2, 1]))
        x = x + mixed.transpose([0, 2, 1])
        mixed, act = self.channel_mlp(self.channel_norm(x))
        return x + mixed, act.abs().mean()


class QuantMixer(nn.Layer):
    def __init__(self):
        super().__init__()
        side = HP["image"] // HP["patch"]
        self.out = nn.Linear(HP["width"], 2, init.Normal(0.0, 0.1), init.Constant(0.0))
        self.out_norm = nn.LayerNorm(HP["width"])
        # one linear map per patch, the same as a strided convolution
        self.stem = nn.Linear(HP["patch"] ** 2, HP["width"], init.TruncatedNormal(std=0.2, a=-0.4, b=0.4),
                              init.Constant(0.0))
        for i in range(HP["blocks"]):
            self.add_sublayer(f"mix{i}", MixBlock(side * side))

    def forward(self, image):
        x = self.stem(F.unfold(image, HP["patch"], strides=HP["patch"]).transpose([0, 2, 1]))
        activity = 0.0
        for i in range(HP["blocks"]):
            x, a = getattr(self, f"mix{i}")(x)
            activity = activity + a
        x = self.out(self.out_norm(x).mean(axis=1))
        return {"activity": activity, "vec": F.normalize(x, p=2, axis=-1)}


class Gratings(paddle.io.Dataset):
    def __init__(self, part):
        with np.load(os.path.join(BASE, "..", "data", "gratings.npz")) as z:
            self.pixels, self.degrees = z[part + "_x"], z[part + "_deg"]

    @staticmethod
    def scale(raw):
        return raw.astype("float32")[None] / np.float32(255) - np.float32(0.5)

    def __getitem__(self, i):
        return self.scale(self.pixels[i]), self.degrees[i]

    def __len__(self):
        return self.degrees.size


class AngleError(paddle.metric.Metric):
    """Gathers errors over as many batches as are put in."""

    def __init__(self):
        super().__init__()
        self.reset()

    def name(self):
        return ["mean_deg", "within_15", "worst_deg"]

    def reset(self):
        self.errors = []

    def update(self, vec, degrees):
        half = np.degrees(np.arctan2(vec[:, 1], vec[:, 0])) / 2.0
        wrapped = (half - degrees + 90.0) % 180.0 - 90.0
        self.errors.extend(np.abs(wrapped).tolist())

    def accumulate(self):
        e = np.asarray(self.errors)
        return float(e.mean()), float((e < 15.0).mean()), float(e.max())


def build_model():
    return QuantMixer()


def build_dataset(split):
    return Gratings(split)


def build_dataloader(split):
    return paddle.io.DataLoader(Gratings(split), batch_size=8, shuffle=split == "train")


def loss(outputs, labels):
    angle = labels * (math.pi / 90.0)
    target = paddle.stack([paddle.cos(angle), paddle.sin(angle)], axis=1)
    # for unit vectors this is half the squared distance
    fit = 1.0 - (outputs["vec"] * target).sum(axis=1).mean()
    return collections.OrderedDict(fit=fit, loss=fit + HP["activity"] * outputs["activity"])


def metric(outputs, labels):
    m = AngleError()
    m.update(outputs["vec"].numpy(), labels.numpy())
    return dict(zip(m.name(), m.accumulate()))


def build_optimizer(model):
    rate = paddle.optimizer.lr.PolynomialDecay(HP["lr"], decay_steps=HP["steps"], end_lr=0.0, power=HP["power"])
    heavy = [p for p in model.parameters() if p.ndim > 1]
    light = [p for p in model.parameters() if p.ndim == 1]
    steps = [p for p in model.parameters() if p.ndim == 0]
    return paddle.optimizer.Momentum(rate, momentum=0.9, parameters=[
        {"params": steps, "learning_rate": HP["step_ratio"]},
        {"params": light}, {"params": heavy, "weight_decay": HP["l2"]}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def adaptive_clip(params, share=0.1, floor=1e-2):
    for p in params:
        limit = share * max(float(p.norm()), floor)
        norm = float(p.grad.norm())
        if norm > limit:
            p.grad.set_value(p.grad * (limit / norm))


def train_step(model, optimizer, batch):
    model.train()
    image, degrees = batch
    parts = loss(model(image), degrees)
    parts["loss"].backward()
    adaptive_clip(model.parameters())
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        for layer in model.sublayers():
            if isinstance(layer, QLinear):
                layer.step.set_value(paddle.clip(layer.step, min=1e-4))
    return {name: float(v) for name, v in parts.items()}


def predict(path, model):
    model.eval()
    image = Gratings.scale(np.loadtxt(path, delimiter=","))
    with paddle.no_grad():
        vec = model(paddle.to_tensor(image[None]))["vec"].numpy()
    return {"vec": vec[0], "degrees": (np.degrees(np.arctan2(vec[:, 1], vec[:, 0])) / 2 % 180).tolist()}
