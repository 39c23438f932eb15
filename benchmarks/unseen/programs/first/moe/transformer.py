import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias_attr=False)


class Rotary:
    """complex rotation of neighbouring pairs"""

    def __init__(self, s):
        rate = 1.0 / s.theta ** (np.arange(0, s.head, 2) / s.head)
        self.angle = np.outer(np.arange(s.positions), rate)

    def __call__(self, x):
        # x: [batch, length, heads, head]
        angle = paddle.to_tensor(self.angle[: x.shape[1]]).astype(x.dtype)[:, None, :]
        cos, sin = angle.cos(), angle.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = paddle.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
        return turned.reshape(x.shape)


class GroupedAttention(nn.Layer):
    def __init__(self, s, rotary):
        super().__init__()
        self.s, self.rotary = s, rotary
        self.q = linear(s.width, s.heads * s.head)
        self.kv = linear(s.width, 2 * s.groups * s.head)
        self.o = linear(s.heads * s.head, s.width)

    def forward(self, x):
        s = self.s
        b, n, _ = x.shape
        q = self.rotary(self.q(x).reshape([b, n, s.heads, s.head]))
        k, v = paddle.chunk(self.kv(x), 2, axis=-1)
        k = self.rotary(k.reshape([b, n, s.groups, s.head]))
        v = v.reshape([b, n, s.groups, s.head])
        q = q.reshape([b, n, s.groups, s.heads // s.groups, s.head])
        score = paddle.einsum("bqgrd,bkgd->bgrqk", q, k) / s.head**0.5
        future = paddle.triu(paddle.ones([n, n], dtype="bool"), 1)
        score = paddle.where(future, paddle.full_like(score, -1e30), score)
        mixed = paddle.einsum("bgrqk,bkgd->bqgrd", F.softmax(score, axis=-1), v)
        return self.o(mixed.reshape([b, n, -1]))


class Experts(nn.Layer):
    """all experts in three tensors; every token visits all, those not chosen count zero"""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.router = linear(s.width, s.experts)
        for e in range(s.experts):
            setattr(self, f"e{e}", nn.LayerDict({
                "up": linear(s.width, s.inner), "gate": linear(s.width, s.inner), "down": linear(s.inner, s.width)}))

    def forward(self, x):
        s = self.s
        scores = self.router(x)
        p = F.softmax(scores, axis=-1)
        best, which = paddle.topk(p, s.active, axis=-1)
        chosen = F.one_hot(which, s.experts).astype(p.dtype)
        share = best / best.sum(axis=-1, keepdim=True)
        weight = (chosen * share.unsqueeze(-1)).sum(axis=-2)
        y = 0.0
        for e in range(s.experts):
            f = getattr(self, f"e{e}")
            out = f["down"](F.silu(f["gate"](x)) * f["up"](x))
            y = y + weight[..., e : e + 1] * out
        load = chosen.sum(axis=-2).mean(axis=[0, 1]) / s.active
        balance = s.experts * paddle.dot(load, p.mean(axis=[0, 1]))
        return y, balance, paddle.logsumexp(scores, axis=-1).square().mean()


class StochasticDepth(nn.Layer):
    def __init__(self, rate):
        super().__init__()
        self.drop_prob = rate

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1.0 - self.drop_prob
        alive = paddle.bernoulli(paddle.full([x.shape[0], 1, 1], keep, dtype=x.dtype))
        return x / keep * alive


class Block(nn.Layer):
    def __init__(self, s, rate, rotary):
        super().__init__()
        self.norms = nn.LayerList([nn.LayerNorm(s.width, epsilon=s.eps) for _ in range(2)])
        self.attention = GroupedAttention(s, rotary)
        self.experts = Experts(s)
        self.layer_scale = self.create_parameter([s.width], default_initializer=nn.initializer.Constant(0.1))
        self.skip = StochasticDepth(rate)

    def forward(self, x):
        x = x + self.skip(self.attention(self.norms[0](x)))
        y, balance, z = self.experts(self.norms[1](x))
        return x + self.skip(y * self.layer_scale), balance, z


class SparseDecoder(nn.Layer):
    def __init__(self, s):
        super().__init__()
        self.s = s
        rotary = Rotary(s)
        rates = np.linspace(0, s.drop, s.depth)
        self.tokens = nn.Embedding(s.vocabulary, s.width)
        self.layers = nn.LayerList([Block(s, float(r), rotary) for r in rates])
        self.final = nn.LayerNorm(s.width, epsilon=s.eps)
        self.output = nn.Linear(s.width, s.vocabulary)

    def forward(self, ids):
        h = self.tokens(ids) * self.s.width**0.5
        extra = []
        for layer in self.layers:
            h, balance, z = layer(h)
            extra.append((balance, z))
        balance, z = (sum(v) / len(v) for v in zip(*extra))
        return {"logits": self.output(self.final(h)), "aux": balance, "z": z}
