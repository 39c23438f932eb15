"""Layers of the hazard network."""
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform, XavierUniform

from .desk import LISTS, open_desk
from .factory import DESK, NETWORK, part, whole

WIDTH = NETWORK.getint("width")


def dense(n_in, n_out, weight, bias=Constant(0.0)):
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=weight),
                     bias_attr=False if bias is None else paddle.ParamAttr(initializer=bias))


def usual(fan_in):
    """What PyTorch fills a layer with that nobody initialises."""
    return Uniform(-fan_in ** -0.5, fan_in ** -0.5)


def conv(n_in, n_out, kernel, **more):
    return nn.Conv1D(n_in, n_out, kernel, weight_attr=usual(n_in * kernel), bias_attr=usual(n_in * kernel), **more)


@part("bins")
class Bins(nn.Layer):
    """Numbers as the shares of the bins of their quantiles that they have passed."""

    def __init__(self):
        super().__init__()
        desk, count = open_desk(), NETWORK.getint("bins")
        past = np.stack([desk.describe(row)["numbers"] for row in desk.past]).astype("float64")
        marks = np.percentile(past, np.linspace(0, 100, count + 1), axis=0)
        self.register_buffer("marks", paddle.to_tensor(marks.T.astype("float32")))
        self.table = self.create_parameter([past.shape[1], count, WIDTH], default_initializer=Normal(0.0, count ** -0.5))
        self.offset = self.create_parameter([past.shape[1], WIDTH], default_initializer=Normal(0.0, 0.1))

    def forward(self, numbers, codes, words):
        low = self.marks[:, :-1]
        wide = paddle.clip(paddle.diff(self.marks, axis=1), min=0.05)
        share = paddle.clip((numbers[:, :, None] - low) / wide, 0.0, 1.0)
        return (share.unsqueeze(-1) * self.table).sum(axis=2) + self.offset


@part("codes")
class CodeTable(nn.Layer):
    def __init__(self):
        super().__init__()
        sizes = np.array([len(one) + 1 for one in LISTS])
        self.first_row = paddle.to_tensor(np.cumsum(sizes) - sizes)
        self.rows = nn.Embedding(int(sizes.sum()), WIDTH, weight_attr=Normal(0.0, 0.3))
        self.offset = self.create_parameter([len(sizes), WIDTH], is_bias=True)

    def forward(self, numbers, codes, words):
        return self.rows(codes + self.first_row) + self.offset


@part("title")
class TitleWords(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(DESK.getint("word_rows"), WIDTH, padding_idx=0, weight_attr=Normal(0.0, 0.3))

    def forward(self, numbers, codes, words):
        real = (words != 0).astype(self.rows.weight.dtype).unsqueeze(-1)
        summed = (self.rows(words) * real).sum(axis=1, keepdim=True)
        return summed / paddle.clip(real.sum(axis=1, keepdim=True), min=1.0)


class Look(nn.Layer):
    """Attention among the tokens of a loan, each head behind a valve."""

    def __init__(self):
        super().__init__()
        self.heads = NETWORK.getint("heads")
        self.even = nn.LayerNorm(WIDTH)
        self.project = dense(WIDTH, 3 * WIDTH, XavierUniform())
        self.valve = dense(WIDTH, self.heads, Constant(0.0), Constant(1.0))
        self.close = dense(WIDTH, WIDTH, XavierUniform())

    def forward(self, x):
        each = WIDTH // self.heads
        y = self.even(x)
        ask, have, give = self.project(y).reshape([0, 0, 3, self.heads, each]).unbind(axis=2)
        liking = paddle.einsum("bihc,bjhc->bhij", ask, have) * each ** -0.5
        seen = paddle.einsum("bhij,bjhc->bihc", F.softmax(liking, axis=-1), give)
        seen = seen * F.sigmoid(self.valve(y)).unsqueeze(-1)
        return x + self.close(seen.flatten(2))


class Ponder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.even = nn.LayerNorm(WIDTH)
        self.widen = dense(WIDTH, 4 * WIDTH, XavierUniform())
        self.narrow = dense(2 * WIDTH, WIDTH, XavierUniform())

    def forward(self, x):
        value, valve = self.widen(self.even(x)).split(2, axis=-1)
        return x + self.narrow(value * F.relu(valve))


class LookBack(nn.Layer):
    """The weeks so far, by dilated convolutions; the loan turns the result up or down."""

    def __init__(self, features=6):
        super().__init__()
        size = NETWORK.getint("kernel")
        self.entry = conv(features, WIDTH, 1)
        self.steps = nn.LayerList()
        self.evens = nn.LayerList()
        for d in whole(NETWORK["dilations"]):
            self.steps.append(conv(WIDTH, 2 * WIDTH, size, dilation=d, padding=d * (size - 1)))
            self.evens.append(nn.GroupNorm(4, WIDTH))
        self.steer = dense(WIDTH, 2 * WIDTH, Normal(0.0, 0.1))

    def forward(self, weekly, static):
        weeks = weekly.shape[1]
        x = self.entry(weekly.transpose([0, 2, 1]))
        for step, even in zip(self.steps, self.evens):
            # padded on both sides: what the last outputs see of the future is cut off
            x = x + F.glu(step(even(x))[:, :, :weeks], axis=1)
        stretch, shift = self.steer(static)[:, None].split(2, axis=-1)
        return F.gelu(x.transpose([0, 2, 1]) * (stretch + 1) + shift, approximate=True)
