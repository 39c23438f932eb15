import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I


class RelConv(nn.Layer):
    """Messages along typed edges, with matrices composed of common bases."""

    def __init__(self, width, kinds, bases, p):
        super().__init__()
        bound = math.sqrt(2.0) * math.sqrt(6.0 / (width + width))
        self.basis = self.create_parameter([bases, width, width], default_initializer=I.Uniform(-bound, bound))
        self.mixture = self.create_parameter([kinds, bases], default_initializer=I.XavierNormal())
        k = 1.0 / math.sqrt(width)
        self.self_loop = nn.Linear(width, width, bias_attr=False,
                                   weight_attr=paddle.ParamAttr(initializer=I.Uniform(-k, k)))
        self.offset = self.create_parameter([width], is_bias=True, default_initializer=I.Constant(0.0))
        self.drop = nn.Dropout(p)

    def forward(self, x, src, kind, dst, norm):
        # [bases, nodes, width]: every node under every basis
        under = paddle.matmul(x.unsqueeze(0), self.basis)
        picked = paddle.index_select(under, src, axis=1)
        message = paddle.einsum("ebw,eb->ew", picked.transpose([1, 0, 2]), paddle.index_select(self.mixture, kind))
        message = self.drop(message * norm.unsqueeze(1))
        gathered = paddle.scatter_nd_add(paddle.zeros_like(x), dst.unsqueeze(1), message)
        return gathered + self.self_loop(x) + self.offset


class LinkPredictor(nn.Layer):
    def __init__(self, vocab, d=24, bases=4, margin=6.0, slack=2.0, p=0.1):
        super().__init__()
        kinds = 2 * vocab.R
        self.margin, self.reach = margin, (margin + slack) / d
        uniform = I.Uniform(-self.reach, self.reach)
        self.ent = self.create_parameter([vocab.E, 2 * d], default_initializer=uniform)
        self.rot = self.create_parameter([kinds, d], default_initializer=uniform)
        self.gain = self.create_parameter([kinds, d], default_initializer=I.Constant(1.0))
        self.first = RelConv(2 * d, kinds, bases, p)
        self.second = RelConv(2 * d, kinds, bases, p)
        self.gn = nn.GroupNorm(num_groups=2, num_channels=2 * d, epsilon=1e-3)
        self.blend = self.create_parameter([1], default_initializer=I.Constant(-1.0))
        src, kind, dst, norm = vocab.edge_list()
        self.register_buffer("e_src", paddle.to_tensor(src, dtype="int64"))
        self.register_buffer("e_kind", paddle.to_tensor(kind, dtype="int64"))
        self.register_buffer("e_dst", paddle.to_tensor(dst, dtype="int64"))
        self.register_buffer("e_norm", paddle.to_tensor(norm))

    def nodes(self):
        graph = (self.e_src, self.e_kind, self.e_dst, self.e_norm)
        hidden = F.leaky_relu(self.gn(self.first(self.ent, *graph)))
        return self.ent + 0.3 * F.tanh(self.second(hidden, *graph))

    def forward(self, head, rel, tails):
        z = self.nodes()
        z = paddle.stack(paddle.split(z, 2, axis=-1), axis=1)                  # [E, (re, im), d]
        h = paddle.index_select(z, head)
        t = paddle.index_select(z, tails.flatten()).reshape([*tails.shape, *z.shape[1:]])
        theta = paddle.index_select(self.rot, rel) * (math.pi / self.reach)
        c, s = paddle.cos(theta), paddle.sin(theta)
        turned = paddle.stack([h[:, 0] * c - h[:, 1] * s, h[:, 1] * c + h[:, 0] * s], axis=1).unsqueeze(1)
        gap = (turned - t).square().sum(axis=2)
        far = paddle.sqrt(gap + 1e-9).sum(axis=-1)
        g = paddle.index_select(self.gain, rel).unsqueeze(1)
        alike = ((turned * t).sum(axis=2) * g).sum(axis=-1)
        return self.margin - far + F.sigmoid(self.blend) * alike
