import paddle
import paddle.nn.functional as F
from paddle import nn


class SNMixin:
    """spectral normalisation for layers with a `weight`; the singular vector `u` is a buffer"""

    def init_sn(self, rows, iterations):
        self.iterations = iterations
        self.register_buffer("u", F.normalize(paddle.randn([rows]), axis=0))

    def matrix(self):
        raise NotImplementedError

    def normalised(self):
        m = self.matrix()
        with paddle.no_grad():
            fixed = m.detach()
            u = self.u.clone()
            v = F.normalize(paddle.mv(fixed.t(), u), axis=0)
            for _ in range(self.iterations if self.training else 0):
                u = F.normalize(paddle.mv(fixed, v), axis=0)
                v = F.normalize(paddle.mv(fixed.t(), u), axis=0)
            self.u.set_value(u)
        sigma = (u * paddle.matmul(m, v)).sum()
        return self.weight / sigma


class SNConv(nn.Conv2D, SNMixin):
    def __init__(self, cin, cout, kernel, stride=1, padding=1, iterations=1):
        super().__init__(cin, cout, kernel, stride=stride, padding=padding)
        self.init_sn(cout, iterations)

    def matrix(self):
        return self.weight.flatten(1)

    def forward(self, x):
        return F.conv2d(x, self.normalised(), bias=self.bias, stride=self._stride, padding=self._padding)


class SNLinear(nn.Linear, SNMixin):
    def __init__(self, cin, cout, iterations=1):
        super().__init__(cin, cout)
        self.init_sn(cout, iterations)

    def matrix(self):
        return self.weight.t()

    def forward(self, x):
        return F.linear(x, self.normalised(), self.bias)


class ClassBatchNorm(nn.Layer):
    """batch norm whose scale and shift come from a table of classes"""

    def __init__(self, width, classes, momentum):
        super().__init__()
        self.norm = nn.BatchNorm2D(width, momentum=momentum, weight_attr=False, bias_attr=False)
        self.table = nn.Embedding(classes, 2 * width)
        start = paddle.concat([paddle.normal(1.0, 0.05, [classes, width]), paddle.normal(0.0, 0.05, [classes, width])], axis=1)
        self.table.weight.set_value(start)

    def forward(self, x, y):
        scale, shift = paddle.split(self.table(y).unsqueeze([2, 3]), 2, axis=1)
        return self.norm(x) * scale + shift


def batch_deviation(x):
    mean = x.mean(axis=0, keepdim=True)
    spread = paddle.sqrt(((x - mean) ** 2).mean(axis=0) + 1e-8).mean()
    plane = spread * paddle.ones([x.shape[0], 1, x.shape[2], x.shape[3]], dtype=x.dtype)
    return paddle.concat([x, plane], axis=1)


def pixel_norm(z, eps=1e-8):
    return z * paddle.rsqrt((z * z).mean(axis=1, keepdim=True) + eps)
