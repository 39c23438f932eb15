import numpy as np
import paddle
from paddle import nn
from scipy.linalg import lu


class Affine(nn.Layer):
    def __init__(self, size):
        super().__init__()
        small = nn.initializer.Normal(0.0, 0.1)
        self.log_gain = self.create_parameter([size], default_initializer=small)
        self.shift = self.create_parameter([size], default_initializer=small)

    def forward(self, x):
        return (x + self.shift) * self.log_gain.exp(), self.log_gain.sum()

    def backward_map(self, y):
        return y / self.log_gain.exp() - self.shift


class Plu(nn.Layer):
    """a permutation times two triangles"""

    def __init__(self, size, seed):
        super().__init__()
        q, _ = np.linalg.qr(np.random.RandomState(seed).randn(size, size))
        p, low, up = lu(q)
        kind = paddle.get_default_dtype()
        assign = lambda a: paddle.create_parameter(
            list(a.shape), kind, default_initializer=nn.initializer.Assign(a.astype(kind)))
        self.lower = assign(low)
        self.upper = assign(np.triu(up, 1))
        self.log_diag = assign(np.log(np.abs(np.diag(up))))
        self.register_buffer("order", paddle.to_tensor(p.argmax(axis=1)))
        self.register_buffer("sign", paddle.to_tensor(np.sign(np.diag(up)).astype(kind)))

    def weight_matrix(self):
        n = self.sign.shape[0]
        low = paddle.tril(self.lower, -1) + paddle.eye(n, dtype=self.lower.dtype)
        up = paddle.triu(self.upper, 1) + paddle.diag(self.sign * self.log_diag.exp())
        return paddle.gather(paddle.matmul(low, up), self.order, axis=0)

    def forward(self, x):
        return paddle.matmul(x, self.weight_matrix(), transpose_y=True), self.log_diag.sum()

    def backward_map(self, y):
        return paddle.matmul(y, paddle.linalg.inv(self.weight_matrix()), transpose_y=True)


class MaskedAffine(nn.Layer):
    def __init__(self, size, hidden, start):
        super().__init__()
        keep = np.zeros(size)
        keep[start::2] = 1
        self.register_buffer("keep", paddle.to_tensor(keep.astype(paddle.get_default_dtype())))
        self.inner = nn.Linear(size, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.outer = nn.Linear(hidden, 2 * size)
        self.rescale = self.create_parameter([size], default_initializer=nn.initializer.Constant(0.7))

    def scale_shift(self, x):
        h = nn.functional.relu(self.inner(x * self.keep))
        h = nn.functional.relu(self.middle(h))
        raw, t = paddle.split(self.outer(h), num_or_sections=2, axis=-1)
        free = 1.0 - self.keep
        return self.rescale * raw.tanh() * free, free * t

    def forward(self, x):
        s, t = self.scale_shift(x)
        return x * paddle.exp(s) + t, s.sum(axis=-1)

    def backward_map(self, y):
        s, t = self.scale_shift(y)
        return (y - t) / paddle.exp(s)
