import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from .attention import RelativeAttention, relative_positions
from .start import start_like_reference


class Subsample(nn.Layer):
    """A quarter of the frames."""

    def __init__(self, c):
        super().__init__()
        self.first = nn.Conv2D(1, c.channels, 3, stride=2)
        self.second = nn.Conv2D(c.channels, c.channels, 3, stride=2)
        self.project = nn.Linear(c.channels * (((c.mels - 1) // 2 - 1) // 2), c.dim)

    def forward(self, x, lengths):
        x = F.relu(self.first(x.unsqueeze(1)))
        x = F.relu(self.second(x))
        x = self.project(x.transpose([0, 2, 1, 3]).flatten(2))
        return x, ((lengths - 1) // 2 - 1) // 2


class FeedForward(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c.dim, epsilon=c.norm_eps)
        self.up = nn.Linear(c.dim, c.feed)
        self.down = nn.Linear(c.feed, c.dim)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x):
        return self.dropout(self.down(self.dropout(F.silu(self.up(self.norm(x))))))


class Convolution(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c.dim, epsilon=c.norm_eps)
        self.gate = nn.Conv1D(c.dim, 2 * c.dim, 1)
        self.depthwise = nn.Conv1D(c.dim, c.dim, c.kernel, padding=(c.kernel - 1) // 2, groups=c.dim)
        self.batch = nn.BatchNorm1D(c.dim, momentum=1 - c.batch_momentum)
        self.point = nn.Conv1D(c.dim, c.dim, 1)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, keep):
        x = F.glu(self.gate(self.norm(x).transpose([0, 2, 1])), axis=1)
        x = x * keep.unsqueeze(1).astype(x.dtype)
        x = self.point(F.silu(self.batch(self.depthwise(x))))
        return self.dropout(x.transpose([0, 2, 1]))


class Block(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.half = c.macaron
        self.before = FeedForward(c)
        self.norm = nn.LayerNorm(c.dim, epsilon=c.norm_eps)
        self.attention = RelativeAttention(c.dim, c.heads, c.dropout)
        self.convolution = Convolution(c)
        self.after = FeedForward(c)
        self.last = nn.LayerNorm(c.dim, epsilon=c.norm_eps)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, positions, keep):
        x = x + self.half * self.before(x)
        x = x + self.dropout(self.attention(self.norm(x), positions, keep))
        x = x + self.convolution(x, keep)
        x = x + self.half * self.after(x)
        return self.last(x)


class Conformer(nn.Layer):
    """Gulati et al. 2020, with a class for every fourth frame."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.subsample = Subsample(c)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.LayerList([Block(c) for _ in range(c.layers)])
        self.classify = nn.Linear(c.dim, c.classes)
        start_like_reference(self)

    def forward(self, feats, lengths):
        x, lengths = self.subsample(feats, lengths)
        keep = paddle.arange(x.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
        positions = self.dropout(relative_positions(x.shape[1], self.config.dim, x.dtype))
        x = self.dropout(x * math.sqrt(self.config.dim))
        for block in self.blocks:
            x = block(x, positions, keep)
        return self.classify(x), lengths
