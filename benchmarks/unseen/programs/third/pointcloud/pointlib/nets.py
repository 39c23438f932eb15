import paddle
import paddle.nn as nn

from .geometry import edges


def norm(kind, width, cfg):
    return {1: nn.BatchNorm1D, 2: nn.BatchNorm2D}[kind](width, **cfg["bn"])


class Alignment(nn.Layer):
    """predicts a k x k matrix near the identity"""

    def __init__(self, k, cfg):
        super().__init__()
        w = cfg["tnet_width"]
        self.size = k
        self.lift = nn.Conv1D(k, w, 1)
        self.widen = nn.Conv1D(w, 2 * w, 1)
        self.squeeze = nn.Linear(2 * w, w)
        self.out = nn.Linear(w, k * k, weight_attr=nn.initializer.Normal(std=0.02))
        self.norm_a = norm(1, w, cfg)
        self.norm_b = norm(1, 2 * w, cfg)

    def forward(self, p):
        h = p.transpose([0, 2, 1])
        h = nn.functional.relu(self.norm_a(self.lift(h)))
        h = nn.functional.relu(self.norm_b(self.widen(h)))
        h = h.max(axis=-1)
        m = self.out(nn.functional.relu(self.squeeze(h)))
        m = m.reshape([-1, self.size, self.size])
        return m + paddle.eye(self.size, dtype=m.dtype)


class EdgeBlock(nn.Layer):
    def __init__(self, cin, cout, cfg):
        super().__init__()
        self.k = cfg["neighbours"]
        self.conv = nn.Conv2D(2 * cin, cout, 1, bias_attr=False)
        self.bn = norm(2, cout, cfg)
        self.slope = cfg["slope"]

    def forward(self, p):
        e = edges(p, self.k).transpose([0, 3, 1, 2])
        e = nn.functional.leaky_relu(self.bn(self.conv(e)), self.slope)
        return e.max(axis=3).transpose([0, 2, 1])


class GraphPointNet(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        (c0, c1), (_, c2) = cfg["stages"]
        self.align_in = Alignment(c0, cfg)
        self.block1 = EdgeBlock(c0, c1, cfg)
        self.align_feat = Alignment(c1, cfg)
        self.block2 = EdgeBlock(c1, c2, cfg)
        self.fuse = nn.Conv1D(c1 + c2, cfg["fuse"], 1, bias_attr=False)
        self.fuse_bn = norm(1, cfg["fuse"], cfg)
        self.act = nn.LeakyReLU(cfg["slope"])
        self.fc = nn.Linear(2 * cfg["fuse"], cfg["hidden"], bias_attr=False)
        self.ln = nn.LayerNorm(cfg["hidden"], epsilon=1e-5)
        self.gelu = nn.GELU()
        self.drop = nn.Dropout(cfg["drop"])
        self.classify = nn.Linear(cfg["hidden"], cfg["classes"])

    def forward(self, cloud):
        cloud = paddle.bmm(cloud, self.align_in(cloud))
        low = self.block1(cloud)
        turn = self.align_feat(low)
        low = paddle.einsum("bnc,bcd->bnd", low, turn)
        high = self.block2(low)
        both = paddle.concat([low, high], axis=-1).transpose([0, 2, 1])
        f = self.act(self.fuse_bn(self.fuse(both)))
        g = paddle.concat([f.max(axis=2), f.mean(axis=2)], axis=1)
        h = self.drop(self.gelu(self.ln(self.fc(g))))
        return self.classify(h), turn
