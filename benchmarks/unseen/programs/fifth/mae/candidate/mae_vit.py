import math

import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F

xavier = nn.initializer.XavierUniform
zeros = nn.initializer.Constant(0.0)


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=xavier()), bias_attr=paddle.ParamAttr(initializer=zeros))


def sincos_table(dim, side):
    """[1, 1 + side^2, dim]; first half of the channels codes the column, second half the row"""
    quarter = dim // 4
    freq = np.power(10000.0, -np.arange(quarter) / quarter)
    ys, xs = np.divmod(np.arange(side * side), side)
    phase_x, phase_y = xs[:, None] * freq, ys[:, None] * freq
    table = np.concatenate([np.sin(phase_x), np.cos(phase_x), np.sin(phase_y), np.cos(phase_y)], axis=1)
    table = np.concatenate([np.zeros((1, dim)), table], axis=0)
    return paddle.to_tensor(table[None].astype("float32"))


class EncoderLayer(nn.Layer):
    def __init__(self, width, heads, ratio=2):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.ln_a = nn.LayerNorm(width, epsilon=1e-6)
        self.ln_b = nn.LayerNorm(width, epsilon=1e-6)
        # the three maps share one Xavier fan, as in a fused projection
        bound = math.sqrt(6.0 / (width + 3 * width))
        fused = lambda: nn.Linear(width, width, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Uniform(-bound, bound)),
                                  bias_attr=paddle.ParamAttr(initializer=zeros))
        self.to_q, self.to_k, self.to_v = fused(), fused(), fused()
        self.out = linear(width, width)
        self.up = linear(width, width * ratio)
        self.down = linear(width * ratio, width)

    def attend(self, x):
        b, n, c = x.shape
        split = lambda t: t.reshape([b, n, self.heads, self.head_dim])
        q, k, v = split(self.to_q(x)), split(self.to_k(x)), split(self.to_v(x))
        score = paddle.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(self.head_dim)
        mix = paddle.einsum("bhnm,bmhd->bnhd", F.softmax(score, axis=-1), v)
        return self.out(mix.reshape([b, n, c]))

    def forward(self, x):
        x = x + self.attend(self.ln_a(x))
        return x + self.down(F.gelu(self.up(self.ln_b(x)), approximate=False))


def to_patches(imgs, p):
    n, c, h, w = imgs.shape
    cells = imgs.reshape([n, c, h // p, p, w // p, p]).transpose([0, 2, 4, 3, 5, 1])
    return cells.reshape([n, (h // p) * (w // p), p * p * c])


def pick(x, ids):
    return paddle.take_along_axis(x, ids.unsqueeze(-1).expand([-1, -1, x.shape[-1]]), axis=1)


class MAE(nn.Layer):
    def __init__(self, side=16, patch=4, width=32, layers=2, heads=4, dec_width=24, dec_layers=1, dec_heads=3, ratio=0.75):
        super().__init__()
        self.patch, self.tokens = patch, (side // patch) ** 2
        self.visible = int(self.tokens * (1 - ratio))
        normal = nn.initializer.Normal(0.0, 0.02)
        self.embed = linear(patch * patch * 3, width)
        self.cls = self.create_parameter([1, 1, width], default_initializer=normal)
        self.encoder = nn.LayerList([EncoderLayer(width, heads) for _ in range(layers)])
        self.ln_enc = nn.LayerNorm(width, epsilon=1e-6)
        self.bridge = linear(width, dec_width)
        self.hole = self.create_parameter([1, 1, dec_width], default_initializer=normal)
        self.decoder = nn.LayerList([EncoderLayer(dec_width, dec_heads) for _ in range(dec_layers)])
        self.ln_dec = nn.LayerNorm(dec_width, epsilon=1e-6)
        self.pixels = linear(dec_width, patch * patch * 3)
        self.register_buffer("pos_enc", sincos_table(width, side // patch))
        self.register_buffer("pos_dec", sincos_table(dec_width, side // patch))
        self.register_buffer("fixed_rank", (paddle.arange(self.tokens) * 7 + 3) % self.tokens)

    def ranks(self, batch):
        if self.training:
            order = paddle.argsort(paddle.rand([batch, self.tokens]), axis=1)
        else:
            order = paddle.argsort(self.fixed_rank.unsqueeze(0).expand([batch, -1]), axis=1)
        return order, paddle.argsort(order, axis=1)

    def forward(self, imgs):
        b = imgs.shape[0]
        x = self.embed(to_patches(imgs, self.patch))
        x = x + self.pos_enc[:, 1:].astype(x.dtype)
        order, inverse = self.ranks(b)
        x = pick(x, order[:, :self.visible])
        mask = (inverse >= self.visible).astype(x.dtype)
        first = (self.cls + self.pos_enc[:, :1].astype(x.dtype)).expand([b, -1, -1])
        x = paddle.concat([first, x], axis=1)
        for layer in self.encoder:
            x = layer(x)
        latent = self.ln_enc(x)

        y = self.bridge(latent)
        holes = self.hole.expand([b, self.tokens - self.visible, -1])
        body = pick(paddle.concat([y[:, 1:], holes], axis=1), inverse)
        y = paddle.concat([y[:, :1], body], axis=1) + self.pos_dec.astype(y.dtype)
        for layer in self.decoder:
            y = layer(y)
        pred = self.pixels(self.ln_dec(y))[:, 1:]
        return {"pred": pred, "mask": mask, "cls": latent[:, 0]}
