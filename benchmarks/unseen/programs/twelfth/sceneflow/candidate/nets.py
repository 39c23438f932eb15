import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

from geometry import fps, nearest, spread_out, take
from settings import SETTINGS


def conv(dim, cin, cout, bias=True, weight=None):
    layer = nn.Conv2D if dim == 2 else nn.Conv1D
    weight = weight or I.KaimingNormal(negative_slope=SETTINGS["net"]["slope"], nonlinearity="leaky_relu")
    return layer(cin, cout, 1, weight_attr=weight, bias_attr=I.Constant(0.0) if bias else False)


def dense(cin, cout):
    return nn.Linear(cin, cout, weight_attr=I.XavierUniform(), bias_attr=I.Constant(0.05))


def norm(channels):
    return nn.BatchNorm2D(channels, momentum=0.9, epsilon=1e-3)


class Level(nn.Layer):
    def __init__(self, count, k, channels):
        super().__init__()
        self.count, self.k = count, k
        pairs = list(zip(channels[:-1], channels[1:]))
        self.convs = nn.LayerList([conv(2, a, b, bias=False) for a, b in pairs])
        self.norms = nn.LayerList([norm(b) for _, b in pairs])

    def forward(self, xyz, feats):
        centre = take(xyz, fps(xyz, self.count))
        idx = nearest(centre, xyz, self.k)
        local = take(xyz, idx) - centre.unsqueeze(2)
        x = paddle.concat([local, take(feats, idx)], axis=-1)
        x = x.transpose([0, 3, 2, 1])                       # [B, C, k, M]
        for c, n in zip(self.convs, self.norms):
            x = F.relu(n(c(x)))
        return centre, x.max(axis=2).transpose([0, 2, 1])


class Cost(nn.Layer):
    """Learnable cost volume: point to patch, then patch to patch."""

    def __init__(self, channels, width, k, slope):
        super().__init__()
        self.k, self.slope = k, slope
        self.lift = nn.LayerList([conv(2, 2 * channels + 3, width), conv(2, width, width)])
        self.across = nn.Sequential(dense(3, 8), nn.ReLU(), dense(8, width), nn.ReLU())
        self.within = nn.Sequential(dense(3, 8), nn.ReLU(), dense(8, width), nn.ReLU())

    def neighbourhood(self, xyz, other):
        idx = nearest(xyz, other, self.k)
        return idx, take(other, idx) - xyz.unsqueeze(2)

    def forward(self, xyz1, xyz2, f1, f2):
        idx, offset = self.neighbourhood(xyz1, xyz2)
        here = paddle.tile(f1.unsqueeze(2), [1, 1, self.k, 1])
        x = paddle.concat([here, take(f2, idx), offset], axis=-1).transpose([0, 3, 1, 2])
        for layer in self.lift:
            x = F.leaky_relu(layer(x), self.slope)
        cost = paddle.einsum("bnkc,bcnk->bnc", self.across(offset), x)
        idx, offset = self.neighbourhood(xyz1, xyz1)
        return (self.within(offset) * take(cost, idx)).sum(axis=2)


class Head(nn.Layer):
    def __init__(self, cin, width, slope, final=None):
        super().__init__()
        self.inner = conv(1, cin, width)
        self.norm = nn.GroupNorm(num_groups=4, num_channels=width)
        self.outer = conv(1, width, 3, weight=final)
        self.slope = slope

    def forward(self, x):
        x = self.norm(self.inner(x.transpose([0, 2, 1])))
        return self.outer(F.leaky_relu(x, self.slope)).transpose([0, 2, 1])


class FlowNet(nn.Layer):
    def __init__(self, net):
        super().__init__()
        first, second = net["encoder"]
        slope = net["slope"]
        self.enc1 = Level(**first)
        self.enc2 = Level(**second)
        self.cost = Cost(second["channels"][-1], net["cost"]["width"], net["cost"]["k"], slope)
        self.coarse = Head(*net["heads"]["coarse"], slope)
        self.refine = Head(*net["heads"]["refine"], slope, final=I.Normal(0.0, 0.02))
        self.bound = net["bound"]

    def pyramid(self, cloud):
        xyz, feats = cloud[:, :, :3], cloud[:, :, 3:]
        levels = [(xyz, feats)]
        for encoder in (self.enc1, self.enc2):
            levels.append(encoder(*levels[-1]))
        return levels

    def forward(self, source, target):
        mine, theirs = self.pyramid(source), self.pyramid(target)
        (p0, f0), (p1, f1), (p2, f2) = mine
        q2, g2 = theirs[-1]
        cost = self.cost(p2, q2, f2, g2)
        coarse = self.coarse(paddle.concat([f2, cost], axis=-1))
        coarse, cost = paddle.split(spread_out(p0, p2, paddle.concat([coarse, cost], axis=-1)), [3, -1], axis=-1)
        fine = self.refine(paddle.concat([spread_out(p0, p1, f1), coarse, cost, f0], axis=-1))
        fine = paddle.clip(fine, -self.bound, self.bound)
        return {"flow": coarse + fine, "coarse": coarse}
