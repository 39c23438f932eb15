import paddle
import paddle.nn.functional as F
from paddle import nn

from .plugin import make, part
from .starts import conv, dense


@part("net", "sweep_net")
class SweepNet(nn.Layer):
    """Curve [n, 3, grid] and environment [n, 4] -> logits of the faults, severity, place of the knee."""

    def __init__(self, entry, env_hidden, hidden, dropout, pool, body, labels, env_features=4):
        super().__init__()
        planes = entry["planes"]
        self.edge = entry["width"] // 2
        self.entry = conv(3, planes, entry["width"])
        self.entry_norm = nn.GroupNorm(entry["groups"], planes)
        blocks = []
        for spec in body:
            spec = dict(spec, cin=planes) if spec["use"] == "halve" else dict(spec, planes=planes)
            blocks.append(make("body", spec))
            planes = blocks[-1].planes
        self.body = nn.LayerList(blocks)
        self.env_in = dense(env_features, env_hidden)
        self.env_out = dense(env_hidden, 2 * planes)
        self.pool = make("pool", pool, planes)
        self.trunk = dense(2 * planes + 1, hidden)
        self.drop = nn.Dropout(dropout)
        self.fault = dense(hidden, labels)
        self.level = dense(hidden, labels, bias=-0.5)

    def modulate(self, x, env):
        both = self.env_out(F.silu(self.env_in(env))).unsqueeze(-1)
        gain, shift = both.chunk(2, axis=1)
        return x + x * gain + shift

    def forward(self, curve, env):
        x = F.pad(curve, [self.edge] * 2, mode="replicate", data_format="NCL")
        x = F.gelu(self.entry_norm(self.entry(x)), approximate=True)
        for block in self.body:
            x = block(x)
        power = curve[:, 1].reshape([curve.shape[0], -1, 2]).mean(axis=-1)
        summary, knee = self.pool(self.modulate(x, env), power)
        h = F.elu(self.trunk(paddle.concat([summary, knee.unsqueeze(-1)], axis=-1)))
        h = self.drop(h)
        logits = self.fault(h)
        belief = F.softmax(logits.detach(), axis=-1)
        each = belief * F.sigmoid(self.level(h))
        return {"fault": logits, "severity": each[:, 1:].sum(axis=-1), "knee": knee}
