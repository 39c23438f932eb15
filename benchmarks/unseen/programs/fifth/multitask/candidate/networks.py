import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingUniform, Normal, Uniform, XavierNormal

from settings import make, plugin


def attrs(weight):
    return dict(weight_attr=paddle.ParamAttr(initializer=weight), bias_attr=paddle.ParamAttr(initializer=Constant(0.0)))


def dense(n_in, n_out):
    return nn.Linear(n_in, n_out, **attrs(XavierNormal()))


class TokenNorm(nn.Layer):
    """batch norm over the real tokens of [N, T, C]"""

    def __init__(self, width, keep=0.9, eps=1e-5):
        super().__init__()
        self.keep, self.eps = keep, eps
        self.gain = self.create_parameter([width], default_initializer=Constant(1.0))
        self.offset = self.create_parameter([width], default_initializer=Constant(0.0))
        self.register_buffer("running_mean", paddle.zeros([width]))
        self.register_buffer("running_var", paddle.ones([width]))

    def forward(self, x, real):
        if not self.training:
            mu, var = self.running_mean, self.running_var
        else:
            count = real.sum()
            mu = (x * real).sum(axis=[0, 1]) / count
            var = (x.subtract(mu).square() * real).sum(axis=[0, 1]) / count
            with paddle.no_grad():
                sample_var = var * (count / (count - 1.0))
                self.running_mean.set_value(self.keep * self.running_mean + (1.0 - self.keep) * mu)
                self.running_var.set_value(self.keep * self.running_var + (1.0 - self.keep) * sample_var)
        return ((x - mu) * paddle.rsqrt(var + self.eps) * self.gain + self.offset) * real


@plugin("text_cnn")
class TextCNN(nn.Layer):
    def __init__(self, vocabulary, width, kernels, numeric, dropout):
        super().__init__()
        self.lookup = nn.Embedding(vocabulary, width, padding_idx=None,
                                   weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 1.0 / math.sqrt(width))))
        self.filters, self.norms = nn.LayerList(), nn.LayerList()
        for k in kernels:
            bound = math.sqrt(6.0 / (width * k))
            self.filters.append(nn.Conv1D(width, width, k, padding=k // 2, data_format="NLC", **attrs(Uniform(-bound, bound))))
            self.norms.append(TokenNorm(width))
        self.leak = self.create_parameter([width], default_initializer=Constant(0.25))
        self.numbers = nn.Linear(numeric, width, **attrs(Uniform(-math.sqrt(6.0 / numeric), math.sqrt(6.0 / numeric))))
        self.p_drop = dropout
        self.out_width = 3 * width

    def forward(self, tokens, numeric):
        real = (tokens != 0).astype(numeric.dtype).unsqueeze(-1)
        x = self.lookup(tokens) * real
        for conv, norm in zip(self.filters, self.norms):
            h = norm(conv(x), real)
            x = x + F.relu(h) - self.leak * F.relu(-h)
        mean = (x * real).sum(axis=1) / real.sum(axis=1).clip(min=1.0)
        best = (x + (real - 1.0) * 1e9).max(axis=1)
        joint = paddle.concat([mean, best, F.tanh(self.numbers(numeric))], axis=1)
        return F.dropout(joint, self.p_drop, training=self.training)


class Tasks(nn.Layer):
    def __init__(self, options):
        super().__init__()
        self.encoder = make(options["encoder"])
        wide = self.encoder.out_width
        self.click_a, self.click_b = dense(wide, 12), dense(12, 1)
        self.tags_a, self.tags_b = dense(wide, 16), dense(16, 5)
        self.dwell_a, self.dwell_b = dense(wide, 8), dense(4, 1)
        self.spread = self.create_parameter([3], default_initializer=Constant(0.0))

    def forward(self, tokens, dense):
        z = self.encoder(tokens, dense)
        click = self.click_b(F.hardswish(self.click_a(z))).squeeze(-1)
        tags = self.tags_b(F.hardswish(self.tags_a(z)))
        value, gate = paddle.chunk(self.dwell_a(z), 2, axis=-1)
        dwell = F.softplus(self.dwell_b(value * F.sigmoid(gate)), beta=2.0).squeeze(-1)
        return {"click": click, "tags": tags, "dwell": dwell, "log_vars": self.spread}
