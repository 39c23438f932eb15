import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .build import dense
from .history import History, by_side, newest
from .mixing import HandAsks
from .suits import HandNet

RANK = 4


class Calls(nn.Layer):
    def __init__(self, dim, width):
        super().__init__()
        self.level = dense(dim, 7 * (RANK + 1))
        self.strain = dense(dim, 5 * (RANK + 1))
        self.special = dense(dim, 3)
        self.fit = dense(width, 1, bias=False)
        self.notrump = self.create_parameter([1], default_initializer=I.Constant(0.0))

    def forward(self, h, suits):
        level = self.level(h).reshape([-1, 7, RANK + 1])
        strain = self.strain(h).reshape([-1, 5, RANK + 1])
        fit = self.fit(suits).squeeze(-1)[:, ::-1]
        fit = paddle.concat([fit, self.notrump.expand([fit.shape[0], 1])], axis=1)
        own = level[:, :, :1] + (strain[:, :, 0] + fit).unsqueeze(1)
        bids = own + paddle.matmul(level[:, :, 1:], strain[:, :, 1:], transpose_y=True)
        return paddle.concat([bids.flatten(1), self.special(h)], axis=1)


class Tricks(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.score = dense(dim, 1)
        self.first = self.create_parameter([1], default_initializer=I.Constant(-4.0))
        self.gaps = self.create_parameter([12], default_initializer=I.Constant(0.1))

    def forward(self, h):
        cuts = paddle.cumsum(paddle.concat([self.first, F.softplus(self.gaps)]))
        return self.score(h) - cuts


class BidNet(nn.Layer):
    def __init__(self, dim=32, width=24, heads=4, hidden=48, depth=2, drop=0.1):
        super().__init__()
        self.hand = HandNet(width, dim)
        self.auction = History(dim, heads, hidden, depth)
        self.ask = HandAsks(dim, heads)
        self.fuse = dense(5 * dim, 2 * dim)
        self.drop = nn.Dropout(drop)
        self.call = Calls(2 * dim, width)
        self.tricks = Tricks(2 * dim)

    def forward(self, suits, calls, seats, vul, legal):
        each, hand = self.hand(suits)
        tokens, empty = self.auction(calls, seats, vul)
        views = [hand, self.ask(hand, tokens, empty), *by_side(tokens, calls, seats), newest(tokens, empty)]
        h = self.drop(F.gelu(self.fuse(paddle.concat(views, axis=-1))))
        logits = self.call(h, each)
        logp = F.log_softmax(paddle.where(legal, logits, paddle.full_like(logits, -1e9)), axis=-1)
        return {"logp": paddle.where(legal, logp, paddle.zeros_like(logp)), "tricks": self.tricks(h)}
