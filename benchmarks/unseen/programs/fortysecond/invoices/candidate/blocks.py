"""Embedding and encoder of a page."""
import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn.initializer import Constant, Normal

from .catalogue import SETTINGS, offers

NET = SETTINGS["net"]
GRID = SETTINGS["page"]["grid"]


def drawn():
    return ParamAttr(initializer=Normal(0.0, NET["spread"]))


def affine(n_in, n_out, bias=True):
    return nn.Linear(n_in, n_out, weight_attr=drawn(), bias_attr=ParamAttr(initializer=Constant(0.0)) if bias else False)


def lookup(rows, columns, **more):
    return nn.Embedding(rows, columns, weight_attr=drawn(), **more)


def even(dim):
    return nn.LayerNorm(dim, epsilon=NET["epsilon"])


@offers("embedder", "page")
class PageEmbedding(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.text = lookup(SETTINGS["page"]["vocabulary"], dim, padding_idx=0)
        self.style = affine(5, dim, bias=False)
        self.column, self.row = lookup(GRID, dim), lookup(GRID, dim)
        self.breadth, self.height = lookup(GRID, dim), lookup(GRID, dim)
        self.even = even(dim)

    def forward(self, grams, looks, boxes):
        real = (grams != 0).astype(looks.dtype)
        word = paddle.einsum("bng,bngd->bnd", real, self.text(grams))
        word = word / paddle.clip(real.sum(axis=-1, keepdim=True), min=1.0)
        corners, others = boxes[:, :, :2], boxes[:, :, 2:]
        size = paddle.clip(others - corners, 0, GRID - 1)
        where = self.column(boxes[:, :, 0::2]).sum(axis=2) + self.row(boxes[:, :, 1::2]).sum(axis=2)
        extent = self.breadth(size[:, :, 0]) + self.height(size[:, :, 1])
        return self.even(word + self.style(looks) + where + extent)


def distance_class(d, near, steps):
    """Small distances are classes of their own, far ones share; positive ones come second."""
    n = paddle.abs(d)
    far = sum((n >= s).astype("int64") for s in steps)
    behind = (d > 0).astype("int64") * (near + len(steps) + 1)
    return paddle.clip(n, max=near) + far + behind


class Block(nn.Layer):
    def __init__(self, dim, heads, inner, dropout):
        super().__init__()
        self.heads = heads
        self.before_mixing, self.before_thinking = even(dim), even(dim)
        self.project = affine(dim, 3 * dim)
        self.merge = affine(dim, dim)
        self.widen = affine(dim, 2 * inner)
        self.shrink = affine(inner, dim)
        self.leave_out = nn.Dropout(dropout)

    def mix(self, x, bias):
        b, n, dim = x.shape
        asked, given, told = [t.reshape([b, n, self.heads, -1]) for t in paddle.split(self.project(x), 3, axis=-1)]
        scale = (dim // self.heads) ** -0.5
        agreement = paddle.einsum("bihc,bjhc->bhij", asked * scale, given) + bias
        heard = paddle.einsum("bhij,bjhc->bihc", F.softmax(agreement, axis=-1), told)
        return self.merge(heard.reshape([b, n, dim]))

    def think(self, x):
        value, gate = paddle.split(self.widen(x), 2, axis=-1)
        return self.shrink(F.gelu(gate) * value)

    def forward(self, x, bias):
        x = x + self.leave_out(self.mix(self.before_mixing(x), bias))
        return x + self.leave_out(self.think(self.before_thinking(x)))


@offers("encoder", "spatial")
class SpatialEncoder(nn.Layer):
    def __init__(self, dim, heads, blocks, inner, dropout, near, steps):
        super().__init__()
        self.near, self.steps = near, steps
        classes = 2 * (near + len(steps) + 1)
        self.sideways = lookup(classes, heads)
        self.downwards = lookup(classes, heads)
        self.blocks = nn.LayerList([Block(dim, heads, inner, dropout) for _ in range(blocks)])
        self.even = even(dim)

    def pull(self, boxes, present):
        """What the places of two words add to their attention: (batch, heads, asking, asked)."""
        middle = paddle.floor_divide(boxes[:, :, :2] + boxes[:, :, 2:], paddle.full([1], 2, dtype="int64"))
        apart = middle[:, None, :, :] - middle[:, :, None, :]
        group = distance_class(apart, self.near, self.steps)
        bias = (self.sideways(group[..., 0]) + self.downwards(group[..., 1])).transpose([0, 3, 1, 2])
        closed = (present == 0)[:, None, None, :].expand_as(bias)
        return paddle.where(closed, paddle.full_like(bias, -1e9), bias)

    def forward(self, x, boxes, present):
        bias = self.pull(boxes, present)
        for block in self.blocks:
            x = block(x, bias)
        return self.even(x)
