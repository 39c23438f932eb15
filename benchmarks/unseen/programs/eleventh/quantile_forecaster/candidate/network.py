import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from modules import Causal, InstanceScale, Layer, Patches, linear


class Forecaster(nn.Layer):
    def __init__(self, window, net, n_quantiles=3):
        super().__init__()
        d, self.h, self.c, self.q = net["d_model"], window["horizon"], net["n_series"], n_quantiles
        self.scale = InstanceScale(self.c)
        self.patches = Patches(window["lookback"], self.c, d, net["patch_len"], net["patch_step"], net["drop"])
        self.layers = nn.LayerList([Layer(d, net["n_heads"], net["d_ff"], net["drop"]) for _ in range(net["n_layers"])])
        w = net["conv_width"]
        self.convs = nn.Sequential(*[Causal(w if i else 1, w, k) for i, k in enumerate(net["conv_dilations"])])
        self.readout = linear(self.patches.n_patches * d, self.h * self.q)
        self.calendar = linear(2, self.q, bias=False)
        self.poly = linear(2 * w, net["poly"] + 1)
        t = paddle.arange(1, self.h + 1, dtype=paddle.get_default_dtype()) / self.h
        self.register_buffer("powers", paddle.stack([t**k for k in range(net["poly"] + 1)], axis=0))

    def _transformer(self, x):
        h, carried = self.patches(x), None
        for layer in self.layers:
            h, carried = layer(h, carried)
        return self.readout(h.reshape([-1, h.shape[1] * h.shape[2]])).reshape([-1, self.c, self.h, self.q])

    def _trend(self, x):
        s = self.convs(x.transpose([0, 2, 1]).reshape([-1, 1, x.shape[1]]))
        s = paddle.concat([s[:, :, -1], paddle.max(s, axis=2)], axis=1)
        return paddle.matmul(self.poly(s), self.powers).reshape([-1, self.c, self.h])

    def forward(self, past, ahead):
        x, centre, spread = self.scale(past)
        raw = self._transformer(x) + self.calendar(ahead).unsqueeze(1)
        below, level, above = paddle.unbind(raw, axis=-1)
        level = level + self._trend(x)
        fan = paddle.stack([level - F.softplus(below), level, level + F.softplus(above)], axis=-1)
        return self.scale.invert(fan.transpose([0, 2, 1, 3]), centre, spread)
