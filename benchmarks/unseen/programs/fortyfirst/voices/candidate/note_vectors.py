import math

import paddle
from paddle import nn

from .basics import RootMean, linear, table
from .sheets import CLASS_PAD, OCTAVE_PAD


class NoteVectors(nn.Layer):
    """Class, octave, length and place in the bar of a note."""

    def __init__(self, width):
        super().__init__()
        self.by_class = table(CLASS_PAD + 1, width, pad=CLASS_PAD)
        self.by_octave = table(OCTAVE_PAD + 1, width, std=0.5, pad=OCTAVE_PAD)
        self.by_time = linear(7, width)
        self.even = RootMean(width)

    def forward(self, cls, octave, length, beat):
        turn = beat[..., None] * paddle.to_tensor([1.0, 2.0, 4.0], dtype=beat.dtype) * (2 * math.pi)
        when = paddle.concat([paddle.sin(turn), paddle.cos(turn), paddle.log2(length)[..., None]], axis=-1)
        return self.even(self.by_class(cls) + self.by_octave(octave) + self.by_time(when))
