import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class SplitCodebooks(nn.Layer):
    def __init__(self, channels, parts, size, momentum=0.9, smoothing=1e-3):
        super().__init__()
        self.parts, self.size = parts, size
        self.momentum, self.smoothing = momentum, smoothing
        start = paddle.normal(0.0, 0.5, shape=[parts, size, channels // parts])
        self.register_buffer("vectors", start)
        self.register_buffer("hits", paddle.ones([parts, size]))
        self.register_buffer("sums", start.clone())

    def _follow(self, points, onehot):
        with paddle.no_grad():
            m = self.momentum
            hits = m * self.hits + (1 - m) * onehot.sum(axis=1)
            sums = m * self.sums + (1 - m) * paddle.einsum("pnk,pnd->pkd", onehot, points)
            mass = hits.sum(axis=-1, keepdim=True)
            share = (hits + self.smoothing) / (mass + self.size * self.smoothing)
            self.hits.set_value(hits)
            self.sums.set_value(sums)
            self.vectors.set_value(sums / (share * mass).unsqueeze(2))

    def forward(self, z):
        n, c, h, w = z.shape
        points = z.reshape([n, self.parts, c // self.parts, h, w]).transpose([1, 0, 3, 4, 2]).reshape([self.parts, n * h * w, c // self.parts])
        # |x|^2 is the same for all codes, and left out
        far = self.vectors.square().sum(axis=-1).unsqueeze(1) - 2 * paddle.matmul(points, self.vectors, transpose_y=True)
        index = far.argmin(axis=-1)
        onehot = F.one_hot(index, self.size).astype(points.dtype)
        chosen = paddle.matmul(onehot, self.vectors)
        if self.training:
            self._follow(points.detach(), onehot)
        chosen = chosen.reshape([self.parts, n, h, w, c // self.parts]).transpose([1, 0, 4, 2, 3]).reshape([n, c, h, w])
        return chosen, index.reshape([self.parts, n, h, w]).transpose([1, 0, 2, 3])
