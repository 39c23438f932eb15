import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn.initializer import Constant, XavierUniform


def dense(n_in, n_out):
    return nn.Linear(
        n_in,
        n_out,
        weight_attr=ParamAttr(initializer=XavierUniform()),
        bias_attr=ParamAttr(initializer=Constant(0.0)),
    )


def attention(qkv, heads):
    batch, length, triple = qkv.shape
    size = triple // (3 * heads)
    q, k, v = qkv.reshape([batch, length, 3, heads, size]).transpose([2, 0, 3, 1, 4])
    weights = F.softmax(q.matmul(k, transpose_y=True) / size ** 0.5, axis=-1)
    mixed = weights.matmul(v).transpose([0, 2, 1, 3])
    return mixed.reshape([batch, length, heads * size])


class TransformerLayer(nn.Layer):
    def __init__(self, width, heads, expand, epsilon, scale=None):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width, epsilon=epsilon)
        self.before_dense = nn.LayerNorm(width, epsilon=epsilon)
        self.qkv = dense(width, 3 * width)
        self.mix = dense(width, width)
        self.up = dense(width, int(width * expand))
        self.down = dense(int(width * expand), width)
        self.scaled = scale is not None
        if self.scaled:
            start = Constant(scale)
            self.scale_a = self.create_parameter([width], default_initializer=start)
            self.scale_b = self.create_parameter([width], default_initializer=start)

    def forward(self, x):
        a = self.mix(attention(self.qkv(self.before_attention(x)), self.heads))
        x = x + (a * self.scale_a if self.scaled else a)
        b = self.down(F.gelu(self.up(self.before_dense(x))))
        return x + (b * self.scale_b if self.scaled else b)


def position_table(width, grid):
    """Columns first, then rows; a row of zeros in front for the class token."""
    quarter = width // 4
    frequency = 10000.0 ** (-paddle.arange(quarter, dtype="float64") / quarter)
    angles = paddle.arange(grid, dtype="float64").unsqueeze(1) * frequency
    waves = paddle.concat([paddle.sin(angles), paddle.cos(angles)], axis=1)
    across = waves.unsqueeze(0).expand([grid, grid, 2 * quarter])
    down = waves.unsqueeze(1).expand([grid, grid, 2 * quarter])
    table = paddle.concat([across, down], axis=-1).reshape([1, grid * grid, width])
    table = F.pad(table, [0, 0, 1, 0, 0, 0], pad_from_left_axis=True)
    return table.astype("float32")
