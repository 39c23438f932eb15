import paddle


class Rotary:
    """Tables of cosines and sines, one row a position."""

    def __init__(self, size, positions, base):
        step = paddle.arange(0, size, 2, dtype="float64") / size
        angle = paddle.arange(positions, dtype="float64").unsqueeze(1) * (base**-step).unsqueeze(0)
        self.cos, self.sin = paddle.cos(angle), paddle.sin(angle)

    def rows(self, begin, end, dtype):
        cos = self.cos[begin:end].astype(dtype)
        sin = self.sin[begin:end].astype(dtype)
        return cos[None, :, None, :], sin[None, :, None, :]


def rotate(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = paddle.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape)
