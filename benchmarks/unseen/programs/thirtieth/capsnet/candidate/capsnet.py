"""Capsule network for glyphs, PaddlePaddle edition.

Routing follows section 3 of "Dynamic Routing Between Capsules"; the votes are
made with one einsum and the coupling logits are kept as a plain [B, I, O] map.
"""
import dataclasses
import functools
import json
import math
import os

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I


@dataclasses.dataclass(frozen=True)
class Config:
    classes: tuple = ("square", "plus", "cross", "corner")
    primary_maps: int = 4
    primary_dim: int = 6
    digit_dim: int = 8
    routings: int = 3
    side: int = 16
    lr: float = 2e-3
    gamma: float = 0.95
    batch_size: int = 6
    recon_weight: float = 5e-4
    root: str = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


CFG = Config()


def uniform_fan(fan_in):
    """The U(-1/sqrt(fan_in), 1/sqrt(fan_in)) that the original relies on."""
    b = 1.0 / math.sqrt(fan_in)
    return paddle.ParamAttr(initializer=I.Uniform(-b, b))


def conv(cin, cout, k, stride=1):
    attr = functools.partial(uniform_fan, cin * k * k)
    return nn.Conv2D(cin, cout, k, stride=stride, weight_attr=attr(), bias_attr=attr())


def fc(cin, cout):
    return nn.Linear(cin, cout, weight_attr=uniform_fan(cin), bias_attr=uniform_fan(cin))


def squash(s, axis=-1):
    sq = paddle.sum(paddle.square(s), axis=axis, keepdim=True)
    return s * (sq / (1.0 + sq)) * paddle.rsqrt(sq + 1e-8)


class Decoder(nn.Layer):
    def __init__(self, dims):
        super().__init__()
        self.fcs = nn.LayerList([fc(a, b) for a, b in zip(dims[:-1], dims[1:])])

    def forward(self, h):
        *hidden, last = self.fcs
        for layer in hidden:
            h = F.relu(layer(h))
        return F.sigmoid(last(h))


class CapsuleNet(nn.Layer):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.cfg = cfg
        n_cls = len(cfg.classes)
        self.decoder = Decoder([n_cls * cfg.digit_dim, 48, 96, cfg.side ** 2])
        grid = (cfg.side - 4 - 5) // 2 + 1
        n_in = cfg.primary_maps * grid * grid
        self.route_weight = self.create_parameter(
            [1, n_in, n_cls, cfg.digit_dim, cfg.primary_dim],
            default_initializer=I.Normal(0.0, 0.1))
        self.route_bias = self.create_parameter([1, n_cls, cfg.digit_dim], is_bias=True)
        self.primary_conv = conv(16, cfg.primary_maps * cfg.primary_dim, 5, stride=2)
        self.conv1 = conv(1, 16, 5)

    def primary(self, x):
        u = self.primary_conv(x)
        u = u.reshape([u.shape[0], self.cfg.primary_maps, self.cfg.primary_dim, -1])
        return squash(u.transpose([0, 1, 3, 2]).flatten(1, 2))

    def routing(self, u):
        votes = paddle.einsum("iodk,bik->biod", self.route_weight[0], u)
        with paddle.no_grad():
            b = paddle.zeros(votes.shape[:3])
            for _ in range(self.cfg.routings - 1):
                v = squash(paddle.einsum("bio,biod->bod", F.softmax(b, axis=-1), votes) + self.route_bias)
                b = b + paddle.einsum("biod,bod->bio", votes, v)
            coupling = F.softmax(b, axis=-1)
        return squash(paddle.sum(coupling.unsqueeze(-1) * votes, axis=1) + self.route_bias)

    def forward(self, x):
        v = self.routing(self.primary(F.relu(self.conv1(x))))
        length = paddle.linalg.norm(v, p=2, axis=-1)
        winner = paddle.argmax(length, axis=1)
        v = v * F.one_hot(winner, v.shape[1]).unsqueeze(2)
        recon = self.decoder(v.flatten(1)).reshape([-1, 1, self.cfg.side, self.cfg.side])
        return dict(recon=recon, length=length)


class GlyphDataset(paddle.io.Dataset):
    def __init__(self, mode):
        super().__init__()
        with np.load(os.path.join(CFG.root, "glyphs.npz")) as z:
            idx = np.flatnonzero(z["is_val"] if mode == "val" else ~z["is_val"])
            self.x = z["images"][idx][:, None].astype("float32") / np.float32(255)
            self.y = z["labels"][idx].astype("int64")

    def __getitem__(self, idx):
        return self.x[idx], {"image": self.x[idx], "digit": self.y[idx]}

    def __len__(self):
        return self.y.shape[0]


build_model = CapsuleNet
build_dataset = GlyphDataset


def build_dataloader(split):
    return paddle.io.DataLoader(GlyphDataset(split), batch_size=CFG.batch_size, shuffle=(split == "train"))


def loss(outputs, labels):
    length, digit = outputs["length"], labels["digit"]
    onehot = F.one_hot(digit, length.shape[1])
    present = paddle.clip(0.9 - length, min=0.0).square()
    absent = paddle.clip(length - 0.1, min=0.0).square()
    margin = paddle.where(onehot > 0, present, 0.5 * absent).sum(axis=1).mean()
    recon = (outputs["recon"] - labels["image"]).square().sum(axis=[1, 2, 3]).mean()
    return {"margin": margin, "recon": recon, "loss": paddle.add(margin, CFG.recon_weight * recon)}


def metric(outputs, labels):
    acc = paddle.metric.accuracy(outputs["length"], labels["digit"].unsqueeze(-1))
    mae = F.l1_loss(outputs["recon"], labels["image"])
    return {"recon_mae": float(mae), "accuracy": float(acc)}


def build_optimizer(model):
    schedule = paddle.optimizer.lr.ExponentialDecay(learning_rate=CFG.lr, gamma=CFG.gamma)
    return paddle.optimizer.Adam(schedule, epsilon=1e-6, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    images, labels = batch
    terms = loss(model(images), labels)
    terms["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {name: float(t) for name, t in terms.items()}


def predict(path, model):
    model.eval()
    with open(path, encoding="utf-8") as f:
        x = np.asarray(json.load(f)["pixels"], "float32") / np.float32(255)
    with paddle.no_grad():
        out = model(paddle.to_tensor(x).unsqueeze([0, 1]))
    length = out["length"].squeeze(0).numpy()
    return {"name": CFG.classes[int(length.argmax())], "length": length, "recon": out["recon"].squeeze().numpy()}
