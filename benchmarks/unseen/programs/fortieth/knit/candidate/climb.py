import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from .layers import Ring1D


class Climb(nn.Layer):
    """A gated recurrent unit from row to row."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels
        self.both = Ring1D(2 * channels, 2 * channels)
        self.new = Ring1D(2 * channels, channels)
        with paddle.no_grad():
            self.both.bias[:channels] = -1.0

    def forward(self, x):
        state = paddle.zeros([x.shape[0], self.channels, x.shape[-1]], dtype=x.dtype)
        for row in x.unbind(axis=2):
            z, r = F.sigmoid(self.both(paddle.concat([row, state], axis=1))).chunk(2, axis=1)
            new = F.tanh(self.new(paddle.concat([row, r * state], axis=1)))
            state = state + z * (new - state)
        return state
