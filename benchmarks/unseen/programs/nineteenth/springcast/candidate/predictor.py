import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as init

from .blocks import HistoryReader, PairAttention, like_torch, linear
from .tracks import HORIZON


class ManyFutures(nn.Layer):
    def __init__(self, width=40, depth=2, futures=4, floor=0.02):
        super().__init__()
        self.floor = floor
        self.reader = HistoryReader(width)
        self.social = nn.LayerList([PairAttention(width) for _ in range(depth)])
        self.anchors = self.create_parameter([futures, width], default_initializer=init.TruncatedNormal(0.0, 0.5, a=-2.0, b=2.0))
        self.widen = linear(width, 2 * width)
        self.path = nn.Linear(2 * width, HORIZON * 4, weight_attr=paddle.ParamAttr(initializer=init.Normal(0.0, 0.02)), bias_attr=paddle.ParamAttr(initializer=init.Constant(0.0)))
        self.vote = linear(2 * width, 1)

    def forward(self, past, seen, kind):
        state, speed = self.reader(past, seen, kind)
        here, visible = past[:, :, -1], seen[:, :, -1]
        for block in self.social:
            state = block(state, here, speed, visible)
        z = F.elu(self.widen(state.unsqueeze(2) + self.anchors))
        path = self.path(z)
        path = path.reshape(path.shape[:3] + [HORIZON, 4])
        moves = path[..., :2] + speed.unsqueeze([2, 3])
        return {
            "mean": paddle.cumsum(moves, axis=3) + here.unsqueeze([2, 3]),
            "scale": F.softplus(path[..., 2:]) + self.floor,
            "logit": self.vote(z).squeeze(-1),
        }
