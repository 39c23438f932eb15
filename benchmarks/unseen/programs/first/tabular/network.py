from dataclasses import dataclass
from math import pi

import paddle
from paddle import nn
from paddle.nn import functional as F


@dataclass
class Config:
    numeric: int = 9
    classes: int = 2
    width: int = 24
    depth: int = 2
    freqs: int = 6
    embed: int = 8
    dropout: float = 0.1


class Periodic(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        n, k, d = cfg.numeric, cfg.freqs, cfg.embed
        normal = nn.initializer.Normal
        self.freq = self.create_parameter([n, k], default_initializer=normal(0.0, 0.3))
        self.proj = self.create_parameter([n, 2 * k, d], default_initializer=normal(0.0, (2 * k) ** -0.5))
        self.shift = self.create_parameter([n, d], is_bias=True)

    def forward(self, x):
        angle = paddle.einsum("bn,nk->bnk", x, self.freq) * (2 * pi)
        waves = paddle.concat([angle.sin(), angle.cos()], axis=-1)
        out = paddle.einsum("bnk,nkd->bnd", waves, self.proj) + self.shift
        return F.relu(out)


def residual(cfg):
    return nn.Sequential(
        nn.BatchNorm1D(cfg.width, momentum=0.9),
        nn.Linear(cfg.width, 2 * cfg.width),
        nn.Silu(),
        nn.Linear(2 * cfg.width, cfg.width),
        nn.Dropout(cfg.dropout),
    )


class DeepWide(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.linear_part = nn.Linear(cfg.numeric, 1, bias_attr=False)
        self.periodic = Periodic(cfg)
        self.sex = nn.Embedding(cfg.classes, 4)
        self.enter = nn.Linear(cfg.numeric * cfg.embed + 4, cfg.width)
        self.trunk = nn.LayerList([residual(cfg) for _ in range(cfg.depth)])
        self.out = nn.Sequential(nn.LayerNorm(cfg.width), nn.LeakyReLU(0.01), nn.Linear(cfg.width, 1))

    def forward(self, x, sex):
        parts = [paddle.flatten(self.periodic(x), start_axis=1), self.sex(sex)]
        h = self.enter(paddle.concat(parts, axis=-1))
        for block in self.trunk:
            h = h + block(h)
        y = self.out(h) + self.linear_part(x)
        return y[:, 0]
