"""The network: tokens of a loan, its weeks, and the odds of each end in each week."""
import numpy as np
import paddle
from paddle import nn
from paddle.nn.initializer import Assign, Normal, Uniform

from .desk import HORIZON
from .factory import NETWORK, floats, make
from .layers import WIDTH, Look, LookBack, Ponder, dense, usual


class EndCurves(nn.Layer):
    def __init__(self):
        super().__init__()
        prior = np.array(floats(NETWORK["prior"]))
        middle = np.linspace(0, HORIZON - 1, NETWORK.getint("knots"))
        bumps = np.exp(-((np.arange(HORIZON)[:, None] - middle) / NETWORK.getfloat("spread")) ** 2 / 2)
        bumps = bumps / bumps.sum(axis=1, keepdims=True)
        self.ends, self.cap = len(prior), NETWORK.getfloat("cap")
        self.register_buffer("bumps", paddle.to_tensor(bumps.astype("float32")))
        self.knots = dense(WIDTH, len(middle) * self.ends, Normal(0.0, 0.2))
        self.by_week = dense(WIDTH, self.ends, usual(WIDTH), None)
        start = np.log(prior / (1 - prior.sum())).astype("float32")
        self.start = self.create_parameter([self.ends], default_initializer=Assign(start))

    def forward(self, static, hidden):
        heights = self.knots(static).reshape([0, self.bumps.shape[1], self.ends])
        curve = paddle.einsum("wk,bke->bwe", self.bumps, heights)
        return paddle.tanh((curve + self.by_week(hidden) + self.start) / self.cap) * self.cap


class ComesBack(nn.Layer):
    def __init__(self):
        super().__init__()
        self.lead = self.create_parameter([WIDTH], default_initializer=Uniform(-0.25, 0.25))
        self.inputs = nn.LayerList([make(name) for name in NETWORK["inputs"].split()])
        self.stages = nn.LayerList()
        for _ in range(NETWORK.getint("depth")):
            self.stages.extend([Look(), Ponder()])
        self.even = nn.LayerNorm(WIDTH)
        self.weeks = LookBack()
        self.curves = EndCurves()

    def forward(self, numbers, codes, words, weekly):
        lead = paddle.expand(self.lead, [numbers.shape[0], 1, WIDTH])
        x = paddle.concat([lead, *(read(numbers, codes, words) for read in self.inputs)], axis=1)
        for stage in self.stages:
            x = stage(x)
        static = self.even(x[:, 0])
        return self.curves(static, self.weeks(weekly, static))
