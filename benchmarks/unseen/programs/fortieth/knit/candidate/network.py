import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Normal

from .around import Around
from .climb import Climb
from .layers import ConvNorm, YarnBlock, linear
from .ops import unturn
from .yarn import KINDS

FLAT = 2  # column of the facts


class NextRowNet(nn.Layer):
    def __init__(self, channels=16, width=24, groups=4, heads=2, facts=4, spreads=(1, 2)):
        super().__init__()
        self.vectors = nn.Embedding(KINDS, channels, weight_attr=Normal(0.0, 0.25))
        self.entry = ConvNorm(channels, groups, act=F.silu)
        self.blocks = nn.LayerList([YarnBlock(channels, groups, s, facts) for s in spreads])
        self.climb = Climb(channels)
        self.around = Around(channels, heads, width)
        self.ln = nn.LayerNorm(channels)
        self.to_stitch = linear(channels, KINDS)
        self.to_change = linear(channels, 1)
        self.again = self.create_parameter([2], default_initializer=Assign([0.2, 0.5]))

    def forward(self, rows, facts):
        rows = unturn(rows, facts[:, FLAT])
        x = self.entry(paddle.transpose(self.vectors(rows), [0, 3, 1, 2]))
        for block in self.blocks:
            x = block(x, facts)
        x = self.climb(x).transpose([0, 2, 1])
        x = self.ln(self.around(x))
        one_ago, two_ago = (F.one_hot(rows[:, -i], KINDS).astype(x.dtype) for i in (1, 2))
        scores = self.to_stitch(x) + self.again[0] * one_ago + self.again[1] * two_ago
        return scores, self.to_change(x.mean(axis=1)).flatten()
