"""What comes out: moves, result, length of the game."""
import paddle
from paddle import nn
from paddle.nn import functional as F

from .starts import linear
from .tower import conv_bn

CAP = 6.0


class MoveScores(nn.Layer):
    def __init__(self, width, inner=16):
        super().__init__()
        self.goes_to = linear(width, inner)
        self.comes_from = linear(width, inner)
        self.becomes = linear(inner, 4, bias_attr=False)
        self.inner = inner

    def forward(self, squares, moves, legal):
        start, end, piece = moves[..., 0], moves[..., 1], moves[..., 2]
        source = paddle.take_along_axis(self.comes_from(squares), start.unsqueeze(-1), axis=1)
        goal = paddle.take_along_axis(self.goes_to(squares), end.unsqueeze(-1), axis=1)
        plain = paddle.sum(source * goal, axis=-1) / self.inner**0.5
        kind = F.one_hot(piece, 5)[..., 1:].astype(plain.dtype)
        score = plain + paddle.sum(self.becomes(goal) * kind, axis=-1)
        score = CAP * paddle.tanh(score / CAP)
        nothing = paddle.zeros_like(score)
        highest = paddle.max(paddle.where(legal, score, nothing - 1e4), axis=-1, keepdim=True)
        exponent = paddle.where(legal, paddle.exp(score - highest), nothing)
        log_p = score - highest - paddle.log(exponent.sum(axis=-1, keepdim=True))
        return paddle.where(legal, log_p, nothing)


class Result(nn.Layer):
    def __init__(self, width, planes=4, inner=32):
        super().__init__()
        self.narrow = conv_bn(width, planes, 1)
        self.hidden = linear(planes * 64, inner)
        self.outcome = linear(inner, 3)
        self.length = linear(inner, 1)

    def forward(self, board):
        h = F.mish(self.narrow(board)).reshape([board.shape[0], -1])
        h = F.mish(self.hidden(h))
        return self.outcome(h), F.softplus(self.length(h))[:, 0]
