import paddle
import paddle.nn.functional as F


def wrap(x, d):
    """Continue the last axis round the ring by d columns on both sides."""
    return paddle.concat([x[..., -d:], x, x[..., :d]], axis=-1)


def ring_conv2d(x, weight, bias, spread=1):
    return F.conv2d(wrap(x, spread), weight, bias, padding=[1, 0], dilation=[1, spread])


def ring_conv1d(x, weight, bias):
    return F.conv1d(wrap(x, 1), weight, bias)


def unturn(rows, flat):
    """Let the columns of all rows run as those of the row to come. In flat knitting the row before it ran the
    other way, the one before that the same way, and so on."""
    count = rows.shape[1]
    turned = paddle.arange(count, 0, -1) % 2 == 1
    back = paddle.logical_and((flat > 0.5).unsqueeze(-1), turned.unsqueeze(0))
    return paddle.where(back.unsqueeze(-1), paddle.flip(rows, axis=[2]), rows)


def ring_gap(width):
    i = paddle.arange(width)
    ahead = (i.unsqueeze(0) - i.unsqueeze(1)) % width
    return paddle.minimum(ahead, width - ahead)
