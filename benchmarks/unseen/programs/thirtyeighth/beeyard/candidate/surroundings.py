"""Looks at the surroundings at several sizes and mixes them by contrast."""
import paddle
import paddle.nn.functional as F
from paddle import nn

from .starts import conv_starts


class Surroundings(nn.Layer):
    grids = (1, 2, 4)

    def __init__(self, channels):
        super().__init__()
        starts = conv_starts(channels)
        self.views = nn.LayerList([
            nn.Conv2D(channels, channels, 1, weight_attr=starts["weight_attr"], bias_attr=False) for _ in self.grids
        ])
        self.contrast = nn.Conv2D(channels, channels, 1, **starts)
        self.fuse = nn.Conv2D(2 * channels, channels, 1, **conv_starts(2 * channels))

    def wide_views(self, x):
        for grid, view in zip(self.grids, self.views):
            coarse = view(F.adaptive_avg_pool2d(x, grid))
            yield F.interpolate(coarse, size=x.shape[2:], mode="bilinear", align_corners=False)

    def forward(self, x):
        views = paddle.stack(list(self.wide_views(x)))
        weights = paddle.stack([F.sigmoid(self.contrast(view - x)) for view in views])
        mixed = (weights * views).sum(axis=0) / (weights.sum(axis=0) + 1e-6)
        return F.relu(self.fuse(paddle.concat([x, mixed], axis=1)))
