"""Scores of spans: which words are the first and the last of a field."""
import paddle
from paddle import nn

from .blocks import affine
from .catalogue import SETTINGS, offers


def turned(x, base):
    """Channels 2i and 2i + 1 are the two axes of a plane that turns with the position."""
    b, n, c = x.shape
    pairs = x.reshape([b, n, c // 2, 2])
    speed = paddle.pow(paddle.to_tensor(base, dtype=x.dtype), -paddle.arange(0, c, 2).astype(x.dtype) / c)
    angle = paddle.outer(paddle.arange(n).astype(x.dtype), speed)
    cos, sin = paddle.cos(angle), paddle.sin(angle)
    u, v = pairs[..., 0], pairs[..., 1]
    return paddle.stack([u * cos - v * sin, v * cos + u * sin], axis=-1).reshape([b, n, c])


@offers("head", "pointer")
class Pointer(nn.Layer):
    def __init__(self, dim, size, base):
        super().__init__()
        self.size, self.base, self.n_fields = size, base, len(SETTINGS["fields"])
        self.ends = affine(dim, 2 * size)
        self.field = affine(2 * size, 2 * self.n_fields)

    def forward(self, x, present):
        b, n = x.shape[:2]
        ends = self.ends(x)
        first, last = paddle.unbind(ends.reshape([b, n, self.size, 2]), axis=-1)
        agree = paddle.matmul(turned(first, self.base), turned(last, self.base), transpose_y=True)
        lean = 0.5 * self.field(ends).reshape([b, n, self.n_fields, 2]).transpose([3, 0, 2, 1])
        scores = (agree * self.size ** -0.5)[:, None] + lean[0][:, :, :, None] + lean[1][:, :, None, :]
        order = paddle.tril(paddle.ones([n, n], dtype=x.dtype)).t()
        fine = present[:, :, None] * present[:, None, :] * order
        fine = (fine > 0)[:, None].expand_as(scores)
        return paddle.where(fine, scores, paddle.full_like(scores, -1e6))
