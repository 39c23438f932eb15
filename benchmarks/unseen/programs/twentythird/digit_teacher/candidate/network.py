"""Networks of the mean-teacher experiment (Paddle)."""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I

RAMP_UPDATES = 60


def conv_init(cout, k=3, slope=0.1):
    fan_out = cout * k * k
    return I.Normal(0.0, (2.0 / ((1 + slope ** 2) * fan_out)) ** 0.5)


class Stage(nn.Layer):
    def __init__(self, cin, cout, groups):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, 3, padding=1, bias_attr=False, weight_attr=paddle.ParamAttr(initializer=conv_init(cout)))
        self.norm = nn.GroupNorm(groups, cout, epsilon=1e-4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        return paddle.where(y > 0, y, 0.1 * y)


def unit(x):
    return F.normalize(x, axis=1, epsilon=1e-6)


class Classifier(nn.Layer):
    def __init__(self, widths=(12, 24), classes=10, scale=4.0):
        super().__init__()
        self.scale = scale
        self.first = Stage(1, widths[0], 3)
        self.second = Stage(widths[0], widths[1], 4)
        bound = (2.0 * 6.0 / (2 * widths[1] + 32)) ** 0.5
        self.mix = nn.Linear(
            2 * widths[1], 32,
            weight_attr=paddle.ParamAttr(initializer=I.Uniform(-bound, bound)),
            bias_attr=paddle.ParamAttr(initializer=I.Constant(0.05)),
        )
        self.proto = self.create_parameter([classes, 32], default_initializer=I.Normal(0.0, 32 ** -0.5))

    def features(self, x):
        x = self.second(F.max_pool2d(self.first(x), kernel_size=2, stride=2))
        flat = x.flatten(2)
        mu = flat.mean(-1)
        sd = paddle.sqrt(flat.var(-1, unbiased=False))
        return F.gelu(self.mix(paddle.concat([mu, sd], axis=-1)))

    def forward(self, x):
        return self.scale * paddle.einsum("bd,kd->bk", unit(self.features(x)), unit(self.proto))


class MeanTeacher(nn.Layer):
    def __init__(self):
        super().__init__()
        self.student = Classifier()
        self.teacher = Classifier()
        self.teacher.set_state_dict(self.student.state_dict())
        for p in self.teacher.parameters():
            p.stop_gradient = True
        self.register_buffer("updates", paddle.zeros([1]))

    def ramp(self):
        left = 1.0 - paddle.clip(self.updates / RAMP_UPDATES, max=1.0)
        return paddle.exp(-5.0 * left * left)

    def forward(self, weak, strong):
        target = self.teacher(weak).detach()
        n = weak.shape[0]
        both = self.student(paddle.concat([strong, weak], axis=0))
        return {"logits": both[:n], "clean": both[n:], "target": target, "ramp": self.ramp()}
