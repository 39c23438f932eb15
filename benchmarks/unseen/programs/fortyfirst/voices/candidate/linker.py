"""Which note does a note follow? Column 0 stands for none."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from . import geometry
from .basics import linear
from .mixing import Stage
from .note_vectors import NoteVectors


class Follow(nn.Layer):
    def __init__(self, width, rank):
        super().__init__()
        self.left, self.right = linear(width, rank), linear(width, rank)
        self.core = self.create_parameter([rank, rank], default_initializer=I.Orthogonal())
        self.first, self.last = linear(4, 12), linear(12, 1, bias=False)
        self.none = linear(width, 1, bias_value=-1.0)

    def forward(self, x, pairs, allowed):
        by_content = paddle.einsum("bir,rs,bjs->bij", self.left(x), self.core, self.right(x)) / self.core.shape[0] ** 0.5
        by_shape = self.last(F.elu(self.first(pairs)))[..., 0]
        score = by_content + by_shape
        number = paddle.clip(allowed.sum(axis=-1), min=1.0)
        level = ((score * allowed).sum(axis=-1) / number).detach()
        none = self.none(x)[..., 0] + level
        score = paddle.concat([none[..., None], score], axis=-1)
        free = F.pad(allowed, [1, 0], value=1.0, data_format="NCL")
        closed = free < 0.5
        score = paddle.where(closed, paddle.full_like(score, -1e30), score)
        logp = score - paddle.logsumexp(score, axis=-1, keepdim=True)
        return paddle.where(closed, paddle.zeros_like(logp), logp), free


class HymnLinker(nn.Layer):
    def __init__(self, width=32, heads=4, inner=40, rank=16, depth=2):
        super().__init__()
        self.follow = Follow(width, rank)
        self.stages = nn.LayerList([Stage(width, heads, inner) for _ in range(depth)])
        self.vectors = NoteVectors(width)

    def forward(self, cls, octave, pitch, onset, length, beat, real):
        cell, apart = geometry.steps_apart(pitch), geometry.against(onset).abs()
        together = geometry.heard_with(onset, length, real)
        x = self.vectors(cls, octave, length, beat)
        for stage in self.stages:
            x = stage(x, cell, apart, together, real)
        logp, free = self.follow(x, geometry.pair_table(pitch, onset, length), geometry.candidates(onset, length, real))
        return dict(logp=logp, open=free)
