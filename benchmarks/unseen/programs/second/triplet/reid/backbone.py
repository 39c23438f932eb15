import paddle
import paddle.nn as nn
import paddle.nn.functional as F


def conv(cin, cout, k, s=1):
    return nn.Conv2D(cin, cout, k, stride=s, padding=k // 2, bias_attr=False)


class HalfInstance(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.batch = nn.BatchNorm2D(width // 2)
        self.instance = nn.InstanceNorm2D(width // 2)

    def forward(self, x):
        left, right = paddle.chunk(x, 2, axis=1)
        return paddle.concat([self.instance(left), self.batch(right)], axis=1)


class Residual(nn.Layer):
    def __init__(self, cin, cout, stride, mixed):
        super().__init__()
        self.main = nn.Sequential(
            ("a", conv(cin, cout, 3, stride)), ("na", HalfInstance(cout) if mixed else nn.BatchNorm2D(cout)), ("r", nn.ReLU()),
            ("b", conv(cout, cout, 3)), ("nb", nn.BatchNorm2D(cout)))
        self.side = nn.Sequential(nn.AvgPool2D(2, 2, ceil_mode=True, exclusive=False), conv(cin, cout, 1), nn.BatchNorm2D(cout)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.main(x) + self.side(x))


class Neck(nn.Layer):
    """batch normalisation whose shift is frozen (Paddle's own layer then gives its scale no gradient)"""

    def __init__(self, width):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([width], attr=paddle.ParamAttr(trainable=False), is_bias=True)
        self.register_buffer("_mean", paddle.zeros([width]))
        self.register_buffer("_variance", paddle.ones([width]))

    def forward(self, x):
        one = paddle.ones_like(self.weight)
        y = F.batch_norm(x, self._mean, self._variance, one, paddle.zeros_like(one), training=self.training, momentum=0.9)
        return y * self.weight + self.bias


class Embedder(nn.Layer):
    def __init__(self, people):
        super().__init__()
        self.person = nn.Linear(16, people, bias_attr=False, weight_attr=nn.initializer.Normal(std=0.2))
        self.neck = Neck(16)
        self.power = self.create_parameter([1], default_initializer=nn.initializer.Constant(3.0))
        self.trunk = nn.Sequential(
            conv(3, 8, 5), nn.BatchNorm2D(8), nn.ReLU(), nn.MaxPool2D(kernel_size=3, stride=2, padding=1),
            Residual(8, 8, 1, True), Residual(8, 16, 2, False))

    def gem(self, x):
        x = paddle.clip(x, min=1e-6) ** self.power
        return x.mean(axis=[2, 3]) ** (1.0 / self.power)

    def forward(self, x):
        f = self.gem(self.trunk(x))
        n = self.neck(f)
        return f, n / paddle.clip(n.norm(p=2, axis=1, keepdim=True), min=1e-12), self.person(n)
