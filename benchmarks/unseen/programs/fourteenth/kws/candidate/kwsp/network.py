import math

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional as F
from paddle.nn import initializer as I


class Norm(nn.BatchNorm1D):
    # running variance keeps the n - 1 convention of the original checkpoints
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        old = self._variance * self._momentum
        y = super().forward(x)
        n = x.shape[0] * x.shape[2]
        with paddle.no_grad():
            self._variance.set_value(old + (self._variance - old) * (n / (n - 1)))
        return y


def uniform_linear(cin, cout):
    bound = 1.0 / math.sqrt(cin)
    law = lambda: ParamAttr(initializer=I.Uniform(-bound, bound))
    return nn.Linear(cin, cout, weight_attr=law(), bias_attr=law())


def conv(cin, cout, size, stride=1, dilation=1, groups=1):
    std = math.sqrt(2.0 / (cout * size))
    return nn.Conv1D(cin, cout, size, stride=stride, padding=dilation * (size - 1) // 2,
                     dilation=dilation, groups=groups, bias_attr=False,
                     weight_attr=ParamAttr(initializer=I.Normal(0.0, std)))


def hard_gate(x):
    return paddle.clip(x / 6.0 + 0.5, 0.0, 1.0)


class Unit(nn.Layer):
    def __init__(self, cin, cout, stride, dilation, squeeze):
        super().__init__()
        self.stride = stride
        self.dw = conv(cin, cin, 5, stride, dilation, groups=cin)
        self.dw_bn = Norm(cin)
        self.pw = conv(cin, cout, 1)
        self.pw_bn = Norm(cout)
        self.mid = conv(cout, cout, 3)
        self.mid_bn = Norm(cout)
        self.down = uniform_linear(cout, cout // squeeze)
        self.up = uniform_linear(cout // squeeze, cout)
        self.project = stride != 1 or cin != cout
        if self.project:
            self.skip = conv(cin, cout, 1)
            self.skip_bn = Norm(cout)

    def _skip(self, x):
        if not self.project:
            return x
        if self.stride != 1:
            x = F.avg_pool1d(x, 3, stride=self.stride, padding=1, exclusive=False)
        return self.skip_bn(self.skip(x))

    def _gate(self, y):
        pooled = paddle.mean(y, axis=-1)
        gate = hard_gate(self.up(F.relu(self.down(pooled))))
        return y * paddle.unsqueeze(gate, 2)

    def forward(self, x):
        y = self.dw_bn(self.dw(x))
        y = F.silu(self.pw_bn(self.pw(y)))
        y = self._gate(self.mid_bn(self.mid(y)))
        return F.relu(self._skip(x) + y)


class Spotter(nn.Layer):
    def __init__(self, bands, classes, stages, squeeze, dropout):
        super().__init__()
        width = stages[0][0]
        self.first = conv(bands, width, 5)
        self.first_bn = Norm(width)
        self.units = nn.LayerList()
        for n, (out, depth) in enumerate(stages):
            for k in range(depth):
                reduces = n > 0 and k == 0
                self.units.append(Unit(width, out, 2 if reduces else 1, 1 if reduces else 2 ** k, squeeze))
                width = out
        self.drop = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * width, classes,
                                    weight_attr=ParamAttr(initializer=I.Normal(0.0, 0.05)),
                                    bias_attr=ParamAttr(initializer=I.Constant(0.0)))

    def embed(self, x):
        h = F.relu(self.first_bn(self.first(x)))
        for unit in self.units:
            h = unit(h)
        mu = h.mean(axis=2)
        sd = (h.var(axis=2, unbiased=False) + 1e-5).sqrt()
        return paddle.concat([mu, sd], axis=1)

    def forward(self, x):
        return self.classifier(self.drop(self.embed(x)))


def from_settings(cfg, bands, classes):
    return Spotter(bands, classes, cfg.stages, cfg.squeeze, cfg.dropout)
