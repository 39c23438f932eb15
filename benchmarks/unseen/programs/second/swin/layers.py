import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def stochastic_depth(x, drop_prob, training):
    if not training or not drop_prob:
        return x
    keep = paddle.to_tensor(1.0 - drop_prob, dtype=x.dtype)
    noise = paddle.bernoulli(paddle.full([x.shape[0]] + [1] * (x.ndim - 1), 1.0 - drop_prob, dtype=x.dtype))
    return x / keep * noise


def position_index(n):
    """index into the table of (2n-1)^2 offsets for each pair of cells"""
    r, c = np.divmod(np.arange(n * n), n)
    return (r[:, None] - r[None] + n - 1) * (2 * n - 1) + (c[:, None] - c[None] + n - 1)


def shift_mask(side, n, s):
    zone = np.digitize(np.arange(side), [side - n, side - s])
    grid = zone[:, None] * 3 + zone[None]
    win = grid.reshape(side // n, n, side // n, n).transpose(0, 2, 1, 3).reshape(-1, n * n)
    return np.where(win[:, :, None] == win[:, None, :], 0.0, -100.0)


class SwinLayer(nn.Layer):
    def __init__(self, width, side, heads, n=4, shift=0, drop_prob=0.0):
        super().__init__()
        self.side, self.heads, self.n, self.shift, self.drop_prob = side, heads, n, shift, drop_prob
        self.fc2 = nn.Linear(2 * width, width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.ln2 = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)
        self.to_qkv = nn.Linear(width, 3 * width)
        self.bias_table = self.create_parameter([(2 * n - 1) ** 2, heads], default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        self.ln1 = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("index", paddle.to_tensor(position_index(n).ravel(), dtype="int64"), persistable=False)
        self.mask = shift_mask(side, n, shift) if shift else None

    def windows(self, x):
        b, c = x.shape[0], x.shape[-1]
        m = self.side // self.n
        return x.reshape([b, m, self.n, m, self.n, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, m * m, self.n * self.n, c])

    def join(self, x):
        b, c = x.shape[0], x.shape[-1]
        m = self.side // self.n
        return x.reshape([b, m, m, self.n, self.n, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, self.side, self.side, c])

    def attention(self, w):
        """w: [batch, windows, cells, width]"""
        b, m, t, c = w.shape
        q, k, v = self.to_qkv(w).reshape([b, m, t, 3, self.heads, c // self.heads]).unbind(axis=3)
        s = paddle.einsum("bmihd,bmjhd->bmhij", q, k) / (c // self.heads) ** 0.5
        s = s + paddle.index_select(self.bias_table, self.index, axis=0).reshape([t, t, self.heads]).transpose([2, 0, 1])
        if self.mask is not None:
            s = s + paddle.to_tensor(self.mask, dtype=s.dtype).unsqueeze(1)
        o = paddle.einsum("bmhij,bmjhd->bmihd", F.softmax(s), v)
        return self.out(o.flatten(3))

    def forward(self, x):
        b, t, c = x.shape
        y = self.ln1(x).reshape([b, self.side, self.side, c])
        if self.shift:
            y = y.roll([-self.shift] * 2, [1, 2])
        y = self.join(self.attention(self.windows(y)))
        if self.shift:
            y = y.roll([self.shift] * 2, [1, 2])
        x = x + stochastic_depth(y.flatten(1, 2), self.drop_prob, self.training)
        y = self.drop(self.fc2(self.drop(F.gelu(self.fc1(self.ln2(x))))))
        return x + stochastic_depth(y, self.drop_prob, self.training)


class Downsample(nn.Layer):
    def __init__(self, width, side):
        super().__init__()
        self.ln = nn.LayerNorm(4 * width)
        self.proj = nn.Linear(4 * width, 2 * width, bias_attr=False)
        self.side = side

    def forward(self, x):
        b, _, c = x.shape
        h = self.side // 2
        x = x.reshape([b, h, 2, h, 2, c]).transpose([0, 1, 3, 4, 2, 5]).reshape([b, h * h, 4 * c])
        return self.proj(self.ln(x))
