import paddle
import paddle.nn.functional as F
from paddle import nn


class Unit(nn.Layer):
    """convolution, norm, activation by name"""

    def __init__(self, i, o, k, stride=1, groups=1, act="hardswish"):
        super().__init__()
        self.norm = nn.BatchNorm2D(o, momentum=0.95, epsilon=1e-3)
        self.conv = nn.Conv2D(i, o, k, stride=stride, padding=(k - 1) // 2, groups=groups, bias_attr=False)
        self.act = getattr(F, act) if act else None

    def forward(self, x):
        x = self.norm(self.conv(x))
        return self.act(x) if self.act else x


class Bottleneck(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.expand = Unit(c, 2 * c, 1)
        self.depth = Unit(2 * c, 2 * c, 3, groups=2 * c)
        self.squeeze = nn.Conv2D(2 * c, c // 2, 1)
        self.excite = nn.Conv2D(c // 2, 2 * c, 1)
        self.project = Unit(2 * c, c, 1, act=None)

    def forward(self, x):
        y = self.depth(self.expand(x))
        gate = self.excite(F.relu(self.squeeze(y.mean(axis=[2, 3], keepdim=True))))
        gate = paddle.clip(gate + 3, 0, 6) / 6
        return self.project(y * gate) + x


class Small(nn.Layer):
    def __init__(self, n=7):
        super().__init__()
        self.body = nn.Sequential(Unit(3, 8, 3, stride=4), Bottleneck(8), Bottleneck(8))
        self.hidden = nn.Linear(8, 16)
        self.logits = nn.Linear(16, n)

    def forward(self, x):
        maps = self.body(x)
        h = F.hardswish(self.hidden(maps.mean(axis=[2, 3])))
        return maps, self.logits(F.dropout(h, p=0.2, training=self.training))


class Big(nn.Layer):
    """the frozen teacher: its norms always use their running statistics"""

    def __init__(self, n=7):
        super().__init__()
        self.a = nn.Conv2D(3, 16, 3, stride=2, padding=1)
        self.na = nn.BatchNorm2D(16, use_global_stats=True)
        self.b = nn.Conv2D(16, 24, 3, stride=2, padding=1)
        self.nb = nn.BatchNorm2D(24, use_global_stats=True)
        self.c = nn.Conv2D(24, 24, 3, padding="SAME")
        self.out = nn.Linear(24, n)
        for p in self.parameters():
            p.stop_gradient = True

    def forward(self, x):
        x = F.relu(self.na(self.a(x)))
        maps = F.relu(self.nb(self.b(x)))
        x = F.relu(maps + self.c(maps))
        return maps, self.out(F.adaptive_avg_pool2d(x, 1).squeeze([2, 3]))


class Pair(nn.Layer):
    def __init__(self):
        super().__init__()
        self.small, self.big = Small(), Big()
        self.bridge = nn.Conv2D(8, 24, 1)

    def forward(self, x):
        maps, logits = self.small(x)
        with paddle.no_grad():
            goal, teach = self.big(x)
        unit = lambda m: m / paddle.clip(paddle.linalg.norm(m, axis=1, keepdim=True), min=1e-12)
        return {"student": logits, "teacher": teach, "hint": (unit(self.bridge(maps).flatten(start_axis=2)), unit(goal.flatten(start_axis=2)))}
